"""All structures of the library, for tests that run on each of them beside the contract suite."""

from __future__ import annotations

import pytest

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
from .simple_pcfg_case import SIMPLE_GRAMMAR

CASES = [CHAIN, DEPENDENCY, VALENCE, BRACKETING, HEADED_BRACKETING, SEGMENTATION, MIXTURE, GRAMMAR, SEMIMARKOV]
CASES += [ALIGNMENT, ALIGNMENT_HMM, SIMPLE_GRAMMAR]

on_every_structure = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
