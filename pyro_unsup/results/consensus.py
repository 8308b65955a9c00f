"""What several runs agree on: the best structure under the mean of their posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import UnsupError, listed
from .evaluation import task_of
from .fit import Fit


@dataclass(frozen=True)
class Consensus:
    """What several runs agree on.

    :param fits: the runs, that with the best objective first.
    :param decoded: as :meth:`.Fit.decode` gives it, of all runs together: ``decoded.structure`` has the most expected
        right parts under the mean of the runs' posteriors. Its log-likelihood is that of the first run.
    :param marginals: (rows, ...) the mean of the runs' posterior probabilities of every part.
    :param between: (runs, runs) the share of the structure that two runs have in common.

    >>> import pyro_unsup as pu
    >>> fits = [pu.EM(pu.models.Tagger(2, 2)).run([[0, 1, 0], [1, 1]], iterations=1, seed=seed) for seed in (0, 1)]
    >>> found = pu.consensus(fits, pu.data.Corpus([0, 1, 0, 1, 1], [0, 3, 5], pu.data.Vocab(["a", "b"])))
    >>> found.marginals.shape, found.between.shape
    (torch.Size([5, 2]), (2, 2))
    """

    fits: tuple[Fit, ...]
    decoded: Any
    marginals: Tensor
    between: np.ndarray[Any, Any]

    @property
    def structure(self) -> Tensor:  # (rows, ...)
        """Of all runs together."""
        found: Tensor = self.decoded.structure
        return found

    @property
    def agreement(self) -> float:
        """The share of the structure that two runs have in common, on average: a sign of trust that needs no labels.
        One run alone agrees with nobody: NaN."""
        pairs = [self.between[i, j] for i, j in combinations(range(len(self.fits)), 2)]
        return float(np.mean(pairs)) if pairs else math.nan

    @property
    def central(self) -> Fit:
        """The run that agrees most with the others."""
        return self.fits[int(self.between.sum(1).argmax())]

    def evaluate(self, gold: Any) -> dict[str, float]:
        """Scores against gold structure, as :meth:`.Fit.evaluate` gives them."""
        fit = self.fits[0].unhandled()
        found: dict[str, float] = task_of(fit.model).scores(fit, gold, self.decoded)
        return found

    def __repr__(self) -> str:
        if len(self.fits) == 1:
            return "Consensus of one run alone"
        shared = 100 * self.agreement if self.agreement == 1 else min(100 * self.agreement, 99.9)  # 100: the same
        return f"Consensus of {len(self.fits)} runs: two of them have {shared:.1f} % in common"


def consensus(fits: Fit | Sequence[Fit], data: Any, **options: Any) -> Consensus:
    """The structure that several runs agree on: minimum Bayes risk under the mean of their posteriors.

    Each run looks the data up in its own vocabulary. Where parts of structures are places, as arcs of trees are, that
    is enough. States that have names must have the same ones in the same order. States that are but numbers (those of a
    tagger without a dictionary, or clusters) are matched first: each run's states are numbered as those of the best run
    that they share the most words with.

    :param fits: several runs of one model; or the fit of a run with restarts, which has them all (``fit.runs``). Models
        of one class do as well, if their structures have the same parts: dependency models with valence 1 and 2, say,
        or taggers of order 1 and 2.
    :param data: what is to be decoded, by any vocabulary.
    :param options: for decoding. With ``how="word"`` all tokens of a word get one state, that of the highest mean
        posterior, summed over them. Word classes that are induced without a dictionary are better so.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(60, seed=1), max_length=8, drop=["PUNCT"])
    >>> model = pu.models.DMV.of(corpus)
    >>> start = pu.init.around(model.harmonic_start(corpus), 0.3)
    >>> fit = pu.EM(model, pu.AddLambda(0.1), init=start).run(corpus, iterations=10, restarts=3, processes=1)
    >>> found = pu.consensus(fit, corpus)
    >>> len(found.structure) == corpus.tokens, 0 < found.agreement <= 1
    (True, True)
    """
    runs = list(fits.runs or [fits]) if isinstance(fits, Fit) else list(fits) if isinstance(fits, Iterable) else []
    if not runs or not all(isinstance(one, Fit) for one in runs):
        raise UnsupError(f"consensus takes fits of one model, or one with restarts, actual {fits!r:.80}")
    if len({type(one.unhandled().model) for one in runs}) > 1:
        names = sorted({type(one.unhandled().model).__name__ for one in runs})
        raise UnsupError(f"consensus takes fits of one model, actual those of {' and '.join(names)}")
    task = task_of(runs[0].unhandled().model)
    if not task.of_places:
        _check_names(runs)
    runs.sort(key=lambda one: -one.objective)
    if isinstance(data, list | tuple):
        _check_numbers(runs, data)
        data = task.as_data(runs[0].unhandled(), data)
    decoded = [one.decode(data, **options) for one in runs]
    _check_known(decoded, data)
    marginals, structures, together = task.consensus(runs[0].unhandled(), data, decoded)
    between = np.array([[task.in_common(a, b) for b in structures] for a in structures])
    return Consensus(tuple(runs), together, marginals, between)


def _check_names(runs: Sequence[Fit]) -> None:
    """States that have names are not matched, so they must have the same ones in the same order."""
    bare = [one.unhandled() for one in runs]
    named = [None if getattr(one.model, "interchangeable", False) else one.labels for one in bare]
    other = next((one for one in named if one != named[0]), named[0])
    if other != named[0]:
        raise UnsupError(
            "consensus takes fits whose states have the same names in the same order: here one has "
            f"{_listed(named[0])}, another {_listed(other)}{_first_difference(named[0], other)}"
        )


def _listed(names: Sequence[str] | None) -> str:
    return "no names" if names is None else listed(names)


def _first_difference(one: Sequence[str] | None, other: Sequence[str] | None) -> str:
    """Where names differ that are too many to be listed."""
    if one is None or other is None or len(one) != len(other):
        return ""
    place, a, b = next((k, a, b) for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return f" (state {place} is {a!r} in one and {b!r} in the other)"


def _check_known(decoded: Sequence[Any], data: Any) -> None:
    """A fit that knows no symbol of the data has nothing to say."""
    words = len(data.words) if hasattr(data, "words") else 0
    blind = [words > 0 and getattr(one, "unseen", 0) == words for one in decoded]
    if any(blind) and not all(blind):
        raise UnsupError(
            f"consensus: {sum(blind)} of {len(blind)} fits know none of the symbols of these data, and others do: were "
            "they trained on the same tag set (--column)?"
        )


def _check_numbers(runs: Sequence[Fit], data: Sequence[Any]) -> None:
    """Numbers of symbols mean something if all fits number their symbols alike."""
    vocabs = [getattr(one.unhandled().model, "vocab", None) for one in runs]
    known = [one if one is None or isinstance(one, int) else list(one) for one in vocabs]
    if all(one == known[0] for one in known):
        return
    if not all(isinstance(one, str) or (len(one) > 0 and isinstance(one[0], str)) for one in data):
        raise UnsupError(
            "consensus: these fits number their symbols by different vocabularies, so numbers do not tell which "
            "symbols are meant: give the sentences as words, or as a corpus"
        )
