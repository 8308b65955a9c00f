"""Results of training."""

from .fit import Fit
from .report import Report
from .samples import Samples
from .storage import load

__all__ = ["Fit", "Report", "Samples", "load"]
