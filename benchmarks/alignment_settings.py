"""Alignment of Hansards: what a model sees of words, and how counts become tables; chosen on 37 trial sentences.

    python -m benchmarks.alignment_settings                       # 30,000 pairs, five minutes
    python -m benchmarks.alignment_settings --pairs 30000,all     # half an hour more
    python -m benchmarks.alignment_settings --jumps               # what jumps depend on, instead
    python -m benchmarks.alignment_settings --rules               # preferences for links, instead
    python -m benchmarks.alignment_settings --symmetry            # both directions expect the same links, instead
    python -m benchmarks.alignment_settings --one-to-one --pairs 500   # no word is expected to be chosen twice, instead

The first pairs of Hansards and the 447 + 37 sentences of the NAACL 2003 task without their links (in ``--data`` or
``PYRO_UNSUP_DATA``). Five iterations of Model 1, then five by jumps, both by agreement, the probability of no link
learned. Links are those of competitive thresholding of the mean posterior at 0.5. Each row of the table is a setting:
alignment error rates in per cent on the trial sentences, which choose, and on the test sentences, which do not. Where
the rows of a table have the same words and tables, ``loglik`` is the log-likelihood of the training text under the
tables that were learned: of both directions, divided by the words of both languages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Vocab
from pyro_unsup.data.forms import Forms
from pyro_unsup.handlers.prefer import preferences_of
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.reproduce.berg_kirkpatrick_2010_alignment import scores, trained
from pyro_unsup.reproduce.liang_klein_2009_alignment import NEEDS, hansards
from pyro_unsup.tasks.decoding.aligner import decode

from .common import arguments, corpora, figure, markdown

ESTIMATORS: dict[str, Any] = {
    "relative frequencies": None,
    "VB, 0.01": pu.DirichletVB(0.01),
    "VB, 0.1": pu.DirichletVB(0.1),
    "smoothed l0, 1": pu.SparseL0(1.0),
    "smoothed l0, 10": pu.SparseL0(10.0),
}
PREFIXES = (None, 4, 5, 6, 7)
#: With all pairs, which take ten times as long.
FEW_ESTIMATORS, FEW_PREFIXES = ("relative frequencies", "VB, 0.1", "smoothed l0, 1"), (None, 5, 6, 7)
RULES: dict[str, list[Any]] = {
    "none": [],
    "cognates": [pu.components.cognates()],
    "punctuation": [pu.components.punctuation_alike()],
    "both": [pu.components.cognates(), pu.components.punctuation_alike()],
}
#: How many classes of words are tried where jumps depend on them.
CLASSES = (None, 5, 10, 20)
TABLES = ("translation_forward", "translation_backward")
#: Puts a handler around a model, or none; the text says how long sentences are.
Around = Callable[[Any, Bitext], Any]


def seen(text: Corpus, forms: Forms) -> Corpus:
    """A text as a model sees it."""
    words = forms.each(text.vocab)
    vocab = Vocab(dict.fromkeys(words))
    return Corpus(np.array([vocab.index[word] for word in words], np.int32)[text.words], text.offsets, vocab)


def error(fit: Any, gold: Bitext, how: str = "competitive") -> float:
    found = scores(fit, gold, decode(fit, gold, how, 0.5))
    return round(100 * found["aer"], 2)


def log_likelihood(fit: Any, text: Bitext) -> float:
    """Of both directions, a word of either language, whatever the directions learned from."""
    alone = copy(fit.model)
    alone.agreement = None
    # Variational Bayes has rows that sum to less than one.
    tables = alone.declarations()
    weights = {name: tables[name].layout.normalise(w) for name, w in fit.weights.items()}
    em = pu.EM(alone, init=pu.init.from_weights(weights))
    _, info = em.step(em.init(alone.index(text)))
    return round(info.objective / (text.source.tokens + text.target.tokens), 4)


def learning(size: int | None, data: str) -> None:
    found = corpora(data, *NEEDS)
    whole, test = hansards(found, size)
    trial, rows = found["hansards-trial"], []
    for prefix in FEW_PREFIXES if size is None else PREFIXES:
        forms = Forms(prefix=prefix)
        text = Bitext(seen(whole.source, forms), seen(whole.target, forms))
        words = Aligner.of(text)
        pairs = words.index(text)
        first = trained(words, pu.init.uniform(), pairs)
        model = HMMAligner.like(words, null="learn")
        for name in FEW_ESTIMATORS if size is None else ESTIMATORS:
            began, how = time.perf_counter(), ESTIMATORS[name]
            fit = trained(model, model.start_from(first), pairs, None if how is None else dict.fromkeys(TABLES, how))
            fit.config = {"prefix": prefix}
            row = {"trial": error(fit, trial), "test": error(fit, test)}
            letters = "all" if prefix is None else prefix
            figure(f"{len(text)} pairs, letters {letters}, {name}", **row, seconds=round(time.perf_counter() - began))
            rows.append([len(text), letters, name, row["trial"], row["test"]])
    markdown(["pairs", "letters", "tables", "trial", "test"], rows)
    best = min(rows, key=lambda row: row[3])
    print(
        f"\nThe trial sentences choose letters {best[1]}, {best[2]}: {best[3]:.2f} there, {best[4]:.2f} on the test.\n"
    )


def by_jumps(size: int | None, data: str) -> None:
    """What jumps depend on, the words and tables being those that the trial sentences choose."""
    found = corpora(data, *NEEDS)
    whole, test = hansards(found, size)
    trial, rows = found["hansards-trial"], []
    prefix, name = (6, "VB, 0.1") if size is None else (5, "smoothed l0, 1")
    text = Bitext(*(seen(one, Forms(prefix=prefix)) for one in (whole.source, whole.target)))
    words = Aligner.of(text)
    first = trained(words, pu.init.uniform(), words.index(text))
    for many in CLASSES:
        classes: Any = (
            (None, None) if many is None else tuple(classes_of(one, many) for one in (text.source, text.target))
        )
        for order in (1, 2):
            began = time.perf_counter()
            model = HMMAligner.like(words, null="learn", classes=classes, order=order)
            tables = dict.fromkeys(TABLES, ESTIMATORS[name])
            fit = trained(model, model.start_from(first), model.index(text), tables)
            fit.config = {"prefix": prefix}
            row, seconds = {"trial": error(fit, trial), "test": error(fit, test)}, round(time.perf_counter() - began)
            row["loglik"] = log_likelihood(fit, text)
            figure(f"{len(text)} pairs, order {order}, classes {many}", **row, seconds=seconds)
            rows.append([len(text), order, many or "none", *row.values(), seconds])
    markdown(["pairs", "order", "classes", "trial", "test", "loglik", "seconds"], rows)


def by_rules(size: int | None, data: str) -> None:
    """Preferences for links, in training and in decoding; whole words, relative frequencies."""
    found = corpora(data, *NEEDS)
    text, test = hansards(found, size)
    trial, rows = found["hansards-trial"], []
    words = Aligner.of(text)
    pairs = words.index(text)
    for name, rules in RULES.items():
        for weight in (0.0,) if not rules else (1.0, 2.0):
            model = HMMAligner.like(words, null="learn")
            liked = [pu.prefer(one, rules, weight) if rules else one for one in (words, model)]
            first = trained(liked[0], pu.init.uniform(), pairs)
            fit = trained(liked[1], model.start_from(first), pairs)
            fit.config, fit.model, fit.preferences = {}, model, preferences_of(liked[1])
            row = {"trial": error(fit, trial), "test": error(fit, test), "loglik": log_likelihood(fit, text)}
            figure(f"{len(text)} pairs, {name}, weight {weight:g}", **row)
            rows.append([len(text), name, weight, *row.values()])
    markdown(["pairs", "rules", "weight", "trial", "test", "loglik"], rows)


def by_symmetry(size: int | None, data: str) -> None:
    """Posterior regularisation by symmetry, beside two directions that do not know of each other and the product of
    their posteriors; whole words."""

    def symmetric(model: Any, text: Bitext) -> Any:
        return pu.regularise(model, pu.components.symmetric())

    regularised(
        size,
        data,
        {
            "apart": (plain, plain),
            "product": (plain, plain),
            "symmetric by jumps": (plain, symmetric),
            "symmetric": (symmetric, symmetric),
        },
    )


def by_one_to_one(size: int | None, data: str) -> None:
    """Posterior regularisation by bijectivity: in every pair of sentences, no word is expected to be chosen more than
    once; whole words."""

    def one_to_one(model: Any, text: Bitext) -> Any:
        longest = int(max(text.source.lengths.max(), text.target.lengths.max()))
        places = [pu.components.links_into(k) for k in range(1, longest + 1)]
        return pu.regularise(model, places, [1.0] * longest, each=True)

    regularised(size, data, {"one to one by jumps": (plain, one_to_one), "one to one": (one_to_one, one_to_one)})


def regularised(size: int | None, data: str, ways: Mapping[str, tuple[Around, Around]]) -> None:
    """A row for each way to learn, or two if decoding can keep to it.

    :param ways: by name, what is put around Model 1 and around the model by jumps.
    """
    found = corpora(data, *NEEDS)
    text, test = hansards(found, size)
    trial, rows, name = found["hansards-trial"], [], "VB, 0.1"
    for way, (before, around) in ways.items():
        words = Aligner.of(text, agreement="product" if way == "product" else None)
        pairs = words.index(text)
        first = trained(before(words, text), pu.init.uniform(), pairs)
        model = HMMAligner.like(words, null="learn")
        bound = around(model, text)
        fit = trained(bound, model.start_from(first), pairs, dict.fromkeys(TABLES, ESTIMATORS[name]))
        fit.model, fit.preferences = model, ()
        loglik = log_likelihood(fit, text)
        for kept in (False,) if bound is model else (True, False):
            fit.preferences = (bound.handler,) if kept else ()
            row = {"trial": error(fit, trial), "test": error(fit, test)}
            row |= {one: error(fit, test, one) for one in ("forward", "backward")} | {"loglik": loglik}
            took, decoding = round(fit.seconds / 5, 1), "kept" if kept else "free"
            figure(f"{len(text)} pairs, {way}, in decoding {decoding}", **row, seconds_an_iteration=took)
            rows.append([len(text), way, decoding, *row.values(), took])
    head = ["pairs", "directions", "in decoding", "trial", "test", "test, forward", "test, backward", "loglik"]
    markdown([*head, "seconds an iteration"], rows)


def plain(model: Any, text: Bitext) -> Any:
    return model


def classes_of(text: Corpus, many: int) -> Any:
    """Classes of words, by a tagger that learns from the same text."""
    fit = pu.EM(pu.models.Tagger(tags=many, vocab=text.vocab)).run(text, iterations=20, seed=0, progress=False)
    return pu.word_classes(fit, text)


def main() -> None:
    asked = arguments(__doc__, pairs="30000", data="", jumps=False, rules=False, symmetry=False, one_to_one=False)
    run = by_jumps if asked.jumps else by_rules if asked.rules else by_symmetry if asked.symmetry else learning
    run = by_one_to_one if asked.one_to_one else run
    for size in asked.pairs.split(","):
        run(None if size == "all" else int(size), asked.data)


if __name__ == "__main__":
    main()
