"""How much a score depends on which examples it was taken from: random parts, and the jack-knife.

**References:** B. Efron and C. Stein (1981) "The jackknife estimate of variance".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Ids


@dataclass(frozen=True)
class Jackknife:
    """A score with each part of the examples left out in turn.

    :param values: the scores, one for each part.

    >>> from pyro_unsup.evaluate import Jackknife
    >>> found = Jackknife((0.6, 0.7, 0.8))
    >>> round(found.mean, 4), round(found.deviation, 4), round(found.standard_error, 4)
    (0.7, 0.1, 0.1155)
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the values."""
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation of the values. They share most of their examples, so it says little about new ones."""
        return math.sqrt(self._squares() / (len(self.values) - 1))

    @property
    def standard_error(self) -> float:
        """Of the score of all examples, as the jack-knife estimates it: larger, as the values are so alike."""
        return math.sqrt(self._squares() * (len(self.values) - 1) / len(self.values))

    def _squares(self) -> float:
        return math.fsum((value - self.mean) ** 2 for value in self.values)


def random_parts(n: int, parts: int, seed: int = 0) -> list[Ids]:
    """The numbers 0 to n - 1 dealt out at random: parts of the same size, give or take one, each in order.

    :param n: how many examples there are.
    :param parts: how many to make.
    :param seed: deals the examples out.

    >>> from pyro_unsup.evaluate import random_parts
    >>> [part.tolist() for part in random_parts(5, 2)]
    [[2, 3, 4], [0, 1]]
    """
    if not 2 <= parts <= n:
        raise UnsupError(f"{n} examples cannot be split into {parts} parts, expected 2 to {n} parts")
    order = np.random.default_rng(seed).permutation(n)
    return [np.sort(part) for part in np.array_split(order, parts)]


def jackknife(score: Callable[[Ids], float], n: int, parts: int | None = None, seed: int = 0) -> Jackknife:
    """A score of all examples but one, for each one; or of all parts but one.

    :param score: of the examples with these indices, shape (kept,).
    :param n: how many examples there are.
    :param parts: deal them out into this many parts at random; by default each example is a part.
    :param seed: deals the examples out.

    >>> import numpy as np
    >>> from pyro_unsup.evaluate import jackknife
    >>> found = jackknife(lambda kept: float(np.mean(kept)), 5)
    >>> found.mean, round(found.standard_error, 12)  # of a mean: its usual standard error
    (2.0, 0.707106781187)
    """
    dealt = random_parts(n, n if parts is None else parts, seed)
    return Jackknife(tuple(float(score(np.setdiff1d(np.arange(n), part, assume_unique=True))) for part in dealt))
