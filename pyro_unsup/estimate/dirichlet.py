"""Pseudo-counts: add-lambda smoothing, and its Bayesian reading as Dirichlet MAP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import TableError
from ..registry import PlainSettings
from ..tables import Declaration
from .base import Declarations, Tensors, normalise_rows
from .variational import draw_dirichlet


class _Smoothed(PlainSettings):
    """Relative frequencies of counts with pseudo-counts."""

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        extra = self.pseudo_counts(declaration).to(counts.dtype)
        if declaration.layout.support is not None:
            extra = extra * declaration.layout.support
        return normalise_rows(declaration, counts + extra, old)

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> Tensor:
        extra, support = self.pseudo_counts(declaration).to(log_weights.dtype), declaration.layout.support
        each = (extra * log_weights).contiguous()  # the last bit of a sum depends on how terms lie, as in saved tables
        if support is None and extra.dim() == 0 and float(extra) > 0:
            return each.sum()  # large tables mostly come here, in every iteration
        # 0 * log 0 is 0: a cell without pseudo-counts does not mind being impossible.
        used = extra > 0 if support is None else (extra > 0) & support
        return torch.where(used, each, 0.0).sum()

    @property
    def link(self) -> Callable[[Tensor], Tensor]:
        return torch.log

    def draw_prior(
        self, declarations: Declarations, memory: Tensors, generator: torch.Generator, draws: int = 1
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """log theta of every table, drawn from the Dirichlet prior whose mode training finds: 1 + the pseudo-counts.

        :param declarations: of the tables, by name.
        :param memory: not used here: this prior is not learned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        alpha = {name: 1 + self.pseudo_counts(declaration) for name, declaration in declarations.items()}
        return {name: draw_dirichlet(d.layout, alpha[name], generator, draws) for name, d in declarations.items()}

    @abstractmethod
    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        """What is added to the counts, broadcastable to the table's shape."""


@dataclass(frozen=True)
class AddLambda(_Smoothed):
    """Add a number to every allowed cell, then normalise. Structural zeros get nothing.

    The same as Dirichlet MAP with concentration ``1 + amount``, so the monotone objective is
    log-likelihood + amount * (sum of the log-weights).

    >>> import torch
    >>> import pyro_unsup as pu
    >>> table = pu.tables.Declaration("t", pu.tables.Layout.dense(2, 2), torch.tensor(1.0))
    >>> counts = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    >>> pu.AddLambda(1.0).weights(table, counts, old=table.layout.uniform()).exp()
    tensor([[0.3333, 0.6667],
            [0.5000, 0.5000]])
    """

    amount: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.amount < float("inf"):
            raise TableError(f"AddLambda: the amount must be finite and not negative, actual = {self.amount}")

    def scaled(self, fraction: float) -> AddLambda:
        """The same strength on a part of the data: counts are a fraction of those of the whole, and so is the amount.

        >>> import pyro_unsup as pu
        >>> pu.AddLambda(0.1).scaled(0.25)
        AddLambda(amount=0.025)
        """
        return AddLambda(self.amount * fraction)

    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        return torch.as_tensor(self.amount, dtype=torch.float64)


@dataclass(frozen=True)
class DirichletMAP(_Smoothed):
    """The mode of the posterior under a Dirichlet prior: counts + concentration - 1, normalised.

    :param concentration: at least 1 (below 1 the density has no mode inside the simplex); None takes the prior that
        the model declared for the table.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> table = pu.tables.Declaration("t", pu.tables.Layout.dense(2, 2), torch.tensor(2.0))
    >>> counts = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    >>> pu.DirichletMAP().weights(table, counts, old=table.layout.uniform()).exp()
    tensor([[0.3333, 0.6667],
            [0.5000, 0.5000]])
    """

    concentration: float | None = None

    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        own = self.concentration
        alpha = declaration.prior if own is None else torch.as_tensor(own, dtype=torch.float64)
        if not bool((alpha >= 1).all()):
            raise TableError(
                f"table '{declaration.name}': a Dirichlet prior with concentration below 1 has no mode "
                f"(smallest here: {float(alpha.min())}); use a concentration of at least 1"
            )
        return alpha.double() - 1
