"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

from .convert import prior_predictive, to_arviz
from .recovery import recover

__all__ = ["prior_predictive", "recover", "to_arviz"]
