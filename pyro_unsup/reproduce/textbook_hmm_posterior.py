"""The posterior of a Poisson hidden Markov model of earthquakes, by NUTS."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor

import pyro_unsup as pu

from ..workflow.arviz_tools import by_arviz
from .corpora import Corpora
from .experiment import Column, Found, Row, Table
from .textbook_hmm_counts import EARTHQUAKES, counts

#: Draws, and draws to adapt before; fewer of both in small.
DRAWS, FEW = (1000, 500), (40, 40)


def posterior(corpora: Corpora, seed: int, small: bool) -> Found:
    """Means and standard deviations under priors that all states share, states in the order of their rates.

    :return: of each figure also the error that so few draws leave (``..._error``).
    """
    prior = {"rate": dist.Gamma(torch.tensor(0.1).double(), torch.tensor(0.01).double()), "transition": 1.0}
    model = pu.models.HMM(3, "poisson", start="stationary", prior=prior)
    stay = torch.full((3, 3), 0.1).double() + 0.7 * torch.eye(3).double()
    start = init_to_value(values={"rate": torch.tensor([13.0, 20.0, 30.0]).double(), "transition": stay})
    draws, warmup = FEW if small else DRAWS
    with torch.random.fork_rng(devices=[]):
        pyro.set_rng_seed(seed)
        mcmc = MCMC(NUTS(model, init_strategy=start, max_tree_depth=6), draws, warmup, disable_progbar=small)
        mcmc.run(counts(corpora, "earthquakes"))
    found = mcmc.get_samples()
    order = found["rate"].argsort(-1)
    stays = found["transition"].diagonal(dim1=-2, dim2=-1).gather(-1, order)
    each = {"lambda": found["rate"].gather(-1, order), "gamma": stays}
    numbers = {}
    for name, x in each.items():
        for k, one in enumerate(x.unbind(-1), 1):
            key = f"{name}{k}" if name == "lambda" else f"{name}{k}{k}"
            numbers[key], numbers[f"{key}_sd"] = float(one.mean()), float(one.std())
            numbers[f"{key}_error"] = _error(one)
            numbers[f"{key}_sd_error"] = _error((one - one.mean()) ** 2) / (2 * float(one.std()))  # of a square root
    return numbers


def _error(draws: Tensor) -> float:
    """Of the mean of draws that are not independent."""
    return float(draws.std()) / math.sqrt(float(by_arviz(draws.numpy()[None, :, None], "ess")[0]))


PUBLISHED = {
    "lambda1": 13.113, "lambda1_sd": 0.899, "lambda2": 19.780, "lambda2_sd": 1.104, "lambda3": 29.741,
    "lambda3_sd": 1.956, "gamma11": 0.855, "gamma11_sd": 0.083, "gamma22": 0.816, "gamma22_sd": 0.086,
    "gamma33": 0.696, "gamma33_sd": 0.128,
}  # fmt: skip
POSTERIOR = Table(
    "earthquakes-posterior",
    "Earthquakes: the posterior by NUTS, 3 states, stationary",
    "Gamma(0.1, 0.01) priors on rates, uniform ones on rows of gamma. Figures are means and standard deviations of "
    "draws, of a sampler here as of the published ones: about two digits are the same.",
    tuple(Column(name, name.replace("_", " "), 3) for name in PUBLISHED),
    (Row("NUTS", posterior, EARTHQUAKES, PUBLISHED, 1),),
    minutes=2,
    bars=(),
)
TABLES = (POSTERIOR,)
