"""What all kernels share: shards over threads, sums in a fixed order, and passes that count as they go."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .room import zeros
from .threads import even_cuts, map_threads, threads_for

Tables = dict[str, Tensor]


def offsets(sizes: Array) -> Array:  # (B,) -> (B + 1,)
    """Where each of some runs begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def in_shards(
    run: Callable[..., object], cost: Array, tokens: int, shapes: Sequence[tuple[int, ...]] = (), blas: bool = False
) -> list[Array]:
    """Call ``run(first, last, *sums)`` on ranges of examples, one thread each, and add up the sums, in a fixed order.

    :param cost: (B,) how long each example takes, in any unit.
    :param tokens: how much work there is, in tokens of a chain, by which :func:`.threads_for` counts.
    :param shapes: of the sums.
    :param blas: whether the pass calls BLAS, whose own threads must then keep out of the way.
    """
    many = len(cost)
    shards = min(threads_for(tokens), max(many, 1))
    cuts = [0, many] if shards == 1 else np.minimum(even_cuts(cost, shards), many).tolist()
    # Made here, not in the threads: what a thread allocates may stay with it, though it is not used any more.
    sums = [[zeros(math.prod(shape)).reshape(shape) for shape in shapes] for _ in cuts[1:]]
    if shards == 1 and not blas:  # as small data are: they should cost no more than their arithmetic
        run(0, many, *sums[0])
    else:
        map_threads(lambda k: run(cuts[k], cuts[k + 1], *sums[k]), range(len(cuts) - 1))
    first, *others = sums
    for more in others:
        for into, one in zip(first, more, strict=True):
            into += one
    return first


class OnePass:
    """log Z, and counts that come from the same pass.

    If examples turn out to weigh differently, the pass is made once more with their scales.

    :param run: from a scale (B,), or None, and whether counts are wanted, to log Z and counts by name.
    """

    def __init__(self, run: Callable[[Array | None, bool], tuple[Tensor, Tables]], wanted: bool) -> None:
        self._run = run
        self.log_z, self._counts = run(None, wanted)

    def counts(self, scale: Tensor) -> Tables:  # (B,)
        given = scale.numpy()
        factor = float(given[0]) if len(given) else 1.0
        if given.strides != (0,) and not (given == factor).all():  # one number for all is often given as such
            return self._run(np.ascontiguousarray(given), True)[1]
        return self._counts if factor == 1 else {name: x * factor for name, x in self._counts.items()}


def uniform_numbers(draw: bool, *shape: int, generator: torch.Generator | None) -> Array:
    """Uniform numbers for a draw; none if the best structure is wanted."""
    size = shape if draw else (0, *shape[1:])
    return torch.rand(size, dtype=torch.float64, generator=generator).numpy()
