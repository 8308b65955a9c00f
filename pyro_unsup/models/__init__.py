"""Models: ordinary Pyro programs whose tables are declared by :func:`pyro_unsup.multinomial`."""

from .tagger import Tagger

__all__ = ["Tagger"]
