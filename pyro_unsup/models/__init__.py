"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.table`."""

from .adaptor import Adaptor
from .aligner import Aligner
from .ccm import CCM
from .clusterer import Clusterer
from .dmv import DMV
from .dmv_ccm import DMVCCM
from .hmm import HMM
from .hmm_aligner import HMMAligner
from .neural_pcfg import CompoundPCFG, NeuralPCFG
from .pcfg import PCFG
from .segmenter import Segmenter
from .series import Series
from .simple_pcfg import SimplePCFG
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
    "CompoundPCFG",
    "HMMAligner",
    "NeuralPCFG",
    "Segmenter",
    "Series",
    "SimplePCFG",
    "Tagger",
]
