"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.table`."""

from .adaptor import Adaptor
from .aligner import Aligner
from .ccm import CCM
from .clusterer import Clusterer
from .dmv import DMV
from .dmv_ccm import DMVCCM
from .hmm import HMM
from .hmm_aligner import HMMAligner
from .pcfg import PCFG
from .segmenter import Segmenter
from .series import Series
from .tagger import Tagger

__all__ = [
    "CCM",
    "DMV",
    "DMVCCM",
    "HMM",
    "PCFG",
    "Adaptor",
    "Aligner",
    "Clusterer",
    "HMMAligner",
    "Segmenter",
    "Series",
    "Tagger",
]
