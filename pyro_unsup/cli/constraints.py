"""Constraints as the command line spells them: components by name, with their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, isfunction, signature, unwrap
from typing import TYPE_CHECKING, Any, get_type_hints

from .. import registry
from ..distributions import parts
from ..errors import UnsupError
from ..tasks.shown import printable
from ..tasks.texts import say

if TYPE_CHECKING:
    from ..handlers.component import Named
    from ..tasks.task import Task

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


def component_of(text: str, task: Task, model: Any = None) -> Named:
    """The component that a text names, with its values.

    >>> from pyro_unsup.cli.constraints import component_of
    >>> from pyro_unsup.tasks import find
    >>> component_of("short-dependencies=4", find("dmv"))
    short_dependencies(limit=4)
    >>> component_of("word_tags=the:DT,dog:NN|VB", find("tagger"))
    word_tags(tags=[['the', ['DT']], ['dog', ['NN', 'VB']]])
    """
    name, given, values = text.partition("=")
    name, makers = name.strip().replace("_", "-"), _known(task)
    if name not in makers:
        raise UnsupError(f"--constraint {printable(name)}: no constraint of a {task.name} has this name; there are "
                         f"{', '.join(makers)}")  # fmt: skip
    make = makers[name]
    settings = signature(make).parameters
    form = WRITTEN.get(name, "VALUE,VALUE" if settings else None)  # other packages register components too
    if form is None:
        if given:
            raise UnsupError(f"--constraint {name} has no values, actual {printable(values)!r:.80}")
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
        raise UnsupError(f"--constraint {name} needs {setting.name}, as in {name}={form}{actual}") from None


def _known(task: Task) -> dict[str, Callable[..., Named]]:
    """The registered components that say something of a task's structure, by their names on the command line.

    Those are functions whose first argument is of the type of the parts that the model's structure has.
    """
    made = {name: registry.find("components", name) for name in registry.names("components")}
    sort = getattr(parts, task.parts or "")
    return {
        name.replace("_", "-"): make
        for name, make in made.items()
        if isfunction(make) and sort in get_type_hints(unwrap(make)).values()
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
        raise UnsupError(f"--constraint word-tags: without a dictionary tags are numbers, 0 to {tags - 1}, actual "
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
    """Warn of labels that the text does not have. Refuse if it has none of them."""
    strange = [one for one in dict.fromkeys(labels) if one not in vocab]
    if not vocab or not strange:
        return
    what = f"--constraint {name}: the text that is learned from has no {', '.join(map(printable, strange))!s:.200}"
    if len(strange) == len(set(labels)):
        raise UnsupError(f"{what}, but such as {', '.join(printable(str(one)) for one in list(vocab)[:10])}")
    say(f"warning: {what}")
