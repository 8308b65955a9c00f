"""Results of training."""

from .fit import Fit
from .report import Reason, Report
from .samples import Samples
from .storage import load

__all__ = ["Fit", "Reason", "Report", "Samples", "load"]
