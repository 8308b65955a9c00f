"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.multinomial`."""

from .ccm import CCM
from .tagger import Tagger

__all__ = ["CCM", "Tagger"]
