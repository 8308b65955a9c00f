"""Feature templates of Berg-Kirkpatrick et al. (2010), for the models of the library. They look at labels only.

Each function makes a list of :class:`.Template`, for :class:`.LogLinear`; drop some, or add your own.
"""

from .alignment import alignment
from .dependency import TAG_CLASSES, dependency
from .phonemes import BROAD, FINE
from .segmentation import segmentation
from .tagging import tagging

__all__ = ["BROAD", "FINE", "TAG_CLASSES", "alignment", "dependency", "segmentation", "tagging"]
