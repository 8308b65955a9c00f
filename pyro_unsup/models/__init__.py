"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.table`."""

from .aligner import Aligner
from .ccm import CCM
from .clusterer import Clusterer
from .dmv import DMV
from .dmv_ccm import DMVCCM
from .hmm_aligner import HMMAligner
from .segmenter import Segmenter
from .tagger import Tagger

__all__ = ["CCM", "DMV", "DMVCCM", "Aligner", "Clusterer", "HMMAligner", "Segmenter", "Tagger"]
