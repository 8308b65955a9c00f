"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

from .calibration import Calibration
from .evidence import Evidence, evidence
from .relabel import Relabelled, relabel
from .sbc import sbc

__all__ = [
    "Calibration",
    "Evidence",
    "Relabelled",
    "evidence",
    "relabel",
    "sbc",
]
