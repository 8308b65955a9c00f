"""What is known of hidden structure, as the command line spells it: components by name, with their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, isfunction, signature, unwrap
from typing import TYPE_CHECKING, Any, get_type_hints

from ..errors import UnsupError
from .common import printable, say

if TYPE_CHECKING:
    from ..distributions.parts import Parts
    from ..handlers.component import Named

#: How the values of components are written, of those that have some.
WRITTEN = {
    "verb-as-root": "TAG,TAG",
    "noun-sequence": "TAG,TAG",
    "short-dependencies": "N",
    "fragments": "TAG,TAG",
    "word-tags": "WORD:TAG|TAG,WORD:TAG",
    "spelled-with": "SYMBOLS",
    "near-diagonal": "SHARE",
    "seeds": "CLUSTER:WORD|WORD,CLUSTER:WORD",
}


def parts_of(kind: str) -> type[Parts]:
    """What the structure of a kind of model is made of: components look at one sort of parts.

    >>> from pyro_unsup.cli.knowledge import parts_of
    >>> parts_of("dmv").__name__
    'Arcs'
    """
    from ..distributions.parts import Arcs, Brackets, Clusters, Links, Pieces, States

    found: dict[str, type[Parts]] = {
        "tagger": States,
        "ccm": Brackets,
        "dmv": Arcs,
        "dmv-ccm": Arcs,
        "clusterer": Clusters,
        "segmenter": Pieces,
        "aligner": Links,
    }
    return found[kind]


def component_of(text: str, kind: str, model: Any = None) -> Named:
    """The component that a text names, with its values.

    >>> from pyro_unsup.cli.knowledge import component_of
    >>> component_of("short-dependencies=4", "dmv")
    short_dependencies(limit=4)
    >>> component_of("word_tags=the:DT,dog:NN|VB", "tagger")
    word_tags(tags=[['the', ['DT']], ['dog', ['NN', 'VB']]])
    """
    name, given, values = text.partition("=")
    name, makers = name.strip().replace("_", "-"), _known(kind)
    if name not in makers:
        raise UnsupError(f"--know {printable(name)}: nothing by this name is known of a {kind}, but "
                         f"{', '.join(makers)}")  # fmt: skip
    make = makers[name]
    settings = signature(make).parameters
    form = WRITTEN.get(name, "VALUE,VALUE" if settings else None)  # other packages register components too
    if form is None:
        if given:
            raise UnsupError(f"--know {name} has no values, actual {printable(values)!r:.80}")
        return make()
    (setting,) = settings.values()
    if not given and setting.default is not Parameter.empty:
        values = str(setting.default)
    read = {"short-dependencies": _whole, "near-diagonal": _share}.get(name)
    try:
        return make(**{setting.name: _labels(name, values, model) if read is None else read(values)})
    except UnsupError:
        raise
    except ValueError:
        actual = f", actual {printable(values)!r:.80}" if given else ""
        raise UnsupError(f"--know {name} needs {setting.name}, as in --know {name}={form}{actual}") from None


def _known(kind: str) -> dict[str, Callable[..., Named]]:
    """The registered components that say something of a kind of model, by their names on the command line.

    Those are functions whose first argument is of the type of the parts that the model's structure has.
    """
    from .. import registry

    made = {name: registry.find("components", name) for name in registry.names("components")}
    parts = parts_of(kind)
    return {
        name.replace("_", "-"): make
        for name, make in made.items()
        if isfunction(make) and parts in get_type_hints(unwrap(make)).values()
    }


def _whole(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError
    return float(text)


def _labels(name: str, values: str, model: Any) -> Any:
    """Labels in a list, or by what they belong to.

    :raises ValueError: if they are not written so.
    """
    pieces, vocab = _split(values, ","), getattr(model, "vocab", ())
    if name not in ("word-tags", "seeds"):
        found = [_plain(piece) for piece in pieces]
        if name == "spelled-with":  # a symbol may have several letters
            found = [one for piece in found for one in ([piece] if piece in vocab else piece)]
        _look_up(name, found, vocab)
        return found
    pairs = [_split(piece, ":") for piece in pieces]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    by_key: dict[str, list[str]] = {}
    for key, mine in pairs:
        by_key.setdefault(_plain(key), []).extend(_plain(one) for one in _split(mine, "|"))
    if name == "seeds":
        _look_up(name, [word for mine in by_key.values() for word in mine], vocab)
        return {int(cluster): mine for cluster, mine in by_key.items()}
    _look_up(name, list(by_key), vocab)
    if isinstance(getattr(model, "tags", None), int):
        return {word: [_number(tag, model.tags) for tag in mine] for word, mine in by_key.items()}
    return by_key


def _number(tag: str, tags: int) -> int:
    if not tag.isdecimal() or int(tag) >= tags:
        raise UnsupError(f"--know word-tags: without a dictionary tags are numbers, 0 to {tags - 1}, actual "
                         f"{printable(tag)!r:.40}")  # fmt: skip
    return int(tag)


def _split(text: str, mark: str) -> list[str]:
    """What is between marks that have no backslash before them.

    :raises ValueError: if that is nothing.
    """
    found = re.split(rf"(?<!\\){re.escape(mark)}", text)
    if not all(found):
        raise ValueError
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _look_up(name: str, labels: list[str], vocab: Any) -> None:
    """Tell which labels a text does not have; refuse, if it has none of them."""
    strange = [one for one in dict.fromkeys(labels) if one not in vocab]
    if not vocab or not strange:
        return
    what = f"--know {name}: the text that is learned from has no {', '.join(map(printable, strange))!s:.200}"
    if len(strange) == len(set(labels)):
        raise UnsupError(f"{what}, but such as {', '.join(printable(str(one)) for one in list(vocab)[:10])}")
    say(f"warning: {what}")
