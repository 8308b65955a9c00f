"""Partial pooling: groups of series that switch states in similar ways, and how similar is learned.

    centre[z]          ~ Dirichlet(1, ..., 1)               where state z goes, in a typical group
    strength           ~ LogNormal(log 10, 1)               how similar groups are: a learned concentration
    transition[g, z]   ~ Dirichlet(strength * centre[z])    where state z goes, in group g
    loc[z]             ~ Normal(-2 or 2, 1)                 what states emit, the same in all groups
    x[series]          ~ a hidden Markov chain with the transitions of its group, its states summed out

A group with much data decides its own transitions. A group with little data borrows from the others. A large
``strength`` means that groups are alike (one table would do), a small one that each is on its own.

``pu.Chain`` takes a transition table for every series. The model is an ordinary Pyro model, so both NUTS and SVI train
it. ``pu.importance`` then tells how far the guide of SVI is from the posterior.

Checked in tests/docs/test_pooled_hmm.py: the likelihood against a sum over all paths; that little data borrow and much
data do not; that NUTS and SVI agree on means.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal
from pyro.optim import ClippedAdam
from torch import Tensor

import pyro_unsup as pu

STATES = 2


def model(
    x: Tensor | None,  # (B, T) measurements, padded
    lengths: Tensor,  # (B,)
    group: Tensor,  # (B,) the group of each series
) -> Any:
    """Series of several groups; without x it draws them."""
    groups = int(group.max()) + 1
    centre = pyro.sample("centre", dist.Dirichlet(torch.ones(STATES, STATES)).to_event(1))
    strength = pyro.sample("strength", dist.LogNormal(math.log(10.0), 1.0))
    loc = pyro.sample("loc", dist.Normal(torch.tensor([-2.0, 2.0]), 1.0).to_event(1))  # tells the states apart
    with pyro.plate("groups", groups):
        transition = pyro.sample("transition", dist.Dirichlet(strength * centre + 1e-3).to_event(1))  # (G, K, K)
    start = torch.full((STATES,), -math.log(STATES))
    own = transition.clamp(min=1e-30).log()[group]  # (B, K, K)
    with pyro.plate("series", len(lengths)):
        return pyro.sample("x", pu.Chain(start, own, dist.Normal(loc, 1.0), lengths), obs=x)


def draw(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Measurements (B, T), lengths (B,), groups (B,) and the transitions (G, K, K) behind them.

    Groups 0 to 2 have six series each; group 3 has one short series.
    """
    generator = torch.Generator().manual_seed(seed)
    stay = torch.tensor([0.9, 0.85, 0.8, 0.85])
    transition = torch.stack([torch.stack([stay, 1 - stay], -1), torch.stack([1 - stay, stay], -1)], -2)
    group = torch.tensor([0] * 6 + [1] * 6 + [2] * 6 + [3])
    lengths = torch.tensor([15] * 18 + [5])
    states = torch.zeros(len(group), 15, dtype=torch.long)
    states[:, 0] = torch.randint(2, (len(group),), generator=generator)
    for t in range(1, 15):
        rows = transition[group, states[:, t - 1]]
        states[:, t] = torch.multinomial(rows, 1, generator=generator).squeeze(-1)
    noise = torch.randn(states.shape, generator=generator, dtype=torch.get_default_dtype())
    return torch.tensor([-2.0, 2.0])[states] + noise, lengths, group, transition


def by_nuts(data: tuple[Tensor, Tensor, Tensor], draws: int = 200, warmup: int = 200) -> dict[str, Tensor]:
    """Draws of the posterior, (chain, draw, ...) by name."""
    mcmc = MCMC(NUTS(model), num_samples=draws, warmup_steps=warmup, disable_progbar=True)
    mcmc.run(*data)
    found: dict[str, Tensor] = mcmc.get_samples(group_by_chain=True)
    return found


def by_svi(data: tuple[Tensor, Tensor, Tensor], steps: int = 1500) -> Any:
    """A guide: a normal distribution over all parameters together, on scales without bounds."""
    guide = AutoMultivariateNormal(model, init_scale=0.1)
    svi = SVI(model, guide, ClippedAdam({"lr": 0.03, "lrd": 0.1 ** (1 / steps)}), Trace_ELBO())
    for _ in range(steps):
        svi.step(*data)
    return guide


def main() -> None:
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(0)
    *data, truth = draw()
    args = (data[0], data[1], data[2])
    nuts = by_nuts(args)
    guide = by_svi(args)
    found = pu.importance(guide, *args, model=model, draws=500)
    print(found)
    for name, mean in (("truth", truth), ("NUTS", nuts["transition"].mean((0, 1))), ("SVI", found.mean("transition"))):
        print(f"{name:6} probability to stay in state 0, by group", mean[:, 0, 0].numpy().round(2))
    low, high = nuts["strength"].quantile(torch.tensor([0.05, 0.95]))
    print(f"strength {nuts['strength'].mean():.0f}, with 90% probability between {low:.0f} and {high:.0f}")


if __name__ == "__main__":
    main()
