"""Concentrations of Dirichlet priors: fixed, or sampled by Metropolis-Hastings beside what is hidden."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ..array import Array
from ..errors import FitError
from .gibbs_checks import is_positive, is_whole

Learn = Literal["fixed", "shared", "separate"]

#: Concentrations lie between these: products of four of them stay within float64.
SMALLEST, LARGEST = 1e-60, 1e60


class Hyperprior(Protocol):
    """A density of one positive number."""

    def log_density(self, x: Array) -> Array:
        """Up to a constant, -inf where x cannot be."""


@dataclass(frozen=True)
class Gamma:
    """Proportional to x^(shape - 1) exp(-rate x).

    >>> import numpy as np
    >>> from pyro_unsup.infer import Gamma
    >>> Gamma(2.0, 1.0).log_density(np.array([1.0]))
    array([-1.])
    """

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _positive(shape=self.shape, rate=self.rate)

    def log_density(self, x: Array) -> Array:
        """Up to a constant, of the shape of ``x``."""
        return np.asarray((self.shape - 1) * np.log(x) - self.rate * x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:  # (size,)
        """Draws."""
        return rng.gamma(self.shape, 1 / self.rate, size)


@dataclass(frozen=True)
class LogUniform:
    """Proportional to 1 / x between two bounds.

    >>> import numpy as np
    >>> from pyro_unsup.infer import LogUniform
    >>> LogUniform(0.1, 10.0).log_density(np.array([0.01, 1.0]))
    array([-inf,  -0.])
    """

    low: float = 1e-6
    high: float = 1e3

    def __post_init__(self) -> None:
        _positive(low=self.low, high=self.high)
        if not self.low < self.high:
            raise FitError(f"a log-uniform prior needs low < high, actual {self.low:g} and {self.high:g}")

    def log_density(self, x: Array) -> Array:
        """Up to a constant, of the shape of ``x``."""
        return np.where((x >= self.low) & (x <= self.high), -np.log(x), -np.inf)

    def sample(self, size: int, rng: np.random.Generator) -> Array:  # (size,)
        """Draws."""
        return np.exp(rng.uniform(np.log(self.low), np.log(self.high), size))


@dataclass(frozen=True)
class Flat:
    """The same density everywhere: improper, and the posterior is improper with it.

    As the concentration grows, the probability of the tags tends to a positive constant, so a long chain wanders off
    without end. It serves a short search for good tags, never an estimate of the concentration.

    >>> import numpy as np
    >>> from pyro_unsup.infer import Flat
    >>> Flat().log_density(np.array([0.01, 100.0]))
    array([0., 0.])
    """

    def log_density(self, x: Array) -> Array:
        """Up to a constant, of the shape of ``x``."""
        return np.zeros_like(x)


def hyperprior(given: Hyperprior | str) -> Hyperprior:
    """A prior of concentrations, perhaps by name: ``"gamma"`` (Gamma(1, 1)), ``"log_uniform"``, ``"flat"``."""
    if callable(getattr(given, "log_density", None)):
        return given  # type: ignore[return-value]
    known: dict[Any, Hyperprior] = {"gamma": Gamma(), "log_uniform": LogUniform(), "flat": Flat()}
    if not isinstance(given, str) or given not in known:
        raise FitError(f"a hyperprior is one of {', '.join(map(repr, known))} or has log_density(x), actual {given!r}")
    if given == "flat":
        warnings.warn(
            "a flat prior on concentrations is improper, and so is the posterior: use its chains to search for good "
            "tags, not to estimate the concentrations",
            stacklevel=3,  # where the sampler is made
        )
    return known[given]


def written_hyperprior(text: str) -> Hyperprior | None:
    """The prior that is written like this in the settings of a sampler; None if it is one of a user's own.

    >>> from pyro_unsup.infer.hyperparameters import written_hyperprior
    >>> written_hyperprior("Gamma(shape=2.0, rate=0.5)")
    Gamma(shape=2.0, rate=0.5)
    """
    found = re.fullmatch(r"(Gamma|LogUniform|Flat)\((.*)\)", text)
    if found is None:
        return None
    numbers = dict(pair.split("=") for pair in found[2].split(", ") if pair)
    kind: Any = {"Gamma": Gamma, "LogUniform": LogUniform, "Flat": Flat}[found[1]]
    made: Hyperprior = kind(**{name: float(x) for name, x in numbers.items()})
    return made


def hastings(x: Any, proposed: Any, width: float) -> Any:
    """log q(x | proposed) / q(proposed | x) of the proposal Normal(x, width x), which depends on where it starts."""
    return np.log(x / proposed) - (x - proposed) ** 2 / (2 * width**2) * (1 / proposed**2 - 1 / x**2)


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
    possible = (proposed > SMALLEST) & (proposed < LARGEST)
    if not possible.all():
        proposed = np.where(possible, proposed, x)
    before, after = log_likelihood(x), log_likelihood(proposed)
    ratio = after - before + prior.log_density(proposed) - prior.log_density(x) + hastings(x, proposed, width)
    accepted = possible & (decision < ratio)
    return np.where(accepted, proposed, x), np.where(accepted, after, before), accepted


def metropolis_one(
    x: float, log_likelihood: Callable[[float], float], prior: Hyperprior, rng: np.random.Generator, width: float = 0.1
) -> tuple[float, float, bool]:
    """The same for one number, by the same random numbers. Plain floats are several times as fast."""
    proposed = x + width * x * rng.standard_normal()
    decision = math.log1p(-rng.random())
    before = log_likelihood(x)
    if not SMALLEST < proposed < LARGEST:
        return x, before, False
    after = log_likelihood(proposed)
    density, new_density = prior.log_density(np.array([x, proposed])).tolist()
    ratio = after - before + new_density - density + float(hastings(x, proposed, width))
    return (proposed, after, True) if decision < ratio else (x, before, False)


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
        _positive(width=width)
        if not is_whole(steps, 1):
            raise FitError(f"hyper_steps must be a whole number, 1 or more, actual {steps!s:.80}")
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not np.all((value > SMALLEST) & (value < LARGEST)):
                raise FitError(
                    f"{name} must be positive and finite, between {SMALLEST:g} and {LARGEST:g}, actual "
                    f"{np.unique(value)!s:.80}"
                )
        if learn == "shared" and len(np.unique(beta)) > 1:
            raise FitError("one beta for all labels cannot start from several values: give one, or hyper='separate'")
        self.alpha = alpha.astype(np.float64)
        self.beta = beta.astype(np.float64)
        if learn != "fixed":
            self.alpha[:] = self.alpha[0]

    def check_start(self) -> None:
        """Refuse a start of prior probability zero: no proposal could be compared with it."""
        if not math.isfinite(self.log_prior()):
            raise FitError(
                f"alpha = {self.alpha[0]:g} and beta = {np.unique(self.beta)!s:.80} have no density under "
                f"{self.prior!r:.80}: start where it has some, by alpha= and beta= or the model's prior"
            )

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
        kinds, K, how = len(self.alpha), len(self.beta), (self.prior, rng, self.width)
        kept_alpha, kept_beta = 0.0, 0.0

        def of_alpha(x: float) -> float:
            return counted.log_choices(np.full(kinds, x))

        def of_one_beta(x: float) -> float:
            return float(counted.log_emissions(np.full(K, x)).sum())

        for _ in range(self.steps):
            alpha, of_labels, accepted = metropolis_one(float(self.alpha[0]), of_alpha, *how)
            self.alpha = np.full(kinds, alpha)
            kept_alpha += accepted
            if self.learn == "shared":
                beta, of_data, accepted = metropolis_one(float(self.beta[0]), of_one_beta, *how)
                self.beta = np.full(K, beta)
                kept_beta += accepted
            else:
                self.beta, each, all_accepted = metropolis(self.beta, counted.log_emissions, *how)
                of_data = float(each.sum())
                kept_beta += float(all_accepted.mean())
        rates = {"alpha": kept_alpha / self.steps, "beta": kept_beta / self.steps}
        return rates, of_labels + of_data + self.log_prior()

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
        if not is_positive(value):
            raise FitError(f"{name} must be positive and finite, actual {value!s:.80}")
