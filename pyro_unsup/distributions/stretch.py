"""Mini-batches of stepwise EM in compiled code: what all structures that have them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..array import Array
from ..kernels.running import RunningCounts
from ..kernels.threads import TOKENS_A_THREAD


def is_large(work: float, examples: int, batch_size: int) -> bool:
    """Whether mini-batches are better done one by one, by several threads each.

    :param work: how much there is to do for all examples, in tokens of a chain.
    """
    return work * batch_size >= TOKENS_A_THREAD * examples


_module = cache(import_module)  # numba loads when it is first needed


@dataclass(frozen=True)
class CompiledStretch:
    """Examples to go through in mini-batches.

    :param kernel: the module of kernels whose ``stepwise_pass`` does it (:mod:`pyro_unsup.kernels.stepwise`).
    :param names: of the weights that are tables, in the order in which it takes them.
    :param data: what it goes through.
    """

    kernel: str
    names: tuple[str, ...]
    data: tuple[Any, ...]

    def __call__(
        self,
        tables: Mapping[str, RunningCounts],
        beta: float,
        order: Array,  # (n,) examples
        batch_size: int,
        steps: Array,  # (mini-batches,)
        scale: float,
        floor: float,
    ) -> tuple[Array, float]:
        """Learn from these examples as far as possible. Returns log-likelihoods by mini-batch, and the last scale."""
        log_z = np.zeros(len(steps))
        given = tuple(tables[name].flat for name in self.names)
        run = _module(f"pyro_unsup.kernels.{self.kernel}").stepwise_pass
        done, scale = run(given, self.data, beta, order, batch_size, steps, scale, floor, log_z)
        return log_z[:done], scale
