"""The Bayesian workflow: results as ArviZ data, hidden structure draw by draw, comparison, calibration and checks."""

__all__: list[str] = []
