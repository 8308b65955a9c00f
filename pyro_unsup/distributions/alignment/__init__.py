"""Words of a sentence and words of its translation: which goes with which."""

from .agreement import Agreement, HMMAgreement
from .hmm import AlignmentHMM
from .model1 import Alignment

__all__ = ["Agreement", "Alignment", "AlignmentHMM", "HMMAgreement"]
