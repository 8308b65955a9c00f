"""Constraints as the command line spells them: components by name, with their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import Parameter, isfunction, signature
from typing import TYPE_CHECKING, Any, Literal

from .. import registry
from ..distributions import parts
from ..errors import UnsupError
from ..handlers import components
from ..handlers.component import parts_of
from ..handlers.components import universal_rules as universal
from ..tasks.shown import printable
from ..tasks.texts import format_of, say
from .rule_values import NUMBERS, WRITTEN, bounds, closed_classes, labels, look_up, number, plain, split, states_at

if TYPE_CHECKING:
    from ..handlers.component import Named
    from ..handlers.parts import Component
    from ..tasks.option import Given
    from ..tasks.task import Task

#: Components without a name on the command line: rules for arcs have an arrow, and links into a place are counted,
#: neither forbidden nor preferred.
NOT_NAMED = ("arc", "links-into", "root", "universal")
#: Those that say yes to few parts: they can be preferred, but to allow nothing else would leave no structure.
NO_CONSTRAINTS = (*NOT_NAMED, "cognates", "distance", "ends-in", "starts-with")
#: Those that speak of words, which not all examples have.
OF_WORDS = ("closed-classes", "word-tags")
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
                missing = "there is no rule" if not text.strip() else "a rule is missing beside & or |"
                raise UnsupError(f"--prefer {printable(text)!r:.80}: {missing}")
            of_arcs |= any(_of_arcs(one, task) for one in pieces)
            each = [_rule(one, task, model) for one in pieces]
            made.append(components.both(*each) if len(each) > 1 else each[0])
        (arcs if of_arcs else others).append(components.either(*made) if len(made) > 1 else made[0])
    return [*([components.either(*arcs) if len(arcs) > 1 else arcs[0]] if arcs else []), *others]


def heads_remark(texts: Sequence[str], model: Any, file: str, format: str) -> str | None:
    """What to say where tags alone chose universal rules for function heads, and the file has heads of the other kind;
    None if there is nothing to say."""
    vocab = getattr(model, "vocab", ())
    alone = any(re.search(r"(^|[&|~\s])universal($|[&|\s])", text) for text in texts)
    if not alone or isinstance(vocab, int) or universal.HEADS[universal.tag_set(list(vocab))] == "content":
        return None
    if format_of(file, format) != "conllu":
        return None
    return (
        "warning: heads in CoNLL-U files are mostly content words (nouns and verbs), but the rules were chosen by the "
        "tags, and are for function words as heads; for trees as in Universal Dependencies, give --prefer "
        "universal=content"
    )


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
    head, arrow, child = (piece.strip() for piece in text.partition("->"))
    direction: Literal["left", "right"] | None = None
    if head and (asked := re.search(r"(?<!\\):(left|right)$", child)):
        child, direction = child[: asked.start()], "left" if asked[1] == "left" else "right"
    vocab = getattr(model, "vocab", ())
    if not arrow:
        heads = text.partition("=")[2] or None
        if heads not in (None, *universal.RULES):
            raise UnsupError(f"--prefer universal={printable(heads or '')}: heads are {' or '.join(universal.RULES)}")
        if model is None:
            return components.universal(heads=heads)
        tags = list(vocab) if not isinstance(vocab, int) else []
        known = universal.tag_set(tags)
        chosen, many = heads or universal.HEADS[known], len(universal.known(tags, known))
        if heads is None:
            other = "function" if chosen == "content" else "content"
            say(f"universal rules for the tags of {known}, which has {many} of the {len(tags)} tags here, with "
                f"{chosen} words as heads; the others: universal={other}")  # fmt: skip
        return components.universal(known, chosen)  # by name, so that `show` tells which
    try:
        children = [plain(one) for one in split(child, ",")]
        side = re.search(r"(?<!\\):([^:]*)$", child) if head else None
        heads_ = [plain(one) for one in split(head, ",")] if head else []
    except ValueError:
        raise UnsupError(f"--prefer {printable(text)!r:.80}: a rule for arcs is written TAG,TAG->TAG,TAG, with :left "
                         "or :right behind it for one side only, and one for the root ->TAG,TAG") from None  # fmt: skip
    if side is not None and vocab and children[-1] not in vocab:
        raise UnsupError(
            f"--prefer {printable(text)!r:.80}: the side of a child is written :left or :right, actual "
            f"{printable(side[1])!r:.40}. A colon of the tag's own has a backslash before it"
        )
    for tag in (*heads_, *children):
        if tag not in vocab and any(mark in tag for mark in "|()"):
            raise UnsupError(f"--prefer {printable(text)!r:.80}: tags are separated by commas, rules by | with white "
                             f"space around it, and there are no brackets; actual {printable(tag)!r:.40}")  # fmt: skip
    for tags in (heads_, children):
        look_up(f"--prefer {printable(text)}", tags, vocab)
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
    if not task.has_words:
        makers = {one: make for one, make in makers.items() if one not in OF_WORDS}
    if name not in makers:
        what = "constraint" if option == "--constraint" else "rule"
        arcs = ", universal, HEAD->CHILD and ->ROOT" if task.parts == "Arcs" and what == "rule" else ""
        no_words = f", because {task.examples} have no words" if not task.has_words and name in OF_WORDS else ""
        raise UnsupError(f"{option} {printable(name)}: {task.name} has no {what} of this name{no_words}; there are "
                         f"{', '.join(makers) or 'none'}{arcs}")  # fmt: skip
    make = makers[name]
    settings = signature(make).parameters
    form = WRITTEN.get(name, "VALUE,VALUE" if settings else None)  # other packages register components too
    if form is None:
        if given:
            raise UnsupError(f"{option} {name} has no values, actual {printable(values)!r:.80}")
        return make()
    if name == "closed-classes":
        return make(*closed_classes(values, model, option))
    if name == "states-at":
        return make(states_at(values, model, option))
    if form == "N-M":
        return make(*bounds(name, values, option))
    (setting,) = settings.values()
    if not given and setting.default is not Parameter.empty:
        values = str(setting.default)
    if name in NUMBERS:
        return make(number(name, setting.name, values, option))
    try:
        return make(**{setting.name: labels(name, values, model, option)})
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
