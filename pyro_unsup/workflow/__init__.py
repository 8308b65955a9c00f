"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

from .calibration import Calibration
from .checks import PredictiveCheck, predictive_check
from .convert import prior_predictive, to_arviz
from .elpd import Elpd
from .evidence import Evidence, evidence
from .importance import Importance, importance
from .k_fold import k_fold
from .lfo import leave_future_out
from .recovery import recover
from .relabel import relabel
from .relabelled import Relabelled
from .sbc import sbc

__all__ = [
    "Calibration",
    "Elpd",
    "Evidence",
    "Importance",
    "PredictiveCheck",
    "Relabelled",
    "evidence",
    "importance",
    "k_fold",
    "leave_future_out",
    "predictive_check",
    "prior_predictive",
    "recover",
    "relabel",
    "sbc",
    "to_arviz",
]
