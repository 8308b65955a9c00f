"""Treebanks to learn grammar from, how tables are learned from them under universal rules, and how that is scored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pyro_unsup as pu
from pyro_unsup.data.brackets import PUNCTUATION
from pyro_unsup.models import DMV

from .common import corpora

STARTS, LONGEST = 8, 10
#: The noise around the harmonic start.
SCALE = 0.3
LENGTHS = {"10": 10, "20": 20, "40": 40, "all": 100_000}


@dataclass(frozen=True)
class Treebank:
    """A text to learn from.

    :param train: its name among the corpora; ``test`` is what is scored.
    :param tags: its tag set.
    """

    name: str
    train: str
    test: str
    tags: str = "upos"
    valence: int = 1


TREEBANKS = {
    "ewt": Treebank("UD English-EWT", "ewt-upos", "ewt-upos-test"),
    "fr": Treebank("UD French-Sequoia", "fr-bare", "fr-bare-test"),
    "zh": Treebank("UD Chinese-GSD", "zh-upos", "zh-upos-test"),
    "wsj": Treebank("the WSJ sample", "wsj-heads", "wsj-heads", "penn", valence=2),
    "it": Treebank("UD Italian-ISDT", "it-upos", "it-upos-test"),
    "id": Treebank("UD Indonesian-GSD", "id-upos", "id-upos-test"),
}


@cache
def sentences(data: str, name: str, longest: int) -> pu.data.Corpus:
    """Tags in the place of words, of sentences up to a length."""
    whole = corpora(data, name)[name]
    return pu.data.short_tag_sequences(whole, longest, [*PUNCTUATION, "SYM"] if name == "wsj-heads" else [])


def by_tables(bank: Treebank, text: pu.data.Corpus, rules: bool, start: int, scale: float = SCALE) -> pu.Fit:
    """Forty iterations of EM, one added to every count."""
    model = DMV.of(text, valence=bank.valence)
    init = pu.init.around(model.harmonic_start(text), scale if start else 0.0)
    engine = pu.EM(ruled(model, rules), pu.AddLambda(1.0), init)
    return engine.run(text, iterations=40, tolerance=0, seed=start, progress=False)


def ruled(model: DMV, rules: bool) -> Any:
    """The model, under universal rules if it should be."""
    return pu.prefer(model, pu.components.universal()) if rules else model


def right(found: pu.Fit | pu.workflow.Consensus, gold: pu.data.Corpus) -> float:
    """Per cent of heads."""
    return 100 * found.evaluate(gold)["directed"]
