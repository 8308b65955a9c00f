"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

from .calibration import Calibration
from .checks import PredictiveCheck, predictive_check
from .elpd import Elpd
from .evidence import Evidence, evidence
from .importance import Importance, importance
from .k_fold import k_fold
from .lfo import leave_future_out
from .relabel import Relabelled, relabel
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
    "relabel",
    "sbc",
]
