"""Concentrations of Dirichlet priors: fixed, or sampled by Metropolis-Hastings beside what is hidden."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ..errors import FitError

Array = np.ndarray[Any, Any]
Learn = Literal["fixed", "shared", "separate"]

#: Smaller concentrations are refused: a product of four of them would vanish in float64.
SMALLEST = 1e-60


class Hyperprior(Protocol):
    """A density of one positive number."""

    def log_density(self, x: Array) -> Array:
        """Up to a constant, -inf where x cannot be."""


@dataclass(frozen=True)
class Gamma:
    """Proportional to x^(shape - 1) exp(-rate x).

    >>> Gamma(2.0, 1.0).log_density(np.array([1.0]))
    array([-1.])
    """

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _positive(shape=self.shape, rate=self.rate)

    def log_density(self, x: Array) -> Array:
        return np.asarray((self.shape - 1) * np.log(x) - self.rate * x)


@dataclass(frozen=True)
class LogUniform:
    """Proportional to 1 / x between two bounds."""

    low: float = 1e-6
    high: float = 1e3

    def __post_init__(self) -> None:
        _positive(low=self.low, high=self.high)
        if not self.low < self.high:
            raise FitError(f"a log-uniform prior needs low < high, actual {self.low:g} and {self.high:g}")

    def log_density(self, x: Array) -> Array:
        return np.where((x >= self.low) & (x <= self.high), -np.log(x), -np.inf)


@dataclass(frozen=True)
class Flat:
    """The same density everywhere: improper, and the posterior is improper with it.

    As the concentration grows, the probability of the tags tends to a positive constant, so a long chain wanders off
    without end. It serves a short search for good tags, never an estimate of the concentration.
    """

    def log_density(self, x: Array) -> Array:
        return np.zeros_like(x)


def hyperprior(given: Hyperprior | str) -> Hyperprior:
    """A prior of concentrations, perhaps by name: ``"gamma"`` (Gamma(1, 1)), ``"log_uniform"``, ``"flat"``."""
    if not isinstance(given, str):
        return given
    known: dict[str, Hyperprior] = {"gamma": Gamma(), "log_uniform": LogUniform(), "flat": Flat()}
    if given not in known:
        raise FitError(f"a hyperprior is one of {', '.join(map(repr, known))} or has log_density(x), actual {given!r}")
    if given == "flat":
        warnings.warn(
            "a flat prior on concentrations is improper, and so is the posterior: use its chains to search for good "
            "tags, not to estimate the concentrations",
            stacklevel=2,
        )
    return known[given]


def hastings(x: Array, proposed: Array, width: float) -> Array:
    """log q(x | proposed) / q(proposed | x) of the proposal Normal(x, width x), which depends on where it starts."""
    return np.asarray(np.log(x / proposed) - (x - proposed) ** 2 / (2 * width**2) * (1 / proposed**2 - 1 / x**2))


def metropolis(
    x: Array,  # (n,) positive
    log_likelihood: Callable[[Array], Array],  # (n,) -> (n,), each of its own x
    prior: Hyperprior,
    rng: np.random.Generator,
    width: float = 0.1,
) -> tuple[Array, Array, Array]:  # (n,) new x, (n,) their log-likelihood, (n,) whether each was accepted
    """One step for each of n independent numbers, by the proposal of Goldwater & Griffiths (2007), section 4."""
    proposed = x + width * x * rng.standard_normal(len(x))
    decision = np.log1p(-rng.random(len(x)))
    possible = proposed > SMALLEST
    if not possible.all():
        proposed = np.where(possible, proposed, x)
    before, after = log_likelihood(x), log_likelihood(proposed)
    ratio = after - before + prior.log_density(proposed) - prior.log_density(x) + hastings(x, proposed, width)
    accepted = possible & (decision < ratio)
    return np.where(accepted, proposed, x), np.where(accepted, after, before), accepted


class Counted(Protocol):
    """What is hidden, as far as concentrations are concerned."""

    def log_choices(self, alpha: Array) -> float: ...

    def log_emissions(self, beta: Array) -> Array: ...


class Hyperparameters:
    """The concentrations of one chain.

    :param alpha: (kinds,) of the rows that the hidden labels are drawn from.
    :param beta: (K,) of the rows that the data are drawn from, one row a label.
    :param learn: ``"fixed"``; ``"shared"``, one alpha and one beta; ``"separate"``, one alpha and a beta a label.
    :param prior: of every number that is learned.
    :param width: of the proposals, relative to the present value.
    :param steps: of Metropolis-Hastings in each sweep.
    """

    def __init__(
        self, alpha: Array, beta: Array, learn: Learn, prior: Hyperprior, width: float = 0.1, steps: int = 1
    ) -> None:
        self.learn, self.prior, self.width, self.steps = learn, prior, width, steps
        if learn not in ("fixed", "shared", "separate"):
            raise FitError(f"hyper must be 'fixed', 'shared' or 'separate', actual {learn!r}")
        _positive(width=width, steps=steps)
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not (np.all(np.isfinite(value)) and np.all(value > SMALLEST)):
                raise FitError(f"{name} must be positive and finite, actual {np.unique(value)!s:.80}")
        if learn == "shared" and len(np.unique(beta)) > 1:
            raise FitError("one beta for all labels cannot start from several values: give one, or hyper='separate'")
        self.alpha = alpha.astype(np.float64)
        self.beta = beta.astype(np.float64)
        if learn != "fixed":
            self.alpha[:] = self.alpha[0]

    @property
    def sampled(self) -> dict[str, Array]:
        """The numbers that are learned: () for alpha, () or (K,) for beta."""
        if self.learn == "fixed":
            return {}
        return {"alpha": self.alpha[0].copy(), "beta": self.beta[0].copy() if self.learn == "shared" else self.beta}

    def step(self, counted: Counted, rng: np.random.Generator) -> tuple[dict[str, float], float]:
        """Move the numbers that are learned: the share of accepted proposals of each, and the log joint afterwards.

        The log joint is that of labels and data, and of the numbers that are learned.
        """
        if self.learn == "fixed":
            return {}, self.log_joint(counted)
        kept = np.zeros(2)

        def of_alpha(x: Array) -> Array:
            return np.array([counted.log_choices(np.full(len(self.alpha), x[0]))])

        def of_one_beta(x: Array) -> Array:
            return np.array([counted.log_emissions(np.full(len(self.beta), x[0])).sum()])

        for _ in range(self.steps):
            alpha, of_labels, accepted = metropolis(self.alpha[:1], of_alpha, self.prior, rng, self.width)
            self.alpha = np.full(len(self.alpha), alpha[0])
            kept[0] += accepted.mean()
            if self.learn == "shared":
                beta, of_data, accepted = metropolis(self.beta[:1], of_one_beta, self.prior, rng, self.width)
                self.beta = np.full(len(self.beta), beta[0])
            else:
                self.beta, of_data, accepted = metropolis(self.beta, counted.log_emissions, self.prior, rng, self.width)
            kept[1] += accepted.mean()
        rates = {"alpha": float(kept[0] / self.steps), "beta": float(kept[1] / self.steps)}
        return rates, float(of_labels[0]) + float(of_data.sum()) + self.log_prior()

    def log_joint(self, counted: Counted) -> float:
        """Of labels and data, given the present concentrations, and of those that are learned."""
        return counted.log_choices(self.alpha) + float(counted.log_emissions(self.beta).sum()) + self.log_prior()

    def log_prior(self) -> float:
        """Log density of the numbers that are learned, up to a constant."""
        if self.learn == "fixed":
            return 0.0
        learned = np.concatenate([self.alpha[:1], self.beta[:1] if self.learn == "shared" else self.beta])
        return float(self.prior.log_density(learned).sum())


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise FitError(f"{name} must be positive and finite, actual {value}")
