"""Inference engines, with the manners of :class:`pyro.infer.SVI`, and samplers for :class:`pyro.infer.MCMC`.

None of them knows a model by name. CollapsedGibbs integrates tables out, and asks the model how.
"""

from . import init, schedules
from .anneal import AlikeStates, Anneal, UnfinishedSchedule
from .blocked_gibbs import BlockedGibbs
from .choose_weight import choose_weight
from .em import EM
from .fade import Fade
from .gibbs import CollapsedGibbs
from .gibbs_chain import Sweep
from .gradient import Gradient
from .hierarchical import HierarchicalEM
from .hyperparameters import Flat, Gamma, LogUniform
from .incremental import IncrementalEM
from .init import Initial
from .jackknife import Trials, jackknife_fits
from .launch import launch
from .loop import Callback, Info
from .mixture import MixtureEM
from .polytope import Polytope
from .processes import LostProcess
from .runs import Monitor, SameRestarts
from .select import Selection, select_steps
from .session import Session
from .sizes import compare_sizes
from .state import SlowEnumeration, State
from .stepwise import SlowForgetting, StepwiseEM

__all__ = [
    "EM",
    "AlikeStates",
    "Anneal",
    "BlockedGibbs",
    "Callback",
    "CollapsedGibbs",
    "Fade",
    "Flat",
    "Gamma",
    "Gradient",
    "HierarchicalEM",
    "IncrementalEM",
    "Info",
    "Initial",
    "LogUniform",
    "LostProcess",
    "MixtureEM",
    "Monitor",
    "Polytope",
    "SameRestarts",
    "Selection",
    "Session",
    "SlowEnumeration",
    "SlowForgetting",
    "State",
    "StepwiseEM",
    "Sweep",
    "Trials",
    "UnfinishedSchedule",
    "choose_weight",
    "compare_sizes",
    "init",
    "jackknife_fits",
    "launch",
    "schedules",
    "select_steps",
]
