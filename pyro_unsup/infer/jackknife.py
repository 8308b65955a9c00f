"""Training on parts of the data, side by side: how much does what is learned depend on which examples there are?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ..array import Array
from ..errors import FitError
from ..evaluate import Jackknife, random_parts
from ..results import Fit
from .progress import progress_bar
from .runs import one_thread


class Examples(Protocol):
    """Data that can be cut: a corpus, a bitext, documents."""

    def __len__(self) -> int: ...

    def select(self, indices: Any) -> Any: ...


@dataclass(frozen=True)
class Trials:
    """What came of training on parts of the data.

    :param fits: one a trial.
    :param trained_on: the examples of each trial, by number.
    :param scores: by name, of each trial, with their mean and deviation.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.toy.sentences(12, seed=1)
    >>> def make(data):
    ...     return pu.EM(pu.models.Tagger(tags=2, vocab=sentences.vocab))
    >>> def score(fit, mine, rest):
    ...     return fit.objective / mine.tokens
    >>> trials = pu.infer.jackknife_fits(make, sentences, score, parts=3, processes=1, progress=False, iterations=2)
    >>> [len(numbers) for numbers in trials.trained_on], len(trials.scores["score"].values)
    ([8, 8, 8], 3)
    """

    fits: list[Fit]
    trained_on: list[Array]
    scores: dict[str, Jackknife]


def jackknife_fits(
    make: Callable[[Any], Any],
    data: Examples,
    score: Callable[[Fit, Any, Any], float | Mapping[str, float]],
    parts: int = 10,
    *,
    use: Literal["rest", "part"] = "rest",
    seed: int = 0,
    processes: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> Trials:
    """Deal the examples out into parts at random, and train without each of them in turn, in parallel processes.

    The trials share most of their examples, so they are not independent, and their deviation is smaller than that of
    fresh data would be. With ``use="part"`` each trial has one part for itself.

    :param make: from the data of a trial to a fresh engine. It makes the model too, if that depends on the data.
    :param data: what is cut into parts.
    :param score: of a fit, the data it was trained on, and the data that it was not; a number, or numbers by name. The
        first are what Smith & Eisner (2004) score, the second would be cross-validation.
    :param parts: how many; as many as there are examples leaves each out on its own.
    :param seed: deals the examples out; and trial i runs with the seed ``seed + i``.
    :param processes: at most this many at a time, by default as many as there are cores. Each has one thread.
    :param progress: show how far it is.
    :param settings: what the engine's ``run`` takes, such as ``iterations``.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(60), max_length=8, drop=["PUNCT"])
    >>> def make(part):
    ...     model = pu.models.CCM.of(part, vocab=corpus.vocab)
    ...     return pu.EM(model, pu.AddLambda(1.0), model.split_start(part))
    >>> def score(fit, part, rest):
    ...     return fit.evaluate(part)
    >>> found = pu.infer.jackknife_fits(make, corpus, score, parts=3, processes=1, iterations=5)
    >>> len(found.fits), 0 < found.scores["f1"].mean < 1, found.scores["f1"].deviation < 0.2
    (3, True, True)
    """
    if use not in ("rest", "part"):
        raise FitError(f"use must be 'rest' (all parts but one) or 'part' (one alone), actual {use!r:.80}")
    from joblib import Parallel, delayed

    every = np.arange(len(data))
    dealt = random_parts(len(data), parts, seed)
    others = [np.setdiff1d(every, part, assume_unique=True) for part in dealt]
    cuts = list(zip(others, dealt, strict=True) if use == "rest" else zip(dealt, others, strict=True))
    jobs = (
        delayed(_trial)(make, data.select(mine), data.select(rest), score, seed + i, settings)
        for i, (mine, rest) in enumerate(cuts)
    )
    processes = min(parts, processes or os.cpu_count() or 1)
    # loky starts clean processes and pickles functions by value, so models from a notebook work too.
    found = (
        Parallel(n_jobs=processes, backend="loky", return_as="generator")(jobs)
        if processes > 1
        else (job[0](*job[1], **job[2]) for job in jobs)
    )
    trials = list(progress_bar(found, progress, total=parts, unit="trial"))
    names = dict.fromkeys(name for _, scores in trials for name in scores)
    scores = {name: Jackknife(tuple(scores[name] for _, scores in trials)) for name in names}
    return Trials([fit for fit, _ in trials], [mine for mine, _ in cuts], scores)


def _trial(
    make: Callable[[Any], Any], mine: Any, rest: Any, score: Callable[..., Any], seed: int, settings: dict[str, Any]
) -> tuple[Fit, dict[str, float]]:
    with one_thread():
        fit: Fit = make(mine).run(mine, seed=seed, progress=False, **settings)
        found = score(fit, mine, rest)
    return fit, {**found} if isinstance(found, Mapping) else {"score": float(found)}
