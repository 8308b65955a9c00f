"""Structured distributions: hidden structure summed out exactly. One structure a file; log-weights come in as they are."""

from .categorical import Categorical
from .chain import Chain
from .row_dirichlet import RowDirichlet
from .structured import Posterior, Structured

__all__ = ["Categorical", "Chain", "Posterior", "RowDirichlet", "Structured"]
