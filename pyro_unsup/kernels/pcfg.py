"""Labelled trees on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from ..array import Array
from . import grammar
from .grammar import Blocks, Rules
from .pcfg_decode import best_trees, log_draw, scaled_draw
from .pcfg_pass import log_pass, scaled_pass

#: Each sentence may have weights of its own.
OWN_SETS = True


class FullRules(Rules):
    """Rules as one table, (1 or B, N, N + P, N + P)."""

    NAMES, AXES, CHOICES = ("rules",), "NMM", 1

    def blocks(self, tables: Blocks) -> Blocks:
        """Rules by whether their parts are words: both wider (N, N N); then by the word (P, ...): a word and a wider
        part, a wider part and a word, and two words by the left one."""
        (rules,), (N, P) = tables, self.sizes
        both = np.ascontiguousarray(rules[:, :, :N, :N]).reshape(-1, N, N * N)
        left = np.ascontiguousarray(rules[:, :, N:, :N].transpose(0, 2, 1, 3)).reshape(-1, P, N * N)
        right = np.ascontiguousarray(rules[:, :, :N, N:].transpose(0, 3, 1, 2)).reshape(-1, P, N * N)
        two = np.ascontiguousarray(rules[:, :, N:, N:].transpose(0, 2, 1, 3)).reshape(-1, P, N * P)
        return both, left, right, two

    def whole(self, blocks: Blocks) -> Blocks:
        both, left, right, two = blocks
        N, P = self.sizes
        found = np.empty((len(both), N, N + P, N + P))
        found[:, :, :N, :N] = both.reshape(-1, N, N, N)
        found[:, :, N:, :N] = left.reshape(-1, P, N, N).transpose(0, 2, 1, 3)
        found[:, :, :N, N:] = right.reshape(-1, P, N, N).transpose(0, 2, 3, 1)
        found[:, :, N:, N:] = two.reshape(-1, P, N, P).transpose(0, 2, 1, 3)
        return (found,)

    @cached_property
    def scaled(self) -> tuple[Blocks, Array]:
        (rules,) = self.tables
        top = rules.reshape(len(rules), -1).max(1)
        top = np.where(top > -np.inf, top, 0.0)
        real: Array = np.exp(rules - top[:, None, None, None])
        by_left, by_right = real.sum(3), real.sum(2)  # (sets, N, M)
        each = (by_left.sum(2), by_left.sum(1), by_right.sum(1))  # by parent, by left and by right part
        most = np.max([x.max(1) for x in each], 0)
        unit = grammar.below_node(real, most)
        return self.blocks((real,)), top + np.log(unit)

    @property
    def cost(self) -> Array:
        (N, P), n = self.sizes, self.lengths.astype(np.float64)
        found: Array = n * n * N * N * (N + n) + n * N * P * (2 * N + P) + 1.0
        return found

    @property
    def passes(self) -> tuple[Any, Any]:
        return scaled_pass, log_pass

    @property
    def decoders(self) -> tuple[Any, Any, Any]:
        return scaled_draw, log_draw, best_trees


sums, solve, marginals = (partial(one, FullRules) for one in (grammar.sums, grammar.solve, grammar.marginals))
decode, pick = partial(grammar.decode, FullRules), partial(grammar.pick, FullRules)
