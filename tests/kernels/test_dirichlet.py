"""The functions behind Dirichlet posteriors, against scipy's."""

from __future__ import annotations

import numpy as np
from scipy import special

from pyro_unsup.kernels.dirichlet import digamma, trigamma

#: From far below where the series begin to far above, and just around there, where their last terms count most.
POINTS = np.concatenate([np.geomspace(1e-8, 1e8, 200), np.linspace(6.5, 9.5, 61)])


def test_digamma() -> None:
    found = [digamma(float(x)) for x in POINTS]
    np.testing.assert_allclose(found, special.digamma(POINTS), rtol=3e-15, atol=3e-15)


def test_trigamma() -> None:
    found = [trigamma(float(x)) for x in POINTS]
    np.testing.assert_allclose(found, special.polygamma(1, POINTS), rtol=1e-10)
