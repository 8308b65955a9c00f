"""What a run of Pyro's MCMC tells of its draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pyro.infer import HMC, MCMC

from ..errors import UnsupError
from ..infer import BlockedGibbs, CollapsedGibbs
from ..results.arviz import dataset
from .densities import Densities
from .draws import samples_of
from .parameters import flat

if TYPE_CHECKING:
    import xarray


def mcmc_statistics(mcmc: MCMC, likelihood: xarray.Dataset | None) -> xarray.Dataset | None:
    """The group ``sample_stats``; None if there is nothing to tell.

    Only what the sampler knows is here. Gibbs samplers take every draw: they have no divergences.

    :param likelihood: the group ``log_likelihood``, from which ``lp`` is made.
    """
    samples = samples_of(mcmc)
    chains, size = next(iter(samples.values())).shape[:2]
    # Not mcmc.diagnostics(), which also computes R-hat, and fails if there are fewer than four draws.
    kernel, known = mcmc.kernel, mcmc._diagnostics
    found: dict[str, Any] = {}
    if not isinstance(kernel, BlockedGibbs | CollapsedGibbs) and "divergences" in known[0]:
        found["diverging"] = np.zeros((chains, size), bool)
        for i in range(chains):
            found["diverging"][i, list(known[i]["divergences"])] = True
    if isinstance(kernel, HMC) and chains == 1:  # of several chains, the kernel has the step of the last one only
        found["step_size"] = np.full((1, size), float(kernel.step_size))
    if isinstance(kernel, CollapsedGibbs):
        found["lp"] = samples["log_joint"].numpy()
    elif likelihood is not None:
        found |= _log_joint(mcmc, samples, likelihood)
    group = dataset(found) if found else None
    if isinstance(kernel, HMC):
        rates = [float(known[i]["acceptance rate"]) for i in range(chains)]
        assert group is not None
        group["mean_acceptance_rate"] = (["chain"], np.array(rates))
    return group


def _log_joint(mcmc: MCMC, samples: dict[str, Any], likelihood: xarray.Dataset) -> dict[str, Any]:
    """log p(data, draw), (chains, draws); nothing if the draws are not of all latent variables of the model."""
    chains, size = next(iter(samples.values())).shape[:2]
    each = [np.asarray(x.values).reshape(chains, size, -1).sum(-1) for x in likelihood.data_vars.values()]
    try:
        density = Densities(mcmc.kernel.model, mcmc._args or (), mcmc._kwargs)
        with torch.no_grad():
            prior = density.log_prior(flat(samples))
    except UnsupError:
        return {}
    return {"lp": sum(each) + prior.double().numpy().reshape(chains, size)}
