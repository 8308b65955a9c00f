"""Rules of grammar that hold in about every language, over the tag sets that are in use.

A rule names a head and the children that it may well have. Where two annotations differ, both are here: with
``"content"`` heads, as in Universal Dependencies, nouns and verbs are the heads of adpositions and auxiliaries; with
``"function"`` heads, as in the Penn Treebank, it is the other way round. The rules with function heads are those of
Naseem et al. (2010), without verb -> adposition; those with content heads are the same turned round.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...distributions.parts import Arcs
from ...errors import StructureError
from ..component import component

#: By the kind of heads, the children of each class; None is the root.
RULES: dict[str, dict[str | None, tuple[str, ...]]] = {
    "content": {
        None: ("VERB", "NOUN"),
        "VERB": ("NOUN", "PRON", "ADV", "VERB", "AUX"),
        "NOUN": ("ADJ", "DET", "NOUN", "NUM", "ADP"),
        "ADJ": ("ADV",),
    },
    "function": {
        None: ("AUX", "VERB"),
        "VERB": ("NOUN", "PRON", "ADV", "VERB"),
        "AUX": ("VERB",),
        "NOUN": ("ADJ", "DET", "NOUN", "NUM"),
        "ADP": ("NOUN",),
        "ADJ": ("ADV",),
    },
}

#: By tag set, the tags of each class. Sources: universaldependencies.org/u/pos; M. Marcus et al. (1993) "Building a
#: large annotated corpus of English: the Penn Treebank"; F. Xia (2000) "The part-of-speech tagging guidelines for the
#: Penn Chinese Treebank". Chinese treebanks of Universal Dependencies mix Chinese and English tags, so ctb has both.
CLASSES: dict[str, dict[str, tuple[str, ...]]] = {
    "upos": {
        "VERB": ("VERB",),
        "AUX": ("AUX",),
        "NOUN": ("NOUN", "PROPN"),
        "PRON": ("PRON",),
        "DET": ("DET",),
        "ADJ": ("ADJ",),
        "ADV": ("ADV",),
        "NUM": ("NUM",),
        "ADP": ("ADP",),
    },
    "penn": {
        "VERB": ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"),
        "AUX": ("MD",),
        "NOUN": ("NN", "NNS", "NNP", "NNPS"),
        "PRON": ("PRP", "WP", "EX"),
        "DET": ("DT", "PDT", "WDT", "PRP$", "WP$"),
        "ADJ": ("JJ", "JJR", "JJS"),
        "ADV": ("RB", "RBR", "RBS", "WRB"),
        "NUM": ("CD",),
        "ADP": ("IN",),
    },
    "ctb": {
        "VERB": ("VV", "VA", "VC", "VE"),
        "AUX": ("MD",),
        "NOUN": ("NN", "NR", "NT", "NNP", "NNB"),
        "PRON": ("PN", "PRP"),
        "DET": ("DT",),
        "ADJ": ("JJ",),
        "ADV": ("AD", "RB"),
        "NUM": ("CD", "OD"),
        "ADP": ("P", "IN"),
    },
}
#: The heads that treebanks with these tags mostly have.
HEADS = {"upos": "content", "penn": "function", "ctb": "function"}


@component
def universal(parts: Arcs, tags: str | None = None, heads: str | None = None) -> Tensor:
    """Arcs that obey a rule which holds in about every language, such as from a verb to a noun.

    :param tags: the tag set: ``upos``, ``penn`` or ``ctb`` (the Chinese Treebank's). By default the one that has most
        of the tags at hand.
    :param heads: ``content`` (nouns and verbs are heads of adpositions and auxiliaries, as in Universal Dependencies)
        or ``function`` (the other way round, as in the Penn Treebank). By default what goes with the tag set. It is
        your choice what a head is: rules for heads of the other kind give trees of that kind.

    >>> import pyro_unsup as pu
    >>> model = pu.prefer(pu.models.DMV(tags=pu.data.Vocab(["DET", "NOUN", "VERB"])), pu.components.universal())
    >>> pu.EM(model, init=pu.init.uniform()).run([[0, 1, 2]], iterations=0).posterior([[0, 1, 2]]).mode()
    tensor([2, 3, 0])

    **References:** [1] T. Naseem, H. Chen, R. Barzilay and M. Johnson (2010) "Using universal linguistic knowledge to
    guide grammar induction".
    """
    names = list(parts.labels["child"].names) if "child" in parts.labels else []
    found = tag_set(names) if tags is None else _one_of("tags", tags, CLASSES)
    classes, rules = CLASSES[found], RULES[_one_of("heads", heads or HEADS[found], RULES)]
    obeys = parts.head < 0
    for head, children in rules.items():
        allowed = {tag for one in children for tag in classes[one]}
        here = parts.head == 0 if head is None else parts.has("tag_of_head", set(classes[head]).__contains__)
        obeys = obeys | (here & parts.has("tag_of_child", allowed.__contains__))
    return obeys


def tag_set(names: list[Any]) -> str:
    """The tag set that has most of these tags, nouns and verbs among them.

    >>> from pyro_unsup.handlers.components.universal_rules import tag_set
    >>> tag_set(["DT", "NN", "VBZ"])
    'penn'
    """
    found = max(CLASSES, key=lambda one: len(known(names, one)))
    mine = known(names, found)
    # One tag that two tag sets share by chance says nothing: P is a preposition here, and a pronoun elsewhere.
    if not all(any(tag in CLASSES[found][one] for tag in mine) for one in ("NOUN", "VERB")):
        but = f"; of these, {found} has {', '.join(mine)} alone" if mine else ""
        raise StructureError(
            f"universal rules know the nouns and verbs of {', '.join(CLASSES)}, but the model has the tags "
            f"{names[:10]!s:.200}{but}. Take the column of universal tags (--column upos, tags='upos'), or write rules "
            "for these tags (HEAD->CHILD and ->ROOT; pu.components.arc and root)"
        )
    return found


def known(names: list[Any], tags: str) -> list[Any]:
    """Those of some tags that a tag set has.

    >>> from pyro_unsup.handlers.components.universal_rules import known
    >>> known(["DT", "NN", "-LRB-"], "penn")
    ['DT', 'NN']
    """
    return [name for name in names if any(name in one for one in CLASSES[tags].values())]


def _one_of(what: str, given: str, known: dict[str, Any]) -> str:
    if given not in known:
        raise StructureError(f"{what} should be one of {', '.join(known)}, actual {given!r:.40}")
    return given
