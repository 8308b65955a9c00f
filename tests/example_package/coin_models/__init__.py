"""Which coin was it? An example of a package that extends pyro_unsup."""

from .estimator import Cautious
from .handler import favour
from .model import CoinModel, Flips
from .structure import CoinChoice

__all__ = ["Cautious", "CoinChoice", "CoinModel", "Flips", "favour"]
