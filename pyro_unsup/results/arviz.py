"""Results as ArviZ data, for ArviZ 0.x (InferenceData) and 1.x (DataTree) alike."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .fit import Fit

#: Columns of the history, and what they are called in ArviZ, where a ``log_likelihood`` is one of each observation.
HISTORY = {"objective": "objective", "log_likelihood": "total_log_likelihood", "change": "change"}


def from_groups(groups: dict[str, dict[str, Any]], **options: Any) -> Any:
    """``arviz.from_dict`` of groups of arrays with axes (chain, draw, ...), whichever way it wants to be called."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces its own successor on import
        warnings.simplefilter("ignore", DeprecationWarning)
        import arviz

        from_dict: Any = arviz.from_dict
        if "data" in inspect.signature(from_dict).parameters:
            return from_dict(groups, **options)
        return from_dict(**groups, **options)


def point_estimate(fit: Fit) -> Any:
    """One chain of one draw: the learned probabilities, the estimated latent variables and parameters."""
    values = {**{name: w.exp() for name, w in fit.weights.items()}, **fit.points, **fit.params}
    posterior = {name: np.asarray(x.detach())[None, None] for name, x in values.items()}
    history = {HISTORY[key]: np.array([[row[key] for row in fit.rows]]) for key in HISTORY}
    return from_groups({"posterior": posterior, "sample_stats": history})
