"""Structured distributions: hidden structure summed out exactly, one structure a file."""

from .agreement import Agreement
from .alignment import Alignment
from .bracketing import Bracketing
from .categorical import Categorical
from .chain import Chain
from .mixture import Mixture
from .row_dirichlet import RowDirichlet
from .segmentation import Segmentation
from .structured import Posterior, Structured

__all__ = [
    "Agreement",
    "Alignment",
    "Bracketing",
    "Categorical",
    "Chain",
    "Mixture",
    "Posterior",
    "RowDirichlet",
    "Segmentation",
    "Structured",
]
