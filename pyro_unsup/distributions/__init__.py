"""Structured distributions: hidden structure summed out exactly, one structure a file."""

from .alignment import Agreement, Alignment, AlignmentHMM, HMMAgreement
from .bracketing import Bracketing
from .categorical import Categorical
from .chain import Chain
from .dependency import Dependency
from .duration import duration_table, survivor
from .emission import Joint
from .forecast import Forecast
from .headed_bracketing import HeadedBracketing
from .hidden import Hidden
from .lasting import SemiMarkovPosterior
from .markov import stationary
from .mixture import Mixture
from .pcfg import PCFG
from .posterior import Posterior
from .row_dirichlet import RowDirichlet
from .row_logistic_normal import RowLogisticNormal
from .segmentation import Segmentation
from .semimarkov import SemiMarkov
from .series import ChainPosterior
from .simple_pcfg import SimplePCFG
from .structure import Structure

__all__ = [
    "PCFG",
    "Agreement",
    "Alignment",
    "AlignmentHMM",
    "Bracketing",
    "Categorical",
    "Chain",
    "ChainPosterior",
    "Dependency",
    "Forecast",
    "HMMAgreement",
    "HeadedBracketing",
    "Hidden",
    "Joint",
    "Mixture",
    "Posterior",
    "RowDirichlet",
    "RowLogisticNormal",
    "Segmentation",
    "SemiMarkov",
    "SemiMarkovPosterior",
    "SimplePCFG",
    "Structure",
    "duration_table",
    "stationary",
    "survivor",
]
