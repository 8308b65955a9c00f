"""``evidence``: the log marginal likelihood of a model, for Bayes factors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import UnsupError
from ..infer.progress import progress_bar
from ..infer.runs import one_thread
from .arguments import check_data, check_model, check_seed, check_whole, own_errors
from .densities import Densities
from .hmc import hmc_move
from .psis import GOOD, khat

#: Of the pilot: the share of particles that a step of the temperature may cost, and how often steps are tuned there.
KEPT, TUNED = {"ais": 0.99, "stones": 0.8}, 2
#: Independent groups of particles of stepping stones.
GROUPS = 10
#: A standard error of the log above this one is itself an underestimate: few weights have the say.
MOST = 0.35
#: The share of moves that should be accepted.
ACCEPTED = 0.75


@dataclass(frozen=True)
class Evidence:
    """An estimate of log p(data), the parameters integrated out.

    :param log: the estimate.
    :param se: its standard error.
    :param ess: how many of the particles count.
    :param k: the tail index of the weights of the particles; above 0.7 the standard error is too small.
    :param temperatures: powers of the likelihood, from 0 (the prior) to 1 (the posterior).
    :param accepted: the share of accepted moves at each.
    :param method: ``"ais"``, ``"stones"`` or ``"exact"``.

    >>> from pyro_unsup.workflow import Evidence
    >>> one = Evidence(-10.0, 0.3, 90.0, 0.2, (0.0, 1.0), (0.8,), "ais")
    >>> other = Evidence(-12.0, 0.4, 90.0, 0.2, (0.0, 1.0), (0.8,), "ais")
    >>> one.bayes_factor(other)
    (2.0, 0.5)
    """

    log: float
    se: float
    ess: float
    k: float
    temperatures: tuple[float, ...]
    accepted: tuple[float, ...]
    method: str

    def bayes_factor(self, other: Evidence) -> tuple[float, float]:
        """The log of the Bayes factor of this model over another one of the same data, and its standard error."""
        if not isinstance(other, Evidence):
            raise UnsupError(
                f"a Bayes factor compares two models: expected what pu.evidence(other_model, data) returns, actual "
                f"{type(other).__name__}"
            )
        return self.log - other.log, math.hypot(self.se, other.se)

    @property
    def reliable(self) -> bool:
        """Whether the standard error can be believed."""
        return self.k < GOOD and self.se < MOST

    def __repr__(self) -> str:
        doubt = "" if self.reliable else "; the standard error is too small: take more temperatures or particles"
        return (
            f"log evidence {self.log:.2f} +- {self.se:.2f} ({self.method}, {len(self.temperatures) - 1} steps, "
            f"{self.ess:.0f} effective particles, k-hat {self.k:.2f}{doubt})"
        )


@own_errors()
def evidence(
    model: Callable[..., Any],
    *data: Any,
    method: Literal["stones", "ais"] = "stones",
    particles: int = 400,
    temperatures: int | None = None,
    moves: int = 2,
    leaps: int = 5,
    seed: int = 0,
    progress: bool | None = None,
) -> Evidence:
    """Estimate log p(data) = log of the integral of p(data | theta) p(theta) over all theta.

    Particles begin as draws from the prior and follow p(theta) p(data | theta)^beta as beta goes from 0 to 1, moved by
    Hamiltonian Monte Carlo, all of them at once.

    - ``"stones"``, stepping stones [2]: at every beta, the mean of the next step over particles, which are then drawn
      again by their weights and moved. Ten groups of particles do this on their own, each with an unbiased estimate of
      the evidence; the standard error is that of their mean.
    - ``"ais"``, annealed importance sampling [1]: a particle's weight is the product of its steps. The mean of weights
      is an unbiased estimate, too. All particles are independent, but it takes several times as many temperatures.

    The power is that of the likelihood with hidden structure summed out: at 0 what is left is the prior, whose integral
    is known. (It is Pyro's ``poutine.scale`` on observed sites. :func:`.temper` raises the weights of structures inside
    their sum. That is a path to other ends: near 0 it has no prior whose integral is known.)

    A model without continuous parameters is summed out, and its evidence is exact.

    A pilot run of other particles chooses temperatures and step sizes, so that the estimate itself adapts to nothing.

    :param model: a Pyro model whose parameters all have proper priors and are continuous.
    :param data: as the model takes them.
    :param method: see above.
    :param particles: how many.
    :param temperatures: how many steps; by default as many as keep the weights even.
    :param moves: of Hamiltonian Monte Carlo at each temperature.
    :param leaps: leapfrog steps of a move.
    :param seed: the same estimate comes from the same seed.
    :param progress: show a bar; by default where there is a terminal.

    >>> import pyro, pyro.distributions as dist, torch
    >>> import pyro_unsup as pu
    >>> def coin(flips):
    ...     bias = pyro.sample("bias", dist.Beta(1.0, 1.0))
    ...     with pyro.plate("flips", len(flips)):
    ...         pyro.sample("x", dist.Bernoulli(bias), obs=flips)
    >>> found = pu.evidence(coin, torch.tensor([1.0, 1.0, 1.0, 0.0]), particles=100, progress=False)
    >>> exact = -torch.tensor(20.0).log()  # the beta function of 4 and 2
    >>> bool(abs(found.log - exact) < 4 * found.se), found.reliable
    (True, True)

    **References:** [1] R. M. Neal (2001) "Annealed importance sampling". [2] W. Xie et al. (2011) "Improving marginal
    likelihood estimation for Bayesian phylogenetic model selection".
    """
    if method not in KEPT:
        raise UnsupError(f"method must be 'ais' or 'stones', actual {method!r:.80}")
    check_whole("particles", particles, 40)
    check_whole("moves", moves)
    check_whole("leaps", leaps)
    if temperatures is not None:
        check_whole("temperatures", temperatures)
    check_seed(seed)
    check_model("evidence", model)
    check_data("evidence", model, data)
    density = Densities(model, data)
    if density.points:
        raise UnsupError(
            f"{', '.join(density.points)} have no prior: they are parameters that pyro.param declares, and an integral "
            "over them does not exist. Give them priors, as in HMM(2, prior={'loc': dist.Normal(0.0, 3.0)})"
        )
    if not density.sites:  # all that is hidden has a few values, and is summed over
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            log = float(density.exact())
        return Evidence(log, 0.0, float(particles), -math.inf, (0.0, 1.0), (), "exact")
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        path = _Path(density, moves, leaps, progress)
        plan = path.pilot(max(32, particles // 4), KEPT[method], temperatures)
        return path.ais(plan, particles) if method == "ais" else path.stones(plan, particles)


@dataclass(frozen=True)
class _Stone:
    """One temperature of the path: the power of the likelihood, and the steps of moves there."""

    beta: float
    step: float
    scale: Tensor  # (D,)


class _Path:
    """From the prior to the posterior."""

    def __init__(self, density: Densities, moves: int, leaps: int, progress: bool | None) -> None:
        self.density, self.moves, self.leaps, self.progress = density, moves, leaps, progress

    def start(self, size: int) -> Tensor:  # (S, D)
        return self.density.to_unbounded(self.density.prior(size)).double()

    def likelihood(self, x: Tensor) -> Tensor:  # (S, D) -> (S,)
        with torch.no_grad():
            values, _ = self.density.to_values(x)
            return self.density.log_likelihood(values)

    def move(self, x: Tensor, stone: _Stone, times: int) -> tuple[Tensor, float]:
        def log_density(y: Tensor) -> Tensor:
            values, volume = self.density.to_values(y)
            prior, likelihood = self.density.both(values)
            found: Tensor = prior + volume + stone.beta * likelihood
            return found

        rates = []
        for _ in range(times):
            x, rate = hmc_move(x, log_density, stone.step, stone.scale, self.leaps)
            rates.append(rate)
        return x, float(np.mean(rates))

    def pilot(self, size: int, kept: float, steps: int | None) -> list[_Stone]:
        """Temperatures at which a step costs as many particles as it may, and step sizes that are accepted."""
        x, beta, step = self.start(size), 0.0, 0.5
        found: list[_Stone] = []
        with self._bar("pilot") as bar:
            while beta < 1:
                likelihood = self.likelihood(x)
                new = _next(likelihood, beta, kept)
                weights = ((new - beta) * likelihood).softmax(0)
                x = x[torch.multinomial(weights, size, replacement=True)]
                beta = new
                scale = x.std(0).clamp(min=1e-3)
                for _ in range(TUNED):
                    x, rate = self.move(x, _Stone(beta, step, scale), 1)
                    step = min(max(step * math.exp(rate - ACCEPTED), 1e-4), 2.0)
                found.append(_Stone(beta, step, x.std(0).clamp(min=1e-3)))
                bar.update()
        return found if steps is None else _spread(found, steps)

    def ais(self, plan: list[_Stone], size: int) -> Evidence:
        x, log_weight, beta = self.start(size), torch.zeros(size, dtype=torch.float64), 0.0
        accepted = []
        with self._bar("temperature", len(plan)) as bar:
            for stone in plan:
                log_weight += (stone.beta - beta) * self.likelihood(x)
                beta = stone.beta
                if beta < 1:  # what a particle does after its last weight counts for nothing
                    x, rate = self.move(x, stone, self.moves)
                    accepted.append(rate)
                bar.update()
        w = (log_weight - log_weight.max()).exp()
        log = float(log_weight.logsumexp(0)) - math.log(size)
        se = float(w.std() / w.mean()) / math.sqrt(size)
        ess = float(w.sum().square() / w.square().sum())
        betas = (0.0, *(stone.beta for stone in plan))
        return Evidence(log, se, ess, khat(log_weight.numpy()), betas, tuple(accepted), "ais")

    def stones(self, plan: list[_Stone], size: int) -> Evidence:
        each = size // GROUPS
        x, log_z, beta = self.start(each * GROUPS), torch.zeros(GROUPS, dtype=torch.float64), 0.0
        accepted, left, tails = [], [], []
        with self._bar("stone", len(plan)) as bar:
            for stone in plan:
                rise = ((stone.beta - beta) * self.likelihood(x)).reshape(GROUPS, each)
                log_z += rise.logsumexp(1) - math.log(each)
                left.append(float((2 * rise.logsumexp(1) - (2 * rise).logsumexp(1)).exp().sum()))
                tails.append(khat(rise.flatten().numpy()))
                beta = stone.beta
                if beta < 1:
                    chosen = torch.multinomial(rise.softmax(1), each, replacement=True)  # each group by itself
                    x = x[(chosen + each * torch.arange(GROUPS)[:, None]).flatten()]
                    x, rate = self.move(x, stone, self.moves)
                    accepted.append(rate)
                bar.update()
        w = (log_z - log_z.max()).exp()
        log = float(log_z.logsumexp(0)) - math.log(GROUPS)
        se = float(w.std() / w.mean()) / math.sqrt(GROUPS)
        betas = (0.0, *(stone.beta for stone in plan))
        return Evidence(log, se, min(left), max(tails), betas, tuple(accepted), "stones")

    def _bar(self, unit: str, total: int | None = None) -> Any:
        return progress_bar(total=total, shown=self.progress, unit=unit)


def _next(likelihood: Tensor, beta: float, kept: float) -> float:
    """The next power of the likelihood, at which this share of particles is left."""

    def left(new: float) -> float:
        w = (new - beta) * likelihood
        return float((2 * w.logsumexp(0) - (2 * w).logsumexp(0)).exp()) / len(w)

    if left(1.0) >= kept:
        return 1.0
    low, high = beta, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) >= kept else (low, middle)
    return max(low, beta + 1e-9)


def _spread(plan: list[_Stone], steps: int) -> list[_Stone]:
    """As many temperatures as wanted, spaced as those of the pilot are."""
    known = [0.0, *(stone.beta for stone in plan)]
    places = np.linspace(0, len(plan), steps + 1)[1:]
    betas = np.interp(places, np.arange(len(known)), known)
    return [
        _Stone(float(beta), plan[max(0, math.ceil(at) - 1)].step, plan[max(0, math.ceil(at) - 1)].scale)
        for beta, at in zip(betas, places, strict=True)
    ]
