"""Results of training."""

from .fit import Fit
from .report import Report
from .storage import load

__all__ = ["Fit", "Report", "load"]
