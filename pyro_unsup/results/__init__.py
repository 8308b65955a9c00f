"""Results of training."""

from .consensus import Consensus, consensus
from .fit import Fit
from .report import Reason, Report
from .samples import Samples
from .storage import load

__all__ = ["Consensus", "Fit", "Reason", "Report", "Samples", "consensus", "load"]
