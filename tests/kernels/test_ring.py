"""One recursion, three semirings: each against plain numpy."""

import itertools
import math

import numpy as np
import pytest

from pyro_unsup.kernels.ring import LOG, MAX, REAL, add, as_log, as_real, inverse, one, plus, times, total, zero


def long_sum(mode: int, terms: list[float]) -> float:
    top, rest = -np.inf, 0.0
    for x in terms:
        top, rest = add(mode, top, rest, x)
    return float(total(mode, top, rest))


@pytest.mark.parametrize("seed", range(20))
def test_long_sums_agree_with_numpy(seed):
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=rng.integers(1, 9)) * 10.0 ** rng.integers(-1, 4)
    logs[rng.random(len(logs)) < 0.3] = -np.inf
    top = logs.max()
    expected = -np.inf if top == -np.inf else top + math.log(np.exp(logs - top).sum())
    assert long_sum(LOG, logs.tolist()) == pytest.approx(expected, rel=1e-14)
    assert long_sum(MAX, logs.tolist()) == top
    real = rng.random(len(logs))
    assert long_sum(REAL, real.tolist()) == pytest.approx(real.sum(), rel=1e-14)
    pairs = [plus(LOG, a, b) for a, b in itertools.pairwise(logs)]
    np.testing.assert_allclose(pairs, np.logaddexp(logs[:-1], logs[1:]), rtol=1e-14)


@pytest.mark.parametrize("mode", [REAL, LOG, MAX])
def test_laws(mode):
    nothing, same = zero(mode), one(mode)
    a = 0.3
    assert long_sum(mode, []) == nothing
    assert plus(mode, nothing, nothing) == times(mode, nothing, a) == nothing
    assert plus(mode, nothing, a) == plus(mode, a, nothing) == times(mode, same, a) == a
    assert times(mode, a, inverse(mode, a)) == pytest.approx(same)
    assert as_real(mode, same) == 1.0
    assert as_log(mode, same) == 0.0
    assert plus(MAX, 1.0, 2.0) == 2.0
