"""Features for the translations of words: Model 1, then alignment by jumps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pyro_unsup as pu

from ..data import Bitext
from ..models import Aligner, HMMAligner
from ..models.pairs import Pairs
from ..tasks import find
from ..tasks.decoding.aligner import decode
from .corpora import Corpora
from .experiment import Column, Found, Published, Row, Table
from .liang_klein_2009_alignment import NEEDS, SMALL, hansards

scores = find("aligner").scores

PAIRS = 10_000
ITERATIONS = 5
WAYS = ("forward", "backward", "intersection", "union", "grow-diag-final-and")
BY_POSTERIORS = (*itertools.product(("threshold", "competitive"), (0.3, 0.4, 0.5)),)
SHOWN = ("intersection", "grow-diag-final-and", "competitive 0.5")


def errors(fit: Any, gold: Bitext) -> dict[str, float]:
    """Alignment error rates in per cent, by how links are found; those by posteriors with their threshold."""
    found = {how: scores(fit, gold, decode(fit, gold, how)) for how in WAYS}
    found |= {f"{how} {least}": scores(fit, gold, decode(fit, gold, how, least)) for how, least in BY_POSTERIORS}
    return {name: 100 * one["aer"] for name, one in found.items()}


def trained(model: Any, start: Any, pairs: Pairs, estimate: Any = None, iterations: int = ITERATIONS) -> Any:
    """Something to decode with after so many iterations of EM; the loss in the last of them, and their seconds."""
    em, loss = pu.EM(model, estimate, start), 0.0
    state = em.init(pairs)
    began = time.perf_counter()
    for _ in range(iterations):
        state, info = em.step(state)
        loss = -info.objective
    seconds = time.perf_counter() - began
    return SimpleNamespace(model=model, weights=state.weights, config={}, preferences=(), loss=loss, seconds=seconds)


def _pairs_of_words(**settings: Any) -> Callable[[str], list[pu.Template]]:
    return lambda table: pu.templates.alignment(table, **settings)


#: There is no dictionary for these languages here, so nothing of it.
TEMPLATES: dict[str, Callable[[str], list[pu.Template]]] = {
    "all": _pairs_of_words(),
    "all but characters": _pairs_of_words(characters=False),
    "basic": _pairs_of_words(stem=None, prefix=None, characters=False, edit_distance=False),
}


@cache
def task(corpora: Corpora, small: bool) -> tuple[Aligner, Pairs, Bitext]:
    """Model 1 by agreement, the text as it sees it, and gold."""
    text, gold = hansards(corpora, *(SMALL if small else (PAIRS,)))
    words = Aligner.of(text, agreement="product")
    return words, words.index(text), gold


def align(
    templates: str | None, kappa: float, lbfgs_iterations: int, corpora: Corpora, seed: int, small: bool
) -> Found:
    """Model 1, then by jumps from there.

    :param templates: their name; None is no features.
    :param lbfgs_iterations: L-BFGS steps in an M step.
    """
    words, pairs, gold = task(corpora, small)
    jumps = HMMAligner.like(words)

    def features(**start: Any) -> dict[str, pu.LogLinear] | None:
        if templates is None:
            return None
        tables = ("translation_forward", "translation_backward")
        steps = 2 if small else lbfgs_iterations
        return {table: pu.LogLinear(TEMPLATES[templates](table), kappa, steps, **start) for table in tables}

    limit = 2 if small else ITERATIONS
    first = trained(words, pu.init.uniform() if templates is None else None, pairs, features(start=0.0), limit)
    then = trained(jumps, jumps.start_from(first), pairs, features(fit_start=True), limit)
    return {
        f"{name}, {how}": x for name, fit in (("Model 1", first), ("HMM", then)) for how, x in errors(fit, gold).items()
    }


def _row(templates: str | None, kappa: float = 0.0, lbfgs_iterations: int = 0, *paper: float) -> Row:
    name = "no features" if templates is None else f"{templates}, kappa {kappa:g}, {lbfgs_iterations} steps"
    published: dict[str, Published] = dict(
        zip(("Model 1, competitive 0.5", "HMM, competitive 0.5"), paper, strict=False)
    )
    return Row(name, partial(align, templates, kappa, lbfgs_iterations), NEEDS, published, trials=1)


ALIGNMENT = Table(
    "alignment",
    "Table 1: alignment",
    "The first 10,000 pairs of Hansards and the 447 + 37 sentences of the NAACL 2003 task without their links. Five "
    "iterations of Model 1 from uniform tables, then five by jumps from there, both by agreement of the two "
    "directions; M steps take up to so many L-BFGS steps. Error rates in per cent on the 447; competitive is "
    "thresholding of the mean posterior at 0.5, which the paper has. The paper aligns as many pairs of Chinese and "
    "English (FBIS, NIST 2002) and has a dictionary among its features; it does not give kappa.",
    tuple(Column(f"{model}, {way}", f"{model}: {way}") for model in ("Model 1", "HMM") for way in SHOWN),
    (
        _row(None, 0.0, 0, 38.0, 33.8),
        _row("all", 0.001, 100, 35.6, 30.0),
        _row("all but characters", 0.001, 100),
        _row("basic", 0.001, 20),
        _row("all", 0.1, 20),
        _row("all but characters", 0.1, 20),
    ),
    minutes=15,
)
