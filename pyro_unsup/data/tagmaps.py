"""Coarse tags: maps from a treebank's tags to fewer ones, for :meth:`pyro_unsup.data.corpus.Corpus.with_tags`.

``SMITH_EISNER_17`` maps the 45 tags of the Penn Treebank to the 17 of Smith & Eisner [1] ([2] prints ``W``
as ``WH``). Adjectives hold numbers and possessive pronouns, nouns hold pronouns, *there* and foreign words, and
verbs are one tag but for the two participles. The table is the one that later public taggers agree on, not taken from
[1] itself; they differ on ``$`` and do not place ``#``, so putting both with the symbols in ``INPUNC`` is our choice.

``SMITH_EISNER_17_WEB`` is the same with the names that later corpora add: round brackets as their own tags, and the
tags of web text (``ADD`` an address, ``AFX`` an affix, ``GW`` half of a split word, ``HYPH`` a hyphen, ``NFP``
an ornament, ``XX`` not known). Where those go is our choice too: the tag of what they are most like.

**References**

[1] Noah A. Smith and Jason Eisner (2005) "Contrastive estimation: training log-linear models on unlabeled data"
[2] Sharon Goldwater and Tom Griffiths (2007) "A fully Bayesian approach to unsupervised part-of-speech tagging"
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["SMITH_EISNER_17", "SMITH_EISNER_17_WEB"]

_MEMBERS = {
    "ADJ": "CD JJ JJR JJS PRP$",
    "ADV": "RB RBR RBS",
    "CONJ": "CC",
    "DET": "DT PDT",
    "ENDPUNC": ".",
    "INPUNC": ", : LS SYM UH $ #",
    "LPUNC": "`` -LRB-",
    "N": "EX FW NN NNP NNPS NNS PRP",
    "POS": "POS",
    "PREP": "IN",
    "PRT": "RP",
    "RPUNC": "'' -RRB-",
    "TO": "TO",
    "V": "MD VB VBD VBP VBZ",
    "VBG": "VBG",
    "VBN": "VBN",
    "W": "WDT WP WP$ WRB",
}
_WEB = {"(": "LPUNC", ")": "RPUNC", "ADD": "N", "AFX": "ADJ", "GW": "N", "HYPH": "INPUNC", "NFP": "INPUNC", "XX": "N"}

#: From the tags of the Penn Treebank to the seventeen that Smith and Eisner (2005) use.
SMITH_EISNER_17: Mapping[str, str] = MappingProxyType(
    {fine: coarse for coarse, members in _MEMBERS.items() for fine in members.split()}
)
#: The same, with the tags that English web treebanks have besides.
SMITH_EISNER_17_WEB: Mapping[str, str] = MappingProxyType({**SMITH_EISNER_17, **_WEB})
