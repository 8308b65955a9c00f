"""Results of training."""

from .fit import Fit
from .report import Report

__all__ = ["Fit", "Report"]
