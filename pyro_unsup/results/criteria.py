"""Information criteria: how well a fit explains data, less what its parameters cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from pyro import poutine
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare

if TYPE_CHECKING:
    from .fit import Fit


def free_parameters(fit: Fit) -> int:
    """How many numbers were estimated: the model's own count, or cells of tables less rows, and all parameters."""
    own = getattr(bare(fit.model), "free_parameters", None)
    if own is not None:
        return int(own())
    possible = [(w > -torch.inf).reshape(-1, w.shape[-1]).sum(-1) for w in fit.weights.values()]
    cells = sum(int((row - 1).clamp(min=0).sum()) for row in possible)
    return cells + sum(x.numel() for x in (*fit.params.values(), *fit.points.values()))


def observations(fit: Fit, *args: Any, **kwargs: Any) -> int:
    """How many observations the data have that are not missing."""
    index = getattr(bare(fit.model), "index", None)
    data = None if index is None else index(*args, **kwargs)
    if (seen := getattr(data, "observed", None)) is not None:
        return int(seen.sum())
    return int(fit.posterior(*args, **kwargs).prior.rows.size)


def log_prior_of_points(fit: Fit, *args: Any, **kwargs: Any) -> float:
    """The log prior of points, which the log-likelihood of a fit has in it."""
    if not fit.points:
        return 0.0
    with torch.random.fork_rng(devices=[]), torch.no_grad(), poutine.block():
        trace = poutine.trace(fit.trained).get_trace(*args, **kwargs)
    trace.compute_log_prob(lambda name, site: name in fit.points)
    return float(sum(trace.nodes[name]["log_prob_sum"] for name in fit.points))


def criteria(fit: Fit, *args: Any, **kwargs: Any) -> dict[str, float]:
    """``log_likelihood``, ``parameters``, ``observations``, ``aic``, ``bic`` and ``icl`` of a fit on data."""
    if not args and not kwargs:
        raise UnsupError("aic, bic and icl need the data that they are of: fit.aic(data)")
    plain = fit.unhandled()
    posterior = plain.posterior(*args, **kwargs)
    # Of the data alone: the log-likelihood of a fit holds the log prior of its points as well.
    log_p, k, n = float(posterior.log_partition.sum()), free_parameters(fit), observations(plain, *args, **kwargs)
    bic = k * math.log(max(n, 1)) - 2 * log_p
    entropy: Tensor = posterior.entropy
    return {
        "log_likelihood": log_p,
        "parameters": k,
        "observations": n,
        "aic": 2 * k - 2 * log_p,
        "bic": bic,
        "icl": bic + 2 * float(entropy.sum()),
    }
