"""The contract suite (:mod:`pyro_unsup.testing`) on all structures of the library."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_unsup.kernels import (
    bracketing,
    chain,
    dependency,
    headed_bracketing,
    pcfg,
    segmentation,
    semimarkov,
    simple_pcfg,
)
from pyro_unsup.kernels.alignment import hmm, model1
from pyro_unsup.kernels.limits import LIMIT
from pyro_unsup.testing import StructureContract

from .alignment_case import ALIGNMENT
from .alignment_hmm_case import ALIGNMENT_HMM
from .bracketing_case import BRACKETING
from .chain_case import CHAIN
from .dependency_case import DEPENDENCY, VALENCE
from .headed_bracketing_case import HEADED_BRACKETING
from .mixture_case import MIXTURE
from .pcfg_case import GRAMMAR
from .segmentation_case import SEGMENTATION
from .semimarkov_case import SEMIMARKOV
from .semimarkov_series_case import SEMIMARKOV_SERIES
from .series_case import SERIES
from .simple_pcfg_case import SIMPLE_GRAMMAR


class TestAlignment(StructureContract):
    case = ALIGNMENT


class TestAlignmentHMM(StructureContract):
    case = ALIGNMENT_HMM


class TestChain(StructureContract):
    case = CHAIN


class TestDependency(StructureContract):
    case = DEPENDENCY


class TestDependencyWithTwoValences(StructureContract):
    case = VALENCE


class TestBracketing(StructureContract):
    case = BRACKETING


class TestHeadedBracketing(StructureContract):
    case = HEADED_BRACKETING


class TestSegmentation(StructureContract):
    case = SEGMENTATION


class TestMixture(StructureContract):
    case = MIXTURE


class TestPCFG(StructureContract):
    case = GRAMMAR


class TestSimplePCFG(StructureContract):
    case = SIMPLE_GRAMMAR


class TestSeries(StructureContract):
    case = SERIES


class TestSemiMarkov(StructureContract):
    case = SEMIMARKOV


class TestSemiMarkovSeries(StructureContract):
    case = SEMIMARKOV_SERIES


SCALED = {
    "alignment": (TestAlignment, model1),
    "alignment_hmm": (TestAlignmentHMM, hmm),
    "chain": (TestChain, chain),
    "dependency": (TestDependency, dependency),
    "bracketing": (TestBracketing, bracketing),
    "headed_bracketing": (TestHeadedBracketing, headed_bracketing),
    "pcfg": (TestPCFG, pcfg),
    "segmentation": (TestSegmentation, segmentation),
    "semimarkov": (TestSemiMarkov, semimarkov),
    "simple_pcfg": (TestSimplePCFG, simple_pcfg),
}


def _never(*_: object) -> None:
    raise AssertionError("these weights are even enough for sums that are scaled")


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("how", ["scaled", "logs"])
@pytest.mark.parametrize("kind", range(4))
def test_either_pass_alone(name: str, how: str, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled sums throughout; or logs throughout, as if scaling had been impossible. One must not hide the other."""
    suite, module = SCALED[name]
    if how == "logs":
        monkeypatch.setitem(LIMIT, np.dtype(np.float64), 1e-300)  # the largest number that may be trusted
    else:
        monkeypatch.setattr(module, "log_pass", _never)
    suite().check_long(kind, uneven=False)
    suite().check_long_draws(kind)
