"""``harden``: the best hidden structure instead of the sum over all, as Viterbi EM has it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from pyro import poutine
from pyro.infer import config_enumerate, infer_discrete
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..distributions import Structure
from ..distributions.wrapped import Wrapped
from .declared import DeclaredMessenger
from .given import given
from .handled import Handled, Handler
from .temper import weighs_structure


class Hard(Wrapped):
    """A structured distribution whose sum over structures is replaced by its largest term, or by a drawn one.

    Its gradient is the counts of that one structure. Posteriors are those of the distribution that it hardens.

    :param draw: a structure from the posterior, rather than the best one.
    """

    def __init__(self, base: Structure, draw: bool = False) -> None:
        super().__init__(base)
        self.draw = draw

    def around(self, base: Structure) -> Hard:
        return Hard(base, self.draw)

    def log_prob(self, value: Tensor) -> Tensor:
        with torch.no_grad():
            found = self.base.posterior(value)
            best, possible = found.sample() if self.draw else found.mode(), found.log_partition > -torch.inf
        if not bool(possible.all()):  # some example has no structure at all, so no best one to score
            summed: Tensor = self.base.log_prob(value)
            return summed
        total: Tensor = self.base.score(value, best)
        return total.expand(self.batch_shape)


class HardenMessenger(Handler):
    """Hardens the structured distributions of a model.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1, 1]], iterations=0)
    >>> with pu.handlers.HardenMessenger():
    ...     best = fit.log_likelihood([[0, 1, 1]])
    >>> best < fit.log_likelihood([[0, 1, 1]])
    True

    :param draw: draw structures from the posterior, rather than take the best ones.
    """

    def __init__(self, draw: bool = False) -> None:
        super().__init__()
        self.draw = draw

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return ({"draw": True} if self.draw else {}), {}

    def _pyro_sample(self, msg: Any) -> None:
        if isinstance(msg["fn"], Structure):
            msg["fn"] = Hard(msg["fn"], self.draw)

    def around(self, model: Callable[..., Any]) -> Hardened:
        """The model under this handler. Enumerated variables are decoded, which takes more than a handler."""
        return Hardened(model, self.draw)

    def __repr__(self) -> str:
        return "harden(draw=True)" if self.draw else "harden()"


class Hardened(Handled):
    """A model whose hidden structure is the best one: structures by their mode, enumerated variables by decoding."""

    def __init__(self, model: Callable[..., Any], draw: bool = False) -> None:
        super().__init__(model, HardenMessenger(draw))
        self._enumerated: bool | None = None

    @property
    def enumerated(self) -> bool:
        """Whether the model has discrete latent variables of its own, as far as it has been called."""
        return bool(self._enumerated)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._enumerated is None:  # what kind of model it is does not depend on what it is asked
            self._enumerated = _has_choices(self.model, args, kwargs)
        if not self._enumerated:
            return super().__call__(*args, **kwargs)
        with _Parameters() as parameters:  # seen by everyone outside, once
            self.model(*args, **kwargs)
        known = poutine.condition(given(self.model, parameters.tables), parameters.values)
        best = _decode(known, args, kwargs, parameters.nesting, self.handler.draw)
        with self.handler, poutine.block(hide=list(parameters.values)):
            return poutine.condition(known, best)(*args, **kwargs)


def harden(model: Callable[..., Any], draw: bool = False) -> Hardened:
    """The model with max instead of sum over its hidden structure: log max_y p(x, y), what tempering tends to.

    EM on it is Viterbi EM: each example counts by its best structure alone. The objective is the log-probability of
    the data together with those structures, and never falls.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.harden(pu.models.Tagger(2, 3)), pu.AddLambda(0.1)).run([[0, 1, 2], [2, 1]])
    >>> fit.report.converged
    True

    :param draw: draw each structure from its posterior, rather than take the best one. EM on that is stochastic EM, and
        :class:`.BlockedGibbs` draws the parameters as well.
    """
    return Hardened(model, draw)


class _Parameters(Messenger):
    """Lets through and keeps what is no hidden structure: tables, continuous variables, subsamples. Hides the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, Tensor] = {}
        self.values: dict[str, Tensor] = {}
        self.nesting = 0
        self._seen: set[str] = set()

    def _pyro_sample(self, msg: Any) -> None:
        self.nesting = max(self.nesting, *(-f.dim for f in msg["cond_indep_stack"] if f.vectorized), 0)
        if weighs_structure(msg):
            msg["stop"] = True
        else:  # known only now: a handler outside may answer it, and call it observed
            self._seen.add(msg["name"])

    def _pyro_param(self, msg: Any) -> None:
        msg["stop"] = True

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] in self._seen:
            self.values[msg["name"]] = msg["value"]

    def _pyro_post_table(self, msg: Any) -> None:
        self.tables[msg["name"]] = msg["value"]


def _has_choices(model: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a model has discrete latent variables of its own, besides structured distributions."""
    with torch.random.fork_rng(devices=[]), poutine.block(), DeclaredMessenger():
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    sites = (site for site in trace.nodes.values() if site["type"] == "sample" and not site["is_observed"])
    return any(weighs_structure(site) for site in sites)


@torch.no_grad()
def _decode(model: Callable[..., Any], args: Any, kwargs: Any, nesting: int, draw: bool) -> dict[str, Tensor]:
    """The best values of the discrete latent variables, or drawn ones."""
    decoder = infer_discrete(config_enumerate(model), first_available_dim=-1 - nesting, temperature=int(draw))
    with nullcontext() if draw else torch.random.fork_rng(devices=[]), poutine.block():
        trace = poutine.trace(decoder).get_trace(*args, **kwargs)
    return {
        name: site["value"]
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site["is_observed"] and weighs_structure(site)
    }
