"""One chain of a sampler: what it needs for the next sweep, and how far it has come."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from ..array import Array
from ..errors import FitError, an
from .gibbs_checks import is_positive
from .hyperparameters import Hyperparameters
from .schedules import Temperature, at_sweep

#: How labels are drawn.
How = Literal["pointwise", "blocked", "uncollapsed"]
#: So many cold sweeps in which nothing at all is accepted are worth a warning.
IDLE = 10


class HiddenLabels(Protocol):
    """Hidden labels of some data, with all counts that moving them needs. A model's ``gibbs_state()`` makes them.

    What else the next sweep depends on, such as tables that cannot be integrated out, is in a property ``extra``:
    arrays by name, which can be set again. Those of them that are tables of the model are in a property ``drawn``, as
    probabilities, and are kept with every draw. One that has an attribute ``fertile`` takes the concentration of
    fertilities.
    """

    #: How the labels can be drawn.
    ways: tuple[str, ...]
    K: int
    tables: tuple[tuple[str, ...], str]
    concentrations: tuple[Array, Array]
    labels: Array

    @property
    def data(self) -> dict[str, Array]: ...

    def __len__(self) -> int: ...

    def draw_start(self, rng: np.random.Generator) -> None: ...

    def log_choices(self, alpha: Array) -> float: ...

    def log_emissions(self, beta: Array) -> Array: ...

    def sweep(self, how: Any, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float: ...


@runtime_checkable
class MoreThanLabels(Protocol):
    """Hidden labels that do not say all that the next sweep depends on: the rest is in ``extra``, arrays by name."""

    extra: dict[str, Array]


@runtime_checkable
class Collapsible(Protocol):
    """A model whose tables can be integrated out."""

    def gibbs_state(self) -> Callable[[Any, Any], HiddenLabels]:
        """What makes the labels, from the model and its data. Its ``ways`` tell how they can be drawn."""


def state_of(model: Any, how: str | None, fertility: float | None = None) -> tuple[Callable[..., HiddenLabels], str]:
    """What makes the labels of data under a model, if it can draw them in this way; and the way."""
    if not isinstance(model, Collapsible):
        raise FitError(
            "collapsed Gibbs sampling needs a model that can integrate its tables out (one with gibbs_state(), without "
            f"handlers around it), actual {model!r:.80}: sample other models with pu.BlockedGibbs"
        )
    found: Any = model.gibbs_state()
    how = found.ways[0] if how is None else how
    if how not in found.ways:
        ways = " or ".join(map(repr, found.ways))
        raise FitError(
            f"the labels of {a_model(model)} are drawn how = {ways}, actual {how!r:.80}: no other way is "
            "worked out for it"
        )
    if fertility is None:
        return partial(found, model), how
    if not getattr(found, "fertile", False):
        raise FitError(f"fertility is how many links a word has, of which {a_model(model)} knows nothing")
    if not is_positive(fertility):
        raise FitError(f"fertility must be a number, positive and finite, actual {fertility!r:.80}")
    return partial(found, model, fertility=float(fertility)), how


def a_model(model: Any) -> str:
    """What the model is, with its article.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.infer.gibbs_chain import a_model
    >>> a_model(pu.models.DMV(2)), a_model(pu.models.Adaptor(3))
    ('a DMV', 'an Adaptor')
    """
    return an(type(model).__name__)


def own_numbers(model: Any) -> Callable[[Array, Array, Any], Any] | None:
    """What makes the numbers that are sampled beside the labels, from alpha, beta and how they are learned.

    It has the methods of :class:`.Hyperparameters`. None of a model with Dirichlet tables.
    """
    return getattr(model.gibbs_state(), "hyperparameters", None)


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to.

    :param chain: which one, from 0.
    :param sweep: how many there have been.
    :param temperature: at which it was made.
    :param log_joint: of labels and data, tables integrated out, and of the concentrations that are learned.
    :param rates: the share of accepted proposals, of ``labels`` (1 where they are drawn exactly), ``alpha``, ``beta``.

    >>> import pyro_unsup as pu
    >>> seen = []
    >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=2))
    >>> samples = sampler.run([[0, 1, 1]], sweeps=3, callbacks=[seen.append], progress=False)
    >>> [(one.chain, one.sweep) for one in seen], seen[0].rates["labels"]
    ([(0, 1), (0, 2), (0, 3)], 1.0)
    """

    chain: int
    sweep: int
    temperature: float
    log_joint: float
    rates: dict[str, float] = field(default_factory=dict)


class GibbsChain:
    """A chain, which :meth:`step` moves by one sweep. The same seed gives the same chain.

    :param sweeps: how many there will be, for the temperature; after that it stays as it is.
    :param labels: where to start; by default drawn evenly from what is allowed.
    """

    def __init__(
        self,
        state: HiddenLabels,
        hyper: Hyperparameters,
        how: str,
        temperature: Temperature,
        sweeps: int,
        seed: int,
        labels: Array | None = None,
        chain: int = 0,
    ) -> None:
        self.state, self.hyper, self.how, self.temperature, self.sweeps = state, hyper, how, temperature, sweeps
        self.rng = np.random.default_rng(seed)
        self.chain, self.seed, self.sweep = chain, seed, 0
        if labels is None:
            state.draw_start(self.rng)
        else:
            state.labels = labels
        self.log_joint = hyper.log_joint(state)
        self.best, self.best_log_joint = state.labels, -math.inf
        self._idle = 0

    def step(self) -> Sweep:
        """Move every label once, then the concentrations."""
        temperature = at_sweep(self.temperature, min(self.sweep, max(self.sweeps - 1, 0)), self.sweeps)
        rate = self.state.sweep(self.how, self.hyper.alpha, self.hyper.beta, 1 / temperature, self.rng)
        rates, self.log_joint = self.hyper.step(self.state, self.rng)
        self.sweep += 1
        # At temperature 1 and above, chance does that in small data.
        self._idle = 0 if rate > 0 or temperature >= 1 else self._idle + 1
        if self._idle == IDLE:
            other = ", or use how='pointwise'" if "pointwise" in self.state.ways else ""
            warnings.warn(
                f"chain {self.chain}, temperature {temperature:g}: no proposal of the last {IDLE} sweeps was accepted, "
                f"as happens at low temperatures. Take a higher one, or stop cooling earlier{other}",
                stacklevel=2,
            )
        if math.isnan(self.log_joint):
            raise FitError(f"sweep {self.sweep}: the log joint is NaN")
        if self.log_joint > self.best_log_joint:
            self.best, self.best_log_joint = self.state.labels, self.log_joint
        return Sweep(self.chain, self.sweep, temperature, self.log_joint, {"labels": rate, **rates})

    def kept(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All that the next sweep depends on, as plain values and arrays."""
        plain = {"sweep": self.sweep, "rng": self.rng.bit_generator.state, "best_log_joint": self.best_log_joint}
        arrays = {"labels": self.state.labels, "best": self.best, "alpha": self.hyper.alpha, "beta": self.hyper.beta}
        extra = self.state.extra if isinstance(self.state, MoreThanLabels) else {}
        return plain, arrays | {f"extra.{name}": x for name, x in extra.items()}

    def restore(self, plain: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go back to what :meth:`kept` told."""
        if type(plain["sweep"]) is not int or plain["sweep"] < 0:
            raise ValueError(f"the number of sweeps is {plain['sweep']!r:.40}")
        if isinstance(self.state, MoreThanLabels):
            self.state.extra = {k.removeprefix("extra."): x for k, x in arrays.items() if k.startswith("extra.")}
        self.state.labels = arrays["labels"]
        self.hyper.alpha, self.hyper.beta = arrays["alpha"].copy(), arrays["beta"].copy()
        self.rng.bit_generator.state = plain["rng"]
        self.sweep, self.best, self.best_log_joint = plain["sweep"], arrays["best"], float(plain["best_log_joint"])
        self.log_joint = self.hyper.log_joint(self.state)
