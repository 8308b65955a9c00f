"""Models with features, small enough to be trained in no time."""

from __future__ import annotations

from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup import Template, same, templates
from pyro_unsup.models import CCM, Aligner, Clusterer, Segmenter, Tagger

CORPUS = pu.data.toy.sentences(25, seed=3)
BITEXT = ([[0, 1], [0, 2], [1, 2, 0], [2]], [[1, 0], [1, 2], [0, 2, 1], [2]])
SOURCE, TARGET = pu.data.Vocab(["the", "nation", "book"]), pu.data.Vocab(["nation", "la", "livre"])
LETTERS = pu.data.Vocab(list("acdeghost"))
SPEECH = [LETTERS.encode(line) for line in ["thedog", "adog", "seethedog", "thecat", "acat", "seeacat"]]
MASK = torch.ones(3, len(CORPUS.vocab), dtype=torch.bool)
MASK[0, ::2] = False


def ends_in(word: str) -> str:
    return word[-1]


def wide(span: tuple[Any, ...]) -> int:
    return len(span)


#: By name: a model, its data, and templates for some of its tables.
CASES: dict[str, tuple[Any, Any, list[Template]]] = {
    "tagger": (Tagger(3, CORPUS.vocab, stop=True), CORPUS, templates.tagging()),
    "dictionary": (Tagger(3, CORPUS.vocab, dictionary=MASK), CORPUS,
                   [Template("emission", "end", tag=same, word=ends_in)]),
    "trigram": (Tagger(2, CORPUS.vocab, order=2), CORPUS, [Template("transition", "bigram", previous=same, tag=same)]),
    "clusterer": (Clusterer(2, CORPUS.vocab), CORPUS, [Template("words", "end", cluster=same, word=ends_in)]),
    "segmenter": (Segmenter.of(SPEECH, vocab=LETTERS, max_length=4), SPEECH,
                  templates.segmentation([dict.fromkeys("aeo", "vowel")])),
    "ccm": (CCM.of(CORPUS, variant=2), CORPUS, [Template("yield", "wide", kind=same, **{"yield": wide}),
                                               Template("context", "all", kind=same, context=same)]),
    "aligner": (Aligner.of(BITEXT, agreement=None, source=SOURCE, target=TARGET), BITEXT,
                templates.alignment("translation_forward")),
}  # fmt: skip
