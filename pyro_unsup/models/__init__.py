"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.multinomial`."""

from .aligner import Aligner
from .ccm import CCM
from .clusterer import Clusterer
from .segmenter import Segmenter
from .tagger import Tagger

__all__ = ["CCM", "Aligner", "Clusterer", "Segmenter", "Tagger"]
