"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

from .relabel import Relabelled, relabel

__all__ = ["Relabelled", "relabel"]
