"""Labelled trees of factored rules on CPU: log Z and expected counts in one pass over a flat ragged corpus."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from ..array import Array
from . import grammar
from .grammar import Blocks, Rules
from .simple_pcfg_decode import best_trees, log_draw, scaled_draw
from .simple_pcfg_pass import log_pass, scaled_pass

#: Each sentence may have weights of its own.
OWN_SETS = True


class FactoredRules(Rules):
    """Rules as a table for left parts and one for right parts, (1 or B, N, N + P) both."""

    NAMES, AXES, CHOICES = ("left", "right"), "NM", 3
    STEPS_A_TOKEN = 4000  # nearly all of them in products of matrices

    def blocks(self, tables: Blocks) -> Blocks:
        """Rows for left parts above rows for right parts; columns of wider parts (2 N, N), and of words (2 N, P)."""
        left, right = tables
        sets, N = max(len(left), len(right)), left.shape[1]
        both = np.empty((sets, 2 * N, left.shape[2]))
        both[:, :N], both[:, N:] = left, right
        return np.ascontiguousarray(both[:, :, :N]), np.ascontiguousarray(both[:, :, N:])

    def whole(self, blocks: Blocks) -> Blocks:
        both, N = np.concatenate(blocks, 2), self.root.shape[1]
        return np.ascontiguousarray(both[:, :N]), np.ascontiguousarray(both[:, N:])

    @cached_property
    def scaled(self) -> tuple[Blocks, Array]:
        """Right parts of each label are divided by their sum, by which the left parts are multiplied."""
        left, right = self.tables
        top = right.max(2, keepdims=True)
        top = np.where(top > -np.inf, top, 0.0)
        right = np.exp(right - top)
        sums = right.sum(2, keepdims=True)
        possible = sums > 0
        right = right / np.where(possible, sums, 1.0)
        left = left + np.where(possible, top + np.log(np.where(possible, sums, 1.0)), -np.inf)
        top = left.reshape(len(left), -1).max(1)
        top = np.where(top > -np.inf, top, 0.0)
        left = np.exp(left - top[:, None, None])
        each = left.sum(2)  # (sets, N) by parent, then by left and by right part: a right row sums to one
        most = np.max([each.max(1), left.sum(1).max(1), (each[:, None] @ right).max((1, 2))], 0)
        unit = grammar.below_node(left, most)
        return self.blocks((left, right)), top + np.log(unit)

    @property
    def cost(self) -> Array:
        (N, P), n = self.sizes, self.lengths.astype(np.float64)
        found: Array = n * n * N * (N + n) + 2 * n * N * P + 1.0
        return found

    @property
    def passes(self) -> tuple[Any, Any]:
        return scaled_pass, log_pass

    @property
    def decoders(self) -> tuple[Any, Any, Any]:
        return scaled_draw, log_draw, best_trees


sums, solve, marginals = (partial(one, FactoredRules) for one in (grammar.sums, grammar.solve, grammar.marginals))
decode, pick = partial(grammar.decode, FactoredRules), partial(grammar.pick, FactoredRules)
