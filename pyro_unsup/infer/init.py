"""Where training starts: uniform, noisy, from labelled data, or from another fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from pyro import poutine
from torch import Tensor

from ..distributions import Structure
from ..errors import FitError
from ..estimate import AddLambda, Estimator
from ..handlers import Counting
from ..results import Fit
from ..tables import Declaration

__all__ = ["HasParameters", "Initial", "around", "from_labelled", "from_weights", "noise", "uniform"]


class Initial(Protocol):
    """Makes log-weights for the tables that a model declares.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> def sticky(declarations, generator):
    ...     start = pu.init.noise(0.1)(declarations, generator)
    ...     layout = declarations["transition"].layout
    ...     start["transition"] = layout.normalise(start["transition"] + 3 * torch.eye(*layout.shape))
    ...     return start
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2), init=sticky).run([[0, 0, 1]], iterations=0)
    >>> fit.weights["transition"].exp().diagonal() > 0.9
    tensor([True, True])
    """

    def __call__(self, declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]: ...


@runtime_checkable
class HasParameters(Protocol):
    """A start that also knows where parameters begin that are not tables.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=0)
    >>> isinstance(pu.init.from_weights(fit), pu.init.HasParameters)
    True
    """

    @property
    def parameters(self) -> Mapping[str, Tensor] | None:
        """Unconstrained values by name; None leaves all of them to the model."""


def uniform() -> Initial:
    """Every allowed outcome equally likely. A saddle point of most models: EM needs something to break the tie.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=4), init=pu.init.uniform()).run([[0, 1, 3]], iterations=0)
    >>> fit.weights["emission"].exp()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]], dtype=torch.float64)
    """
    return lambda declarations, generator: {name: d.layout.uniform() for name, d in declarations.items()}


def noise(scale: float = 1.0) -> Initial:
    """Nearly uniform: each row in proportion to exp(scale * (1 + a)), a ~ Uniform(0, 1) (Liang & Klein 2009, 3.1).

    The paper takes a scale of 1e-3 for stepwise EM and 1 for batch EM on tagging: from a start this symmetric, small
    noise takes many iterations to grow.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=4), init=pu.init.noise(0.01)).run([[0, 1, 3]], iterations=0)
    >>> (fit.weights["emission"].exp() - 0.25).abs().max() < 0.01
    tensor(True)
    """

    def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
        found = {}
        for name, d in declarations.items():
            a = torch.rand(d.layout.shape, dtype=torch.float64, generator=generator)
            found[name] = d.layout.normalise(a.add_(1).mul_(scale))  # in place: tables may be large
        return found

    return start


def around(start: Initial, scale: float) -> Initial:
    """A start with noise on it, so that several runs may begin near one place.

    :param start: where the runs begin.
    :param scale: the most that is added to a log-weight: noise is uniform between 0 and that, and rows are normalised
        again. (Its standard deviation is 0.29 times the scale.)

    >>> import torch, pyro_unsup as pu
    >>> start = pu.init.around(pu.init.uniform(), 0.3)
    >>> fits = [pu.EM(pu.models.Tagger(2, 2), init=start).run([[0, 1]], iterations=0, seed=s) for s in (0, 0, 1)]
    >>> [torch.equal(fits[0].weights["emission"], fit.weights["emission"]) for fit in fits]
    [True, True, False]
    """

    if not callable(start):
        raise FitError(f"around() puts noise on a start, such as pu.init.uniform(), actual {start!r:.80}")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 <= scale < math.inf:
        raise FitError(f"around(): the scale of noise should be a number, 0 or more, actual {scale!r:.40}")

    def shaken(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
        return from_weights(start(declarations, generator), scale)(declarations, generator)

    return shaken


def perturbed(declaration: Declaration, w: Tensor, jitter: float, generator: torch.Generator) -> Tensor:
    """Log-weights with noise on top. Rows keep their sums: less than one, if they are those of variational Bayes."""
    w, layout = w.double(), declaration.layout
    noisy = layout.normalise(w + jitter * torch.rand(w.shape, dtype=w.dtype, generator=generator))
    return noisy + layout.spread(layout.row_logsumexp(w))


@dataclass(frozen=True)
class _FromWeights:
    """The start that :func:`from_weights` makes."""

    weights: Mapping[str, Tensor]
    parameters: Mapping[str, Tensor] | None
    jitter: float

    def __call__(self, declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
        missing = [name for name in declarations if name not in self.weights]
        if missing:
            raise FitError(f"the other fit has no table {missing}: it has {sorted(self.weights)}")
        result = {}
        for name, d in declarations.items():
            w = d.layout.check(name, self.weights[name].detach().to(torch.float64))
            if self.jitter:
                w = perturbed(d, w, self.jitter, generator)
            result[name] = w.clone()
        return result


def from_weights(weights: Mapping[str, Tensor] | Any, jitter: float = 0.0) -> Initial:
    """The weights of another fit (or a mapping of log-weights by table), perhaps with :func:`noise` on top.

    Of a fit, parameters and latent variables that are not tables start where it ended, too. What it does not have, or
    has in another shape, is an error that names it.

    >>> import pyro_unsup as pu
    >>> model, sentences = pu.models.Tagger(tags=2, vocab=2), [[0, 1], [1, 1, 0]]
    >>> first = pu.EM(model).run(sentences, iterations=5)
    >>> second = pu.EM(model, init=pu.init.from_weights(first)).run(sentences, iterations=5)
    >>> second.rows[0]["objective"] == first.objective < second.objective
    True
    """
    if isinstance(weights, Fit):
        return _FromWeights(weights.weights, weights.unconstrained, jitter)
    return _FromWeights(weights, None, jitter)


def from_labelled(
    model: Callable[..., Any], *args: Any, structure: Tensor, estimate: Estimator | None = None, **kwargs: Any
) -> Initial:
    """Relative frequencies of labelled data, smoothed: the supervised estimate as a start.

    :param model: whose start it is to be.
    :param args: what the model is called with, the labelled data.
    :param structure: the gold structure of those data, as the structured distribution's ``mode`` would give it (for a
        tagger: flat tags, shape (tokens,)).
    :param estimate: how counts become weights, by default :class:`.AddLambda` of 0.1.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> model, sentences = pu.models.Tagger(tags=2, vocab=3), [[0, 1], [0, 2]]
    >>> start = pu.init.from_labelled(model, sentences, structure=torch.tensor([0, 1, 0, 1]))
    >>> fit = pu.EM(model, init=start).run(sentences, iterations=0)
    >>> fit.weights["emission"].exp().round(decimals=2)
    tensor([[0.9100, 0.0400, 0.0400],
            [0.0400, 0.4800, 0.4800]], dtype=torch.float64)
    """
    how = AddLambda(0.1) if estimate is None else estimate

    def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
        old = {name: d.layout.uniform() for name, d in declarations.items()}
        with Counting(old) as counting:
            trace = poutine.trace(model).get_trace(*args, **kwargs)
            sites = [s for s in trace.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structure)]
            if len(sites) != 1:
                raise FitError(f"from_labelled wants a model with one structured site, found {len(sites)}")
            total = sites[0]["fn"].score(sites[0]["value"], structure).sum()
        if float(total.detach()) == -torch.inf:
            raise FitError("the labelled structure uses a part that the model's supports forbid")
        return {
            name: how.weights(declarations[name], counting.found[name].whole(part), old[name])
            for name, part in counting.counts(total).items()
        }

    return start
