"""Mini-batches of stepwise EM for a chain of first order, in compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..array import Array
from ..kernels.limits import LEAST, LIMIT
from ..kernels.running import RunningCounts


@dataclass(frozen=True)
class ChainStretch:
    """Sequences to go through in mini-batches.

    :param words: (tokens,) columns of the emission table.
    :param offsets: (B + 1,) where each sequence begins.
    """

    words: Array
    offsets: Array

    def __call__(
        self,
        tables: Mapping[str, RunningCounts],
        beta: float,
        order: Array,  # (n,) sequences
        batch_size: int,
        steps: Array,  # (mini-batches,)
        scale: float,
        floor: float,
    ) -> tuple[Array, float]:
        """Learn from these sequences as far as possible. Returns log-likelihoods by mini-batch, and the last scale."""
        from ..kernels.chain_stepwise import stepwise_pass  # numba loads when it is first needed

        start, transition, emission = (tables[name] for name in ("start", "transition", "emission"))
        log_z = np.zeros(len(steps))
        done, scale = stepwise_pass(
            start.cells,
            start.row_sums.reshape(1),
            transition.cells,
            transition.row_sums,
            emission.cells,
            emission.row_sums,
            np.array([start.extra, transition.extra, emission.extra]),
            beta,
            self.words,
            self.offsets,
            order,
            batch_size,
            steps,
            scale,
            floor,
            LIMIT[log_z.dtype],
            LEAST[log_z.dtype],
            log_z,
        )
        return log_z[:done], scale
