"""Results of training."""

from .consensus import Consensus, consensus
from .fit import Fit
from .report import Reason, Report
from .samples import Samples
from .storage import load
from .word_classes import word_classes

__all__ = ["Consensus", "Fit", "Reason", "Report", "Samples", "consensus", "load", "word_classes"]
