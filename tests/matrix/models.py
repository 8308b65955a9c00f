"""The models of the matrix, each with data so small that every algorithm is done with them in no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import Template, components, same, templates
from pyro_unsup.data import Bitext, Corpus, Documents, Vocab
from pyro_unsup.distributions.parts import States
from pyro_unsup.handlers.component import component
from pyro_unsup.models import (
    CCM,
    DMV,
    DMVCCM,
    HMM,
    PCFG,
    Aligner,
    Clusterer,
    HMMAligner,
    Segmenter,
    SimplePCFG,
    Tagger,
)
from pyro_unsup.models.series import Series


@dataclass(frozen=True, eq=False)
class Model:
    """A column of the matrix.

    :param data: what the model is called with.
    :param right: whether what was decoded is a structure of these data.
    :param templates: of features.
    :param component: what is known of the structure; of an enumerated model, something that has no place there.
    :param reference: what to skew annealing toward, if the structure has something; otherwise a fit is taken.
    :param labelled: the same of sampled labels, if they are not what is decoded.
    :param hidden: the enumerated variables of a user's own model.
    :param believed: the model with a prior for all parameters, if it has none for some.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    data: tuple[Any, ...]
    right: Callable[[Any], bool]
    templates: Sequence[Template]
    component: Any
    reference: str | None = None
    hidden: tuple[str, ...] = ()
    labelled: Callable[[Any], bool] | None = None
    believed: Callable[[], Callable[..., Any]] | None = None

    @property
    def few(self) -> tuple[Any, ...]:
        """Some of the data: enough for a sampler that takes the gradient many times a draw."""
        return tuple(x[::3] if isinstance(x, Tensor) else x.select([0, 1]) for x in self.data)

    def load(self, folder: Any) -> pu.Fit:
        """A fit, from a folder that cannot hold a model of the user's own."""
        return pu.load(folder, model=self.make()) if self.hidden else pu.load(folder)


# -- data


def text(*lines: str) -> Corpus:
    """Words between spaces."""
    sentences = [line.split() for line in lines]
    words = [word for sentence in sentences for word in sentence]
    vocab = Vocab(sorted(set(words)))
    return Corpus(vocab.encode(words), np.cumsum([0, *map(len, sentences)]), vocab)


def bags(*lines: str) -> Documents:
    """Documents of words between spaces."""
    corpus = text(*lines)
    return Documents.count(corpus.words, corpus.offsets, corpus.vocab)


WORDS = text("the dog barks", "the cat sleeps", "a dog sees the cat", "a cat barks", "the dog sleeps")
TAGS = text("DET NOUN VERB", "NOUN VERB", "DET NOUN VERB DET NOUN", "NOUN VERB NOUN", "VERB DET NOUN")
LETTERS = text("t h e d o g", "a d o g", "t h e c a t", "a c a t", "d o g a")
BITEXT = Bitext(
    text("the house", "the book", "a house", "a book is here"),
    text("das haus", "das buch", "ein haus", "hier ist ein buch"),
)
DOCUMENTS = bags("ball goal ball", "orbit moon", "goal ball team", "moon orbit star moon", "team ball")
COLOUR = torch.tensor([0, 0, 1, 0, 2, 2, 1, 2])
SIZE = torch.tensor([-2.1, -1.7, -1.2, -2.4, 1.9, 2.2, 1.1, 1.6], dtype=torch.float64)
ANSWERS = torch.tensor([[0, 1], [1, 1], [0, 1], [2, 0], [2, 0], [1, 0], [2, 0], [0, 1]])
COUNTS = Series.of([[2, 1, 3, 2, 9, 8, 11], [10, 7, 9, 1, 2], [3, 2, 8, 12, 10, 9], [1, 2, 2]])
PLACES = Series.of([
    [[-2.1, 1.2], [-1.7, 0.8], [-1.2, 1.9], [1.9, -0.7], [2.2, -1.4]],
    [[1.1, -1.1], [1.6, -0.2], [2.4, -1.3], [-1.5, 0.4]],
    [[-2.4, 1.1], [-1.9, 0.3], [2.0, -0.9], [1.7, -1.8], [1.2, -0.4], [-1.8, 1.5]],
    [[1.4, -1.0], [2.1, -0.6]],
])  # fmt: skip
LEVELS = Series.of([[-2.1, -1.7, -1.2, 1.9, 2.2], [1.1, 1.6, 2.4, -1.5], [-2.4, -1.9, 2.0, 1.7, 1.2, -1.8], [1.4, 2.1]])


# -- models of a user's own


def marbles(colour: Tensor, size: Tensor) -> None:
    """A mixture: each class has its colours, which are counted, and its mean size, which is not."""
    share = pu.table("share", 2, prior=1.5)
    paint = pu.table("paint", 2, 3, prior=1.5, axes={"class": 2, "colour": ["red", "green", "blue"]})
    with pyro.plate("classes", 2):
        mean = pyro.sample("mean", dist.Normal(torch.tensor([-1.0, 1.0]), 3.0))
    with pyro.plate("marbles", len(colour)):
        kind = pyro.sample("class", pu.Categorical(share))
        pyro.sample("colour", pu.Categorical(paint[kind]), obs=colour)
        pyro.sample("size", dist.Normal(mean[kind], 1.0), obs=size)


def survey(answers: Tensor) -> None:
    """Two hidden variables, the second of which depends on the first; nothing but tables."""
    town = pu.table("town", 2, prior=1.5, axes={"town": 2})
    mood = pu.table("mood", 2, 3, prior=1.5, axes={"town": 2, "mood": 3})
    first = pu.table("first", 3, 3, prior=1.5, axes={"mood": 3, "answer": 3})
    second = pu.table("second", 2, 2, prior=1.5, axes={"town": 2, "answer": 2})
    with pyro.plate("people", len(answers)):
        home = pyro.sample("home", pu.Categorical(town))
        feels = pyro.sample("feels", pu.Categorical(mood[home]))
        pyro.sample("answer_1", pu.Categorical(first[feels]), obs=answers[:, 0])
        pyro.sample("answer_2", pu.Categorical(second[home]), obs=answers[:, 1])


# -- what is a structure of data


def labels(size: int, kinds: int) -> Callable[[Any], bool]:
    """One label for each of so many things."""
    return lambda found: found.shape == (size,) and int(found.min()) >= 0 and int(found.max()) < kinds


def heads(corpus: Corpus) -> Callable[[Any], bool]:
    """A head for every word, in the same sentence, and one root a sentence."""

    def right(found: Tensor) -> bool:
        each = found.split(corpus.lengths.tolist())
        return all(int((one == 0).sum()) == 1 and int(one.min()) >= 0 and int(one.max()) <= len(one) for one in each)

    return right


def brackets(corpus: Corpus) -> Callable[[Any], bool]:
    """Of all spans of n words, the 2n - 1 constituents of a binary tree."""
    n = corpus.lengths
    return lambda found: len(found) == (n * (n + 1) // 2).sum() and int(found.sum()) == (2 * n - 1).sum()


def labelled(corpus: Corpus) -> Callable[[Any], bool]:
    """The same with a label for each, and -1 for all other spans."""
    n = corpus.lengths
    return lambda found: len(found) == (n * (n + 1) // 2).sum() and int((found >= 0).sum()) == (2 * n - 1).sum()


def links(bitext: Bitext) -> Callable[[Any], bool]:
    """Pairs of words, each with the number of its pair of sentences."""
    return lambda found: found.shape[1:] == (3,) and bool((found[:, 0] < len(bitext)).all())


# -- features


def ends_in(word: str) -> str:
    return word[-1]


def wide(span: tuple[Any, ...]) -> int:
    return len(span)


SPANS = [Template("yield", "wide", kind=same, **{"yield": wide}), Template("context", "all", kind=same, context=same)]
RULES = [
    Template("rules", "pair", nonterminal=same, parts=same),
    Template("emission", "all", preterminal=same, word=same),
]
SIDES = [
    *(Template(side, "part", nonterminal=same, part=same) for side in ("left", "right")),
    Template("emission", "all", preterminal=same, word=same),
]
TREES = templates.dependency("upos")
KNOWN_TAGS = components.word_tags({"the": 0, "dog": 1})
VERBS = components.verb_as_root("VERB")
NO_DET_LAST = ~components.ends_in("DET")
FRAGMENTS = components.fragments("VERB")
DIAGONAL = components.near_diagonal(0.4)


@component
def low_first(parts: States, level: float) -> Tensor:
    """Observations below a level come from the first state."""
    return (parts.words.unsqueeze(-1) >= level) | (parts.state == 0)


@component
def left_first(parts: States, level: float) -> Tensor:
    """Vectors whose first coordinate is below a level come from the first state."""
    return (parts.words[..., :1] >= level) | (parts.state == 0)


pu.registry.register("components", "low_first", low_first)
pu.registry.register("components", "left_first", left_first)

MODELS = {
    model.name: model
    for model in [
        Model(
            "bigram tagger",
            lambda: Tagger(2, WORDS.vocab),
            (WORDS,),
            labels(WORDS.tokens, 2),
            templates.tagging(),
            KNOWN_TAGS,
        ),
        Model(
            "trigram tagger",
            lambda: Tagger(2, WORDS.vocab, order=2, stop=True),
            (WORDS,),
            labels(WORDS.tokens, 2),
            [Template("transition", "bigram", previous=same, tag=same)],
            KNOWN_TAGS,
        ),
        Model("DMV", lambda: DMV.of(TAGS), (TAGS,), heads(TAGS), TREES, VERBS, "harmonic"),
        Model("CCM 1", lambda: CCM.of(TAGS), (TAGS,), brackets(TAGS), SPANS, FRAGMENTS, "split"),
        Model("CCM 2", lambda: CCM.of(TAGS, variant=2), (TAGS,), brackets(TAGS), SPANS, FRAGMENTS),
        Model("PCFG", lambda: PCFG.of(TAGS, 2, 3), (TAGS,), labelled(TAGS), RULES, NO_DET_LAST, "split"),
        Model("SimplePCFG", lambda: SimplePCFG.of(TAGS, 2, 3), (TAGS,), labelled(TAGS), SIDES, NO_DET_LAST, "split"),
        Model("DMV + CCM", lambda: DMVCCM.of(TAGS), (TAGS,), heads(TAGS), [*TREES, *SPANS], VERBS),
        Model(
            "segmenter",
            lambda: Segmenter.of(LETTERS, max_length=4),
            (LETTERS,),
            labels(LETTERS.tokens, 2),
            templates.segmentation([dict.fromkeys("aeo", "vowel")]),
            components.spelled_with("aeo"),
        ),
        Model(
            "Model 1",
            lambda: Aligner.of(BITEXT, agreement=None),
            (BITEXT,),
            links(BITEXT),
            templates.alignment("translation_forward"),
            DIAGONAL,
            labelled=labels(BITEXT.source.tokens + BITEXT.target.tokens, 5),
        ),
        Model(
            "HMM aligner",
            lambda: HMMAligner.of(BITEXT, agreement=None),
            (BITEXT,),
            links(BITEXT),
            templates.alignment("translation_forward"),
            DIAGONAL,
            labelled=labels(BITEXT.source.tokens + BITEXT.target.tokens, 5),
        ),
        Model(
            "clusterer",
            lambda: Clusterer(2, DOCUMENTS.vocab),
            (DOCUMENTS,),
            labels(len(DOCUMENTS), 2),
            [Template("words", "end", cluster=same, word=ends_in)],
            components.seeds({0: ["goal"], 1: ["moon"]}),
        ),
        Model(
            "HMM, Poisson",
            lambda: HMM(2, "poisson"),
            (COUNTS,),
            labels(len(COUNTS.values), 2),
            [Template("transition", "move", state=same, next=same)],
            low_first(2.0),
            believed=lambda: HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.3)}),
        ),
        Model(
            "HMM, normal",
            lambda: HMM(2, "normal"),
            (LEVELS,),
            labels(len(LEVELS.values), 2),
            [Template("transition", "move", state=same, next=same)],
            low_first(-1.6),
            believed=lambda: HMM(2, prior={"loc": dist.Normal(0.0, 3.0), "scale": dist.LogNormal(0.0, 0.5)}),
        ),
        Model(
            "HMM, vectors",
            lambda: HMM(2, "multivariate_normal", dim=2),
            (PLACES,),
            labels(len(PLACES.values), 2),
            [Template("transition", "move", state=same, next=same)],
            left_first(-1.6),
        ),
        Model(
            "own, tables only",
            lambda: survey,
            (ANSWERS,),
            lambda found: labels(len(ANSWERS), 2)(found["home"]) and labels(len(ANSWERS), 3)(found["feels"]),
            [Template("first", "answer", mood=same, answer=same)],
            KNOWN_TAGS,
            hidden=("home", "feels"),
        ),
        Model(
            "own, Gaussian",
            lambda: marbles,
            (COLOUR, SIZE),
            lambda found: labels(len(COLOUR), 2)(found["class"]),
            [Template("paint", "colour", **{"class": same, "colour": same})],
            KNOWN_TAGS,
            hidden=("class",),
        ),
    ]
}
