"""Constraints as the command line spells them: components by name, with their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import Parameter, isfunction, signature
from typing import TYPE_CHECKING, Any

from .. import registry
from ..distributions import parts
from ..errors import UnsupError
from ..handlers import components
from ..handlers.component import parts_of
from ..handlers.components import universal_rules as universal
from ..tasks.shown import printable
from ..tasks.texts import say

if TYPE_CHECKING:
    from ..handlers.component import Named
    from ..handlers.parts import Component
    from ..tasks.option import Given
    from ..tasks.task import Task

#: How the values of components are written, of those that have some.
WRITTEN = {
    "verb-as-root": "TAG,TAG",
    "noun-sequence": "TAG,TAG",
    "short-dependencies": "N",
    "distance": "N-M",
    "ends-in": "TAG,TAG",
    "starts-with": "TAG,TAG",
    "width": "N-M",
    "fragments": "TAG,TAG",
    "word-tags": "WORD:TAG|TAG,WORD:TAG",
    "spelled-with": "SYMBOLS",
    "near-diagonal": "SHARE",
    "seeds": "CLUSTER:WORD|WORD,CLUSTER:WORD",
    "cognates": "LETTERS",
    "closed-classes": "TAG|TAG:WORD|WORD",
}


#: Components without a name on the command line: rules for arcs have an arrow, and links into a place are counted,
#: neither forbidden nor preferred.
NOT_NAMED = ("arc", "links-into", "root", "universal")
#: Those that say yes to few parts: they can be preferred, but to allow nothing else would leave no structure.
NO_CONSTRAINTS = (*NOT_NAMED, "cognates", "distance", "ends-in", "starts-with")
#: Kinds of parts of which a structure can have those of certain widths alone. Every tree has single words and itself.
WIDTHS_ALONE = ("Pieces", "Stretches")


def preferred(given: Given) -> list[str]:
    """The rules that options name."""
    root = getattr(given, "prefer_root", None)
    return [*(getattr(given, "prefer", None) or ()), *([f"->{root}"] if root else [])]


def preferences_of(texts: Sequence[str], task: Task, model: Any = None) -> list[Component]:
    """The rules that texts name. Those for arcs are one rule: an arc that obeys one of them obeys. Rules with & between
    them are one: what obeys all of them obeys. Of rules with | between them, and white space around it, one is enough.

    >>> from pyro_unsup.cli.constraints import preferences_of
    >>> from pyro_unsup.tasks import find
    >>> preferences_of(["VERB->NOUN,PRON", "->VERB", "~short-dependencies=4"], find("dmv"))
    [either(arc(heads=['VERB'], children=['NOUN', 'PRON'], direction=None), root(tags=['VERB'])), \
~short_dependencies(limit=4)]
    >>> preferences_of(["NOUN->ADJ:left & short-dependencies=2"], find("dmv"))
    [both(arc(heads=['NOUN'], children=['ADJ'], direction='left'), short_dependencies(limit=2))]
    >>> preferences_of(["distance=-3", "ADP->NOUN & ~distance=1"], find("dmv"))
    [both(arc(heads=['ADP'], children=['NOUN'], direction=None), ~distance(least=1, most=1)), distance(least=1, most=3)]
    >>> preferences_of(["width=2-4 & starts-with=DT,PDT", "~ends-in=IN"], find("ccm"))
    [both(width(least=2, most=4), starts_with(tags=['DT', 'PDT'])), ~ends_in(tags=['IN'])]
    >>> preferences_of(["VERB->NOUN | ->VERB", "~NOUN->VERB"], find("dmv"))
    [either(arc(heads=['VERB'], children=['NOUN'], direction=None), root(tags=['VERB'])), \
~arc(heads=['NOUN'], children=['VERB'], direction=None)]
    """
    arcs: list[Component] = []
    others: list[Component] = []
    for text in texts:
        made, of_arcs = [], False
        for alternative in re.split(r"\s\|\s", text):
            pieces = [piece.strip() for piece in re.split(r"(?<!\\)&", alternative)]
            if not all(pieces):
                raise UnsupError(f"--prefer {printable(text)!r:.80}: a rule is missing beside & or |")
            of_arcs |= any(_of_arcs(one, task) for one in pieces)
            each = [_rule(one, task, model) for one in pieces]
            made.append(components.both(*each) if len(each) > 1 else each[0])
        (arcs if of_arcs else others).append(components.either(*made) if len(made) > 1 else made[0])
    return [*([components.either(*arcs) if len(arcs) > 1 else arcs[0]] if arcs else []), *others]


def _of_arcs(text: str, task: Task) -> bool:
    """Whether it is a rule for arcs that says yes to some of them."""
    return task.parts == "Arcs" and ("->" in text or text.partition("=")[0] == "universal") and text[0] != "~"


def _rule(text: str, task: Task, model: Any) -> Component:
    """One rule; ~ turns it round."""
    if text.startswith("~"):
        return components.opposite(_rule(text[1:].strip(), task, model))
    if _of_arcs(text, task):
        return _arc_rule(text, model)
    return component_of(text, task, model, "--prefer")


def _arc_rule(text: str, model: Any) -> Named:
    """A rule for arcs: HEADS->CHILDREN, with :left or :right behind it if that is where the child is; ->ROOTS,
    universal or universal=HEADS."""
    head, arrow, child = text.partition("->")
    direction = None
    if head and (asked := re.search(r"(?<!\\):(left|right)$", child)):
        child, direction = child[: asked.start()], asked[1]
    vocab = getattr(model, "vocab", ())
    if not arrow:
        heads = text.partition("=")[2] or None
        if heads not in (None, *universal.RULES):
            raise UnsupError(f"--prefer universal={printable(heads or '')}: heads are {' or '.join(universal.RULES)}")
        if model is None:
            return components.universal(heads=heads)
        known = universal.tag_set(list(vocab) if not isinstance(vocab, int) else [])
        chosen = heads or universal.HEADS[known]
        if heads is None:
            other = "function" if chosen == "content" else "content"
            say(f"universal rules for the tags of {known}, with {chosen} words as heads; the others: universal={other}")
        return components.universal(known, chosen)  # by name, so that `show` tells which
    try:
        children = [_plain(one) for one in _split(child, ",")]
        heads_ = [_plain(one) for one in _split(head, ",")] if head else []
    except ValueError:
        raise UnsupError(f"--prefer {printable(text)!r:.80}: a rule for arcs is written TAG,TAG->TAG,TAG, with :left "
                         "or :right behind it for one side only, and one for the root ->TAG,TAG") from None  # fmt: skip
    for tags in (heads_, children):
        _look_up(f"--prefer {printable(text)}", tags, vocab)
    return components.arc(heads_, children, direction) if head else components.root(children)


def component_of(text: str, task: Task, model: Any = None, option: str = "--constraint") -> Named:
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
    few: tuple[str, ...] = NO_CONSTRAINTS if option == "--constraint" else NOT_NAMED
    if option == "--constraint" and task.parts not in WIDTHS_ALONE:
        few = (*few, "width")
    makers = {one: make for one, make in makers.items() if one not in few}
    if name not in makers:
        what = "constraint" if option == "--constraint" else "rule"
        arcs = ", universal, HEAD->CHILD and ->ROOT" if task.parts == "Arcs" and what == "rule" else ""
        raise UnsupError(f"{option} {printable(name)}: {task.name} has no {what} of this name; there are "
                         f"{', '.join(makers) or 'none'}{arcs}")  # fmt: skip
    make = makers[name]
    settings = signature(make).parameters
    form = WRITTEN.get(name, "VALUE,VALUE" if settings else None)  # other packages register components too
    if form is None:
        if given:
            raise UnsupError(f"{option} {name} has no values, actual {printable(values)!r:.80}")
        return make()
    if name == "closed-classes":
        return make(*_closed_classes(values, model, option))
    if form == "N-M":
        return make(*_bounds(name, values, option))
    (setting,) = settings.values()
    if not given and setting.default is not Parameter.empty:
        values = str(setting.default)
    read = {"short-dependencies": _whole, "near-diagonal": _share, "cognates": _whole}.get(name)
    try:
        return make(**{setting.name: _labels(name, values, model, option) if read is None else read(values)})
    except UnsupError:
        raise
    except ValueError:
        actual = f", actual {printable(values)!r:.80}" if given else ""
        raise UnsupError(f"{option} {name} needs {setting.name}, as in {name}={form}{actual}") from None


def _known(task: Task) -> dict[str, Callable[..., Named]]:
    """The registered components that say something of a task's structure, by their names on the command line.

    Those are functions whose first argument is of the type of the parts that the model's structure has.
    """
    made = {name: registry.find("components", name) for name in registry.names("components")}
    sort = getattr(parts, task.parts or "")
    return {name.replace("_", "-"): make for name, make in made.items() if isfunction(make) and sort in parts_of(make)}


def _whole(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError
    return float(text)


def _bounds(name: str, text: str, option: str) -> tuple[int, int | None]:
    """From ``3``, ``1-3``, ``-3`` or ``3-`` to two bounds, both included."""
    least, dash, most = (piece.strip() for piece in text.partition("-"))
    try:
        if not least and not most:
            raise ValueError
        low = _whole(least) if least else 1
        high = (_whole(most) if most else None) if dash else low
        if high is not None and high < low:
            raise ValueError
    except ValueError:
        raise UnsupError(
            f"{option} {name} needs bounds, 1 or more, as in {name}=2-5, {name}=-5 (at most 5), {name}=2- (at least 2) "
            f"or {name}=3, actual {printable(text)!r:.80}"
        ) from None
    return low, high


def _closed_classes(values: str, model: Any, option: str) -> tuple[list[Any], list[str]]:
    """Tags and their words."""
    try:
        tags, words = _split(values, ":")
        found = [_plain(one) for one in _split(tags, "|")], [_plain(one) for one in _split(words, "|")]
    except ValueError:
        form = WRITTEN["closed-classes"]
        raise UnsupError(
            f"{option} closed-classes needs tags and their words, as in closed-classes={form}, actual "
            f"{printable(values)!r:.80}"
        ) from None
    _look_up(f"{option} closed-classes", found[1], getattr(model, "vocab", ()))
    if isinstance(known := getattr(model, "tags", None), int):
        return [_number(tag, known, f"{option} closed-classes") for tag in found[0]], found[1]
    return found


def _labels(name: str, values: str, model: Any, option: str) -> Any:
    """Labels in a list, or by what they belong to.

    :raises ValueError: if they are not written so.
    """
    pieces, vocab = _split(values, ","), getattr(model, "vocab", ())
    if name not in ("word-tags", "seeds"):
        found = [_plain(piece) for piece in pieces]
        if name == "spelled-with":  # a symbol may have several letters
            found = [one for piece in found for one in ([piece] if piece in vocab else piece)]
        _look_up(f"{option} {name}", found, vocab)
        return found
    pairs = [_split(piece, ":") for piece in pieces]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    by_key: dict[str, list[str]] = {}
    for key, mine in pairs:
        by_key.setdefault(_plain(key), []).extend(_plain(one) for one in _split(mine, "|"))
    if name == "seeds":
        _look_up(f"{option} {name}", [word for mine in by_key.values() for word in mine], vocab)
        return {int(cluster): mine for cluster, mine in by_key.items()}
    _look_up(f"{option} {name}", list(by_key), vocab)
    if isinstance(getattr(model, "tags", None), int):
        name = f"{option} {name}"
        return {word: [_number(tag, model.tags, name) for tag in mine] for word, mine in by_key.items()}
    return by_key


def _number(tag: str, tags: int, name: str) -> int:
    if not tag.isdecimal() or int(tag) >= tags:
        raise UnsupError(f"{name}: without a dictionary tags are numbers, 0 to {tags - 1}, actual "
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
    what = f"{name}: the text that is learned from has no {', '.join(map(printable, strange))!s:.200}"
    if len(strange) == len(set(labels)):
        raise UnsupError(f"{what}, but such as {', '.join(printable(str(one)) for one in list(vocab)[:10])}")
    say(f"warning: {what}")
