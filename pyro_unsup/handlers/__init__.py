"""Poutine messengers that give a model's tables another meaning, or weigh its hidden structure in another way."""

from .counting import Counting
from .declared import DeclaredMessenger, declared
from .featured import FeaturedMessenger, featured
from .given import GivenMessenger, given
from .handled import Handled, bare
from .harden import HardenMessenger, harden
from .skew import SkewMessenger, skew
from .temper import TemperMessenger, temper

__all__ = [
    "Counting",
    "DeclaredMessenger",
    "FeaturedMessenger",
    "GivenMessenger",
    "Handled",
    "HardenMessenger",
    "SkewMessenger",
    "TemperMessenger",
    "bare",
    "declared",
    "featured",
    "given",
    "harden",
    "skew",
    "temper",
]
