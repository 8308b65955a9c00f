"""Features of tags, for dependency grammars."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...errors import TableError
from ..features.template import Function, Template, same

#: Nouns and verbs by tag set: the Penn Treebank's, Universal Dependencies', and the Chinese Treebank's.
TAG_CLASSES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "penn": (
        frozenset({"NN", "NNS", "NNP", "NNPS", "PRP", "WP"}),
        frozenset({"VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"}),
    ),
    "upos": (frozenset({"NOUN", "PROPN", "PRON"}), frozenset({"VERB", "AUX"})),
    "ctb": (frozenset({"NN", "NR", "NT", "PN"}), frozenset({"VV", "VA", "VC", "VE"})),
}


def dependency(
    classes: str | tuple[Collection[Any], Collection[Any]] = "penn",
    back_off: bool = True,
    only_true: bool = False,
    valence: int = 1,
) -> list[Template]:
    """That tags are alike: nouns, verbs, and both together, as heads and as children.

    The table ``attach`` (axes ``head``, ``direction``, ``child``) has features of child, head and direction; and of a
    class (is it a noun? a verb? either?) in place of the head, of the child, or of both. The table ``stop`` (``head``,
    ``direction``, ``adjacency``, ``decision``) has the head or its class, with direction and adjacency. Backed off, the
    same again without direction, and in ``stop`` also without adjacency. The table ``root`` (``child``) has the child
    or its class.

    :param classes: the tag set, a name in ``TAG_CLASSES``, or (nouns, verbs).
    :param back_off: whether to back off.
    :param only_true: a feature fires where a tag is of a class, and none where it is not.
    :param valence: of the model. With 2, features of ``attach`` know the adjacency too, and back off over it.

    >>> import pyro_unsup as pu
    >>> [template.name for template in pu.templates.dependency(back_off=False) if template.table == "stop"]
    ['stop', 'stop noun', 'stop verb', 'stop noun-verb']
    """
    if isinstance(classes, str) and classes not in TAG_CLASSES:
        raise TableError(f"classes must be one of {sorted(TAG_CLASSES)}, or (nouns, verbs), actual {classes!r:.80}")
    nouns, verbs = (frozenset(c) for c in (TAG_CLASSES[classes] if isinstance(classes, str) else classes))
    found: list[Template] = []

    def add(table: str, name: str, without: Collection[str] = (), **functions: Function) -> None:
        kept: dict[str, Any] = {axis: function for axis, function in functions.items() if axis not in without}
        found.append(Template(table, f"{name}, any {' and '.join(without)}" if without else name, **kept))

    both = {"head": same, "child": same}
    kinds: list[tuple[str, dict[str, Function]]] = [("attach", both)]
    stops: list[tuple[str, Function]] = [("stop", same)]
    roots: list[tuple[str, Function]] = [("root", same)]
    for name, members in (("noun", nouns), ("verb", verbs), ("noun-verb", nouns | verbs)):
        among = _among(members, only_true)
        kinds += [(f"{name} head", {**both, "head": among}), (f"{name} child", {**both, "child": among})]
        kinds.append((f"{name} both", {"head": among, "child": among}))
        stops.append((f"stop {name}", among))
        roots.append((f"root {name}", among))
    by_valence: dict[str, Function] = {"adjacency": same} if valence > 1 else {}
    fewer: list[tuple[str, ...]] = [("direction",)]
    fewer += [("adjacency",), ("direction", "adjacency")] if valence > 1 else []
    for less in [(), *fewer] if back_off else [()]:
        for name, functions in kinds:
            add("attach", name, less, direction=same, **by_valence, **functions)
    for without in ((), ("direction",), ("adjacency",)) if back_off else ((),):
        for name, head in stops:
            add("stop", name, without, head=head, direction=same, adjacency=same, decision=same)
    for name, child in roots:
        add("root", name, child=child)
    return found


def _among(members: frozenset[Any], only_true: bool) -> Function:
    if only_true:
        return lambda tag: True if tag in members else None
    return lambda tag: tag in members
