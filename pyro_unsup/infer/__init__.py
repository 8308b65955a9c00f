"""Inference engines, with the manners of :class:`pyro.infer.SVI`. None of them knows a model by name."""

from .anneal import Anneal
from .em import EM
from .initial import Initial, from_labelled, from_weights, noise, uniform
from .jackknife import Trials, jackknife_fits
from .loop import Callback, Info
from .schedules import geometric, linear, quench

__all__ = [
    "EM",
    "Anneal",
    "Callback",
    "Info",
    "Initial",
    "Trials",
    "from_labelled",
    "from_weights",
    "geometric",
    "jackknife_fits",
    "linear",
    "noise",
    "quench",
    "uniform",
]
