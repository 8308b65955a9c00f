"""``featured``: a model's tables as functions of feature weights, which are one site of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from ..errors import UnsupError
from .given import GivenMessenger
from .handled import Handled

#: The name of the site.
SITE = "features"


class Features(Protocol):
    """Tables as differentiable functions of weights, such as :class:`pyro_unsup.Features`."""

    @property
    def tables(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def table(self, name: str, w: Tensor) -> Tensor: ...


class FeaturedMessenger(GivenMessenger):
    """Draws the weights when a model is entered, and answers its tables with what they stand for.

    >>> import pyro_unsup as pu
    >>> model = pu.models.Tagger(2, 3)
    >>> with pu.handlers.FeaturedMessenger(pu.Features(model.declarations()), kappa=0.5):
    ...     table = pu.tables.declare(model.declarations()["transition"])
    >>> table.shape
    torch.Size([2, 2])
    """

    def __init__(self, features: Features, kappa: float) -> None:
        super().__init__({})
        if not isinstance(kappa, int | float) or not 0 < kappa < math.inf:
            raise UnsupError(f"kappa must be positive and finite, for the weights have a prior here, actual {kappa}")
        self.features, self.kappa = features, float(kappa)

    def __enter__(self) -> FeaturedMessenger:
        spread = torch.tensor(1 / math.sqrt(2 * self.kappa), dtype=torch.get_default_dtype())
        prior = dist.Normal(torch.zeros_like(spread), spread).expand([len(self.features)]).to_event(1)
        w = pyro.sample(SITE, prior)
        self.weights = {name: self.features.table(name, w) for name in self.features.tables}
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self.weights = {}
        super().__exit__(*args)

    def __repr__(self) -> str:
        return f"featured({len(self.features)} features, kappa={self.kappa:g})"


def featured(model: Callable[..., Any], features: Features, kappa: float) -> Handled:
    """The model with log-linear tables: their weights are a ``pyro.sample`` site named ``"features"``.

        features ~ Normal(0, 1 / sqrt(2 kappa)),  each row of a table = softmax(feature matrix * features)

    That is an ordinary Pyro model: stock ``SVI`` (with mini-batches, if the model takes them), autoguides, ``NUTS`` and
    ``Predictive`` see it, in place of the Dirichlet sites of its tables. The mode of the posterior of the weights is
    what :class:`pyro_unsup.LogLinear` with the same kappa looks for.

    :param features: a :class:`pyro_unsup.Features` of the model's tables. Tables that it does not have keep their
        meaning.
    :param kappa: strength of the prior, positive.

    >>> from pyro import poutine
    >>> import pyro_unsup as pu
    >>> model = pu.models.Tagger(2, 3)
    >>> lifted = pu.featured(model, pu.Features(model.declarations()), kappa=0.5)
    >>> trace = poutine.trace(lifted).get_trace([[0, 1, 2], [2, 1]])
    >>> {name: tuple(site["value"].shape) for name, site in trace.nodes.items() if site["type"] == "sample"}
    {'features': (12,), 'sentences': (2,), 'words': (5,)}
    """
    return Handled(model, FeaturedMessenger(features, kappa))
