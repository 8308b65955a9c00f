"""Structured distributions: hidden structure summed out exactly, one structure a file."""

from .bracketing import Bracketing
from .categorical import Categorical
from .chain import Chain
from .row_dirichlet import RowDirichlet
from .structured import Posterior, Structured

__all__ = ["Bracketing", "Categorical", "Chain", "Posterior", "RowDirichlet", "Structured"]
