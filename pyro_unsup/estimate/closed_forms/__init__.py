"""Closed-form M steps of parameters that are not tables, one function a family of distributions.

A function gets weighted observations (:class:`.Cells`) and the names of the parameters that are to be estimated. It
returns the values that maximise the expected complete log-likelihood, given what the other parameters are. It is found
by the type of the distribution; :func:`register` adds one::

    @register(dist.Exponential)
    def exponential(cells, wanted):
        return {"rate": cells.total("rate", lambda x, w, d: w) / cells.total("rate", lambda x, w, d: w * x)}

What has no function here is estimated by L-BFGS.
"""

from . import continuous, discrete, multivariate
from .cells import Cells, Observations
from .registry import NoClosedForm, closed_form, has_closed_form, register
from .summaries import Summary, register_summary, summary_of

__all__ = [
    "Cells",
    "NoClosedForm",
    "Observations",
    "Summary",
    "closed_form",
    "continuous",
    "discrete",
    "has_closed_form",
    "multivariate",
    "register",
    "register_summary",
    "summary_of",
]
