"""Inference engines, with the manners of :class:`pyro.infer.SVI`, and a sampler for :class:`pyro.infer.MCMC`.

The engines know no model by name. The sampler does: it integrates tables out, which is worked out for each model.
"""

from .anneal import Anneal
from .em import EM
from .gibbs import CollapsedGibbs
from .gradient import Gradient
from .hierarchical import HierarchicalEM
from .hyperparameters import Flat, Gamma, LogUniform
from .incremental import IncrementalEM
from .initial import Initial, from_labelled, from_weights, noise, uniform
from .jackknife import Trials, jackknife_fits
from .launch import launch
from .loop import Callback, Info
from .mixture import MixtureEM
from .polytope import Loosen, Polytope, fixed
from .processes import LostProcess
from .schedules import geometric, linear, quench
from .select import Selection, select_steps
from .stepwise import StepwiseEM
from .temperatures import Cooling
from .walk import Sweep

__all__ = [
    "EM",
    "Anneal",
    "Callback",
    "CollapsedGibbs",
    "Cooling",
    "Flat",
    "Gamma",
    "Gradient",
    "HierarchicalEM",
    "IncrementalEM",
    "Info",
    "Initial",
    "LogUniform",
    "Loosen",
    "LostProcess",
    "MixtureEM",
    "Polytope",
    "Selection",
    "StepwiseEM",
    "Sweep",
    "Trials",
    "fixed",
    "from_labelled",
    "from_weights",
    "geometric",
    "jackknife_fits",
    "launch",
    "linear",
    "noise",
    "quench",
    "select_steps",
    "uniform",
]
