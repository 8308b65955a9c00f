"""The contract of an estimator: how expected counts become weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..errors import TableError
from ..tables import Declaration

if TYPE_CHECKING:
    from .features.feature_names import FeatureNames

#: By table.
Declarations = Mapping[str, Declaration]
#: By table; or the numbers of a memory, by name.
Tensors = Mapping[str, Tensor]


class TablePosterior(StrEnum):
    """What the weights of a table stand for, once an estimator has made them. A fit keeps this for each table.

    An estimator says it by an attribute ``posterior``; one that has none makes point estimates.

    >>> import pyro_unsup as pu
    >>> pu.DirichletVB().posterior, pu.estimate.posterior_of(pu.AddLambda(0.1))
    (<TablePosterior.DIRICHLET: 'dirichlet'>, <TablePosterior.POINT: 'point'>)
    """

    POINT = "point"  #: they are the probabilities themselves
    DIRICHLET = "dirichlet"  #: they are exp(E[log theta]) of Dirichlet rows
    LOGISTIC_NORMAL = "logistic normal"  #: the estimator remembers means and variances of logistic-normal rows


def posterior_of(estimator: Estimator | Parametric) -> TablePosterior:
    """What the weights stand for that an estimator makes.

    >>> import pyro_unsup as pu
    >>> pu.estimate.posterior_of(pu.LogisticNormal())
    <TablePosterior.LOGISTIC_NORMAL: 'logistic normal'>
    """
    return TablePosterior(getattr(estimator, "posterior", TablePosterior.POINT))


class Estimator(Protocol):
    """One table's M step. A new estimator is a file with a class of these two methods.

    An attribute ``posterior`` tells what the weights stand for, if that is not a point (:class:`.TablePosterior`). Fits
    remember estimators that are registered and describe themselves (:mod:`pyro_unsup.registry`).

    >>> import torch
    >>> import pyro_unsup as pu
    >>> class Cautious:
    ...     def weights(self, declaration, counts, old):
    ...         new = pu.Normalise().weights(declaration, counts, old)
    ...         return torch.logaddexp(new, old) - torch.tensor(2.0).log()  # half way
    ...     def log_prior(self, declaration, log_weights):
    ...         return 0.0
    >>> pu.EM(pu.models.Tagger(tags=2, vocab=2), Cautious()).run([[0, 1], [1, 1]], iterations=3).report.iterations
    3
    """

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        """New log-weights from expected counts.

        :param declaration: of the table.
        :param counts: (*rows, outcomes) as the table lies.
        :param old: (*rows, outcomes) the log-weights that the counts came from.
        :return: (*rows, outcomes).
        """

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> Tensor | float:
        """What this estimator adds to the log-likelihood, so that the sum is what it maximises."""


@runtime_checkable
class Additive(Protocol):
    """An estimator whose weights are ``link(count + pseudo-count) - link(the same of the row)``.

    Engines that update a few counts at a time then read single weights, where other estimators look at whole tables.

    >>> import pyro_unsup as pu
    >>> isinstance(pu.AddLambda(0.1), pu.estimate.Additive), isinstance(pu.LogLinear(), pu.estimate.Additive)
    (True, False)
    """

    @property
    def link(self) -> Callable[[Tensor], Tensor]:
        """The logarithm, for relative frequencies."""

    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        """What is added to the counts, broadcastable to the table's shape; structural zeros get none."""


class Parametric(ABC):
    """An estimator of some tables together, which are functions of parameters that it keeps: a memory, by name.

    Engines hold the memory, save it, and go on from it. A new one is a subclass that has the first four methods; the
    others have defaults.

    >>> import pyro_unsup as pu
    >>> isinstance(pu.LogisticNormal(), pu.estimate.Parametric), isinstance(pu.AddLambda(0.1), pu.estimate.Parametric)
    (True, False)
    """

    #: Whether the initial tables of an engine make a difference.
    fit_start: bool = True

    @abstractmethod
    def begin(self, declarations: Declarations, weights: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
        """The memory to start with; ``weights`` are the initial log-weights by table."""

    @abstractmethod
    def tables(self, declarations: Declarations, memory: Tensors) -> dict[str, Tensor]:
        """The log-weights that a memory stands for, by table."""

    @abstractmethod
    def update(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """The M step: a new memory from expected counts, under which they are no less probable than under the old."""

    @abstractmethod
    def log_prior(self, memory: Tensors) -> float:
        """What this estimator adds to the log-likelihood, so that the sum is what it maximises."""

    def refine(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """A cheaper form of :meth:`update`, called after each mini-batch. By default the same."""
        return self.update(declarations, counts, memory)

    def perturbed(
        self,
        declarations: Declarations,
        memory: Tensors,
        jitter: float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """The memory with noise on it, for annealing. By default without any."""
        return dict(memory)

    def is_random(self, declarations: Declarations) -> bool:
        """Whether M steps draw random numbers. Then one that changes nothing is no sign of convergence."""
        return False

    def names(self, declarations: Declarations) -> dict[str, FeatureNames]:
        """What the numbers in the memory are called, where they have names. By default they have none."""
        return {}


class Differentiable(Parametric):
    """One whose memory can be climbed directly, by the gradient of the log marginal.

    >>> import pyro_unsup as pu
    >>> [isinstance(one, pu.estimate.Differentiable) for one in (pu.LogLinear(), pu.LogisticNormal())]
    [True, False]
    """

    @abstractmethod
    def gradient(
        self,
        declarations: Declarations,
        counts: Tensors,
        weights: Tensors,
        memory: Tensors,
    ) -> dict[str, Tensor]:
        """Of log marginal plus log prior, in the memory.

        :param declarations: of the tables, by name.
        :param counts: expected under the tables, by table.
        :param weights: the log-weights of the tables.
        :param memory: where the gradient is wanted.
        """

    def check(self, declarations: Declarations, memory: Tensors) -> None:
        """Raise a :class:`.TableError` if the memory has run away. By default it cannot."""


def normalise_rows(declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
    """Divide each row by its sum, in logs. Rows without counts are an error, or stay as they were.

    :raises TableError: naming the table and its first empty row.
    """
    layout = declaration.layout
    weights, totals = layout.as_shares(counts)
    if totals.is_cpu and not totals.requires_grad and (totals.numpy() > 0).all():  # numpy is quicker on small tables
        return weights
    empty = ~(totals > 0)
    if not bool(empty.any()):
        return weights
    if declaration.unvisited == "error":
        row = tuple(empty.nonzero()[0].tolist())
        raise TableError(
            f"table '{declaration.name}': row {row} has no expected counts ({int(empty.sum())} of {empty.numel()} rows "
            "are empty). Smooth it (AddLambda), drop what can never occur, or declare the table with unvisited='keep'"
        )
    return weights.where(~layout.spread(empty).expand(layout.shape), old)
