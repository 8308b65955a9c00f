"""A hidden Markov model with Gaussian emissions: hidden states of sequences of measurements.

    z[0] --> z[1] --> z[2] --> ...      z[t] ~ start, then transition[z[t-1]]
     |        |        |
    x[0]     x[1]     x[2]              x[t] ~ Normal(mean[z[t]], scale[z[t]])

``start`` and ``transition`` are tables, so EM re-estimates them in closed form from expected counts. ``mean`` and
``scale`` are ordinary parameters. They belong to a normal distribution, whose estimates have a closed form too.
(Parameters of a family that has none are improved by L-BFGS.)

The same model stands here twice. ``enumerated_model`` is plain Pyro and easy to change. ``chain_model`` sums the
states out with ``pu.Chain``, by a compiled kernel, for when the data grow. Its value is the data themselves, so that it
also draws series, skips missing values (NaN), filters and forecasts.

Checked in tests/docs/test_examples.py: EM by brute force, in numpy, sums over every path of states of every sequence
and updates each parameter by its formula. Objectives and parameters of both models agree with it.
"""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu


def parameters(x: Tensor, lengths: Tensor, states: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Everything that is learned. Means start at quantiles of the data: equal means would never part."""
    start = pu.table("start", states)
    transition = pu.table("transition", states, states)
    seen = x[real(x, lengths)]
    levels = (torch.arange(states, dtype=x.dtype) + 0.5) / states
    mean = pyro.param("mean", lambda: seen.quantile(levels))
    # The lower bound keeps a state from shrinking onto a single measurement, where the likelihood has no limit.
    scale = pyro.param("scale", lambda: seen.std().expand(states), constraint=constraints.greater_than(0.01))
    return start, transition, mean, scale


def enumerated_model(
    x: Tensor,  # (B, T) measurements, padded
    lengths: Tensor,  # (B,)
    states: int,
) -> None:
    """One enumerated variable a time step; ``pyro.markov`` lets Pyro sum them out one after another."""
    start, transition, mean, scale = parameters(x, lengths, states)
    state: Tensor | None = None
    with pyro.plate("sequences", len(x)):
        for t in pyro.markov(range(x.shape[1])):
            here = t < lengths  # (B,)
            with poutine.mask(mask=here):  # after the end of a sequence nothing is there, and nothing is counted
                state = pyro.sample(f"state_{t}", pu.Categorical(start if state is None else transition[state]))
                pyro.sample(f"x_{t}", dist.Normal(mean[state], scale[state]), obs=x[:, t])


def chain_model(
    x: Tensor,  # (B, T) measurements, padded
    lengths: Tensor,  # (B,)
    states: int,
) -> None:
    """The same model, much faster: one observed site, a distribution over whole series."""
    start, transition, mean, scale = parameters(x, lengths, states)
    with pyro.plate("sequences", len(x)):
        pyro.sample("x", pu.Chain(start, transition, dist.Normal(mean, scale), lengths), obs=x)


def real(x: Tensor, lengths: Tensor) -> Tensor:  # (B, T) bool
    """Which cells of a padded array hold data."""
    return torch.arange(x.shape[1]) < lengths.unsqueeze(-1)


def draw(sequences: int = 100, longest: int = 8, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Measurements (B, T), lengths (B,) and the states (B, T) behind them: three levels, each kept for a while."""
    generator = torch.Generator().manual_seed(seed)
    mean, scale = torch.tensor([-2.0, 0.0, 3.0]).double(), torch.tensor([0.5, 0.8, 0.6]).double()
    transition = torch.full((3, 3), 0.1) + 0.7 * torch.eye(3)
    lengths = torch.randint(2, longest + 1, (sequences,), generator=generator)
    states = torch.randint(3, (sequences, longest), generator=generator)
    for t in range(1, longest):
        states[:, t] = torch.multinomial(transition[states[:, t - 1]], 1, generator=generator).squeeze(-1)
    noise = torch.randn(sequences, longest, dtype=torch.float64, generator=generator)
    return mean[states] + scale[states] * noise, lengths, states


def main() -> None:
    x, lengths, states = draw()
    for model in (enumerated_model, chain_model):
        engine = pu.EM(model)
        fit = engine.run(x, lengths, 3, iterations=3, progress=False)
        objectives = "  ".join(f"{row['objective']:.6f}" for row in fit.rows)
        seconds = fit.rows[-1]["seconds"] - fit.rows[-2]["seconds"]
        print(f"{model.__name__:16}  {objectives}  {1000 * seconds:.0f} ms an iteration")

    fit = engine.run(x, lengths, 3, progress=False, resume=fit)  # the chain goes on from where it is
    print(fit.report)
    other = pu.EM(enumerated_model, init=pu.init.from_weights(fit)).session().evaluate_loss(x, lengths, 3)
    print(f"log marginal: {fit.objective:.9f}, and {-other:.9f} under enumerated_model")
    print("mean ", fit.params["mean"].numpy().round(2))
    print("scale", fit.params["scale"].numpy().round(2))
    print("transition\n", fit.weights["transition"].exp().numpy().round(2))
    score = pu.evaluate.one_to_one(states[real(x, lengths)], fit.predict(x, lengths, 3)[real(x, lengths)])
    print(f"{100 * score:.0f}% of the states found")
    ahead = fit.posterior(x, lengths, 3).forecast(2)
    print("the next two measurements of the first sequence, on average", ahead.mean[0].numpy().round(2))


if __name__ == "__main__":
    main()
