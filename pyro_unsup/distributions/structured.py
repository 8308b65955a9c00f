"""The contract of a structured distribution: hidden structure summed out, and everything about its posterior.

A structure y explains data x with weight ``p(x, y) = prod_parts weight(part)``, the weights coming in as logs and
never normalised inside. One idea carries the rest:

    counts = d log Z / d log-weights,      Z(x) = sum_y p(x, y)

A new structure is a file here with a :class:`Structure` and a :class:`Posterior`, a row in the contract suite, and an
enumerator of its structures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from ..errors import StructureError
from ..kernels.running import RunningCounts

if TYPE_CHECKING:
    from .parts import Parts

Array = np.ndarray[Any, Any]


class Posterior:
    """What is known about the hidden structure, given the data. Shapes follow the structure; batches are ragged.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> emission = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    >>> chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), emission, torch.tensor([3]), flat=True)
    >>> posterior = chain.posterior(torch.tensor([0, 1, 1]))
    >>> posterior.mode(), posterior.mbr(), posterior.marginals.shape
    (tensor([0, 1, 1]), tensor([0, 1, 1]), torch.Size([3, 2]))
    >>> posterior.counts["emission"].sum().round(), posterior.entropy
    (tensor(3.), tensor([1.1718]))
    """

    log_partition: Tensor  # (*batch,) log Z
    counts: dict[str, Tensor]  # expected number of times each weight is used, in all; shaped as the weights
    marginals: Tensor  # posterior probability of each part

    @abstractmethod
    def mode(self) -> Tensor:
        """The structure of highest posterior probability (Viterbi)."""

    @abstractmethod
    def mbr(self) -> Tensor:  # shaped as the mode
        """The structure with the highest expected number of right parts (minimum Bayes risk)."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the structure."""

    @property
    @abstractmethod
    def entropy(self) -> Tensor:  # (*batch,)
        """Entropy of the posterior over structures, in nats."""


class Stretch(Protocol):
    """Mini-batches of stepwise EM in compiled code."""

    def __call__(
        self,
        tables: Mapping[str, RunningCounts],
        beta: float,
        order: Array,  # (n,) examples
        batch_size: int,
        steps: Array,  # (mini-batches,) step sizes
        scale: float,
        floor: float,
    ) -> tuple[Array, float]:
        """Go through examples in mini-batches, changing the tables in place after each.

        It ends early, before a mini-batch that it cannot do exactly or that would take the scale below its floor.

        :return: log-likelihood of the mini-batches that were done, and the scale after them.
        """


class Structure(TorchDistribution):
    """A distribution over observed data whose hidden structure is summed out.

    Every one has its own ``expand`` that keeps its type: inside a plate Pyro expands a distribution before handlers
    see it, and a generic wrapper would hide what it is.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> chain = pu.Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([3]), flat=True)
    >>> isinstance(chain, pu.distributions.Structure), sorted(chain.weights)
    (True, ['emission', 'start', 'transition'])
    >>> chain.log_prob(torch.tensor([0, 1, 2])).exp().round()  # all weights one: the number of structures
    tensor([8.])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 (log-weights are any real number or -inf)
    has_enumerate_support = False

    #: Whether the gradient of ``log_prob`` is the expected counts of a posterior. A heuristic E step says False; its
    #: objective may fall.
    exact: bool = True

    @property
    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """The log-weights by name."""

    @abstractmethod
    def with_weights(self, weights: dict[str, Tensor]) -> Structure:
        """The same distribution with other log-weights."""

    def raised(self, power: float) -> Structure:
        """The same distribution with every weight to a power."""
        return self.with_weights({name: w * power for name, w in self.weights.items()})

    def references(self) -> dict[str, dict[str, Tensor]]:
        """Distributions over structures that need no data, by name: log-weights of a normalised q(y), zero if not said.

        A posterior can be skewed toward them (:func:`pyro_unsup.skew`).
        """
        return {}

    def stepwise(self, value: Tensor, touched: Mapping[str, Tensor | None], batch_size: int) -> Stretch | None:
        """Stepwise EM in compiled code, for those that have it: mini-batches too small for a Python call each.

        :param value: the data, of the event shape.
        :param touched: by weight, which columns of a whole table it consists of; None for all of them.
        :param batch_size: examples in a mini-batch.
        """
        return None

    @abstractmethod
    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        """log p(x, y) of the data together with one structure, (*batch,). Its gradient is the structure's counts."""

    @abstractmethod
    def posterior(self, value: Tensor) -> Posterior:  # event_shape
        """Everything about the hidden structure of ``value``."""

    def parts(self, value: Tensor) -> Parts:  # event_shape
        """What each cell of the posterior's marginals stands for (:mod:`.parts`)."""
        raise StructureError(f"{type(self).__name__} does not say what its structures are made of")

    def weighed(self, value: Tensor, factors: Tensor) -> Structure:
        """The same distribution with one more log-weight for every part of the structures of ``value``.

        :param value: the data, of the event shape.
        :param factors: anything that broadcasts to the shape of the parts: truth values (a mask), or log-weights.
        """
        from .weighed import Weighed, as_factors

        return Weighed(self, as_factors(factors, self, self.parts(value)))

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Structure, Tensor]:
        """An equal distribution in which every part of ``value`` has a type of its own, whose weight takes in the
        factor of that part; and ``value`` by those types. Structures lie as before.

        :param value: the data, of the event shape.
        :param factors: log-weights, of the shape of the parts.
        """
        raise StructureError(f"{type(self).__name__} cannot weigh the parts of its structures one by one")


def one_set(batch: torch.Size) -> None:
    """Raise if weights come in a batch: a posterior is of one set of them."""
    if batch.numel() != 1:
        raise StructureError(f"posterior() wants one set of weights, actual batch {tuple(batch)}")
