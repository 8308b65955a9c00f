"""Inference engines, with the manners of :class:`pyro.infer.SVI`. None of them knows a model by name."""

from .em import EM
from .initial import Initial, from_labelled, from_weights, noise, uniform
from .loop import Callback, Info

__all__ = ["EM", "Callback", "Info", "Initial", "from_labelled", "from_weights", "noise", "uniform"]
