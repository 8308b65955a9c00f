"""The best states of a chain in which every word allows every state: the pass over supports finds the same."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_unsup.kernels.chain_draw import best_dense_pass
from pyro_unsup.kernels.chain_pass import best_pass


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("states", [1, 2, 3, 4, 5, 9])
def test_the_best_states_are_those_of_the_pass_over_supports(states: int, zeros: float) -> None:
    rng = np.random.default_rng(states)
    K, V = states, 6

    def logs(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
        x = rng.integers(-3, 1, shape).astype(float)  # whole numbers, so that there are ties
        return np.where(rng.random(shape) < zeros, -np.inf, x)

    start, trans, stop, emit = logs(K), logs(K, K), logs(K), logs(V, K)
    lengths = np.array([3, 0, 1, 7, 4, 2, 5, 12])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    words, todo = rng.integers(V, size=lengths.sum()), np.arange(len(lengths))
    one, other = np.full(lengths.sum(), -7), np.full(lengths.sum(), -7)
    best_dense_pass(start, trans, np.ascontiguousarray(trans.T), stop, emit, words, offsets, todo, one)
    support = np.tile(np.arange(K), V)
    tables = (start, trans[None], stop[None], np.arange(V + 1) * K, support, emit.reshape(-1), np.zeros(V))
    best_pass(*tables, words, offsets, todo, np.zeros(0), other)
    np.testing.assert_array_equal(one, other)
    assert (one >= -1).all()
