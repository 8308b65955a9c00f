"""Poutine messengers that give a model's tables another meaning, or weigh its hidden structure in another way."""

from . import components
from .constrain import ConstrainMessenger, constrain
from .counting import Counting
from .declared import DeclaredMessenger, declared
from .featured import FeaturedMessenger, featured
from .given import GivenMessenger, given
from .handled import Handled, Handler, bare
from .harden import HardenMessenger, harden
from .parts import UnknownLabel
from .prefer import PreferMessenger, prefer
from .regularise import RegulariseMessenger, regularise
from .skew import SkewMessenger, skew
from .temper import TemperMessenger, temper
from .tie import TieMessenger

__all__ = [
    "ConstrainMessenger",
    "Counting",
    "DeclaredMessenger",
    "FeaturedMessenger",
    "GivenMessenger",
    "Handled",
    "Handler",
    "HardenMessenger",
    "PreferMessenger",
    "RegulariseMessenger",
    "SkewMessenger",
    "TemperMessenger",
    "TieMessenger",
    "UnknownLabel",
    "bare",
    "components",
    "constrain",
    "declared",
    "featured",
    "given",
    "harden",
    "prefer",
    "regularise",
    "skew",
    "temper",
]
