"""Variational Bayes for Dirichlet priors: weights that carry the uncertainty about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..distributions.segments import row_index, segment_log_softmax, segment_sum
from ..errors import TableError
from ..registry import PlainSettings
from ..tables import Declaration, Layout
from .base import Declarations, TablePosterior, Tensors
from .settings import is_number
from .table_rows import TableRows

#: Rows that sum to one up to this have no variance: they are a point, not a Dirichlet.
POINT = 1e-13
#: Relative error that sums of double precision may have.
ROUNDING = 1e-15


@dataclass(frozen=True)
class DirichletVB(PlainSettings):
    """Mean-field variational Bayes: each row has a posterior Dirichlet(counts + concentration), and its weights are

        exp(E[log theta]) = exp(digamma(counts + concentration) - digamma(their sum)),

    below their mean, the more so the fewer the counts. Rows sum to less than one.

    Under :class:`.EM` the objective is the evidence lower bound, which never falls: log Z of these weights minus the
    Kullback-Leibler divergence of the rows from their prior. Under :class:`.StepwiseEM` this is stochastic variational
    inference [1]. Initial weights that sum to one are point masses, which no Dirichlet is near: their bound is -inf.

    :param concentration: of the prior, positive; None takes the one that the model declared for the table.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> layout = pu.tables.Layout.dense(3)
        >>> table = pu.tables.Declaration("coin", layout, torch.tensor(0.5, dtype=torch.float64))
        >>> w = pu.DirichletVB().weights(table, torch.tensor([5.0, 2.0, 0.0], dtype=torch.float64), layout.uniform())
        >>> w.exp()
        tensor([0.6256, 0.2524, 0.0175], dtype=torch.float64)

    **References:**

    [1] M. Hoffman, D. Blei, C. Wang and J. Paisley (2013) "Stochastic variational inference".
    [2] D. MacKay (1997) "Ensemble learning for hidden Markov models".
    """

    posterior: ClassVar = TablePosterior.DIRICHLET

    concentration: float | None = None

    def __post_init__(self) -> None:
        given = self.concentration
        if given is not None and not (is_number(given) and 0 < given < float("inf")):
            raise TableError(
                f"DirichletVB: the concentration must be a number, positive and finite, actual {given!r:.80}"
            )

    @property
    def link(self) -> Callable[[Tensor], Tensor]:
        return torch.digamma

    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        own = self.concentration
        return declaration.prior.double() if own is None else torch.as_tensor(own, dtype=torch.float64)

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        layout = declaration.layout
        posterior = counts + self._prior(declaration).to(counts.dtype)
        return layout.mask(torch.digamma(posterior) - layout.spread(torch.digamma(layout.row_sum(posterior))))

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> Tensor:
        layout, prior = declaration.layout, self._prior(declaration)
        # Sums depend on the order in memory, in the last bits; weights that come from a folder have one of their own.
        expected_logs = log_weights.double().contiguous()
        posterior = concentration_of(layout, expected_logs)
        if posterior is None:
            return torch.tensor(-torch.inf, dtype=torch.float64)
        return -divergence(layout, posterior, prior, expected_logs)

    def draw(
        self, declaration: Declaration, log_weights: Tensor, generator: torch.Generator, draws: int = 1
    ) -> Tensor:  # (draws, *layout.shape)
        """log theta drawn from the posterior that these weights are the expected logs of.

        :param declaration: of the table.
        :param log_weights: what :meth:`.Estimator.weights` returned, of the table's shape.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        return draw_rows(declaration, log_weights, generator, draws)

    def draw_prior(
        self, declarations: Declarations, memory: Tensors, generator: torch.Generator, draws: int = 1
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """log theta of every table, drawn from the prior of training.

        :param declarations: of the tables, by name.
        :param memory: not used here: this prior is not learned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        return {n: draw_dirichlet(d.layout, self.pseudo_counts(d), generator, draws) for n, d in declarations.items()}

    def _prior(self, declaration: Declaration) -> Tensor:  # layout.shape, zero outside of the support
        return self.pseudo_counts(declaration).expand(declaration.layout.shape) * declaration.layout.allowed()


def draw_rows(
    declaration: Declaration,
    expected_logs: Tensor,  # layout.shape
    generator: torch.Generator,
    draws: int,
) -> Tensor:  # (draws, *layout.shape)
    """log theta drawn from the Dirichlet rows that have these E[log theta]. A point draws itself."""
    layout = declaration.layout
    posterior = concentration_of(layout, expected_logs.double())
    if posterior is None:
        return layout.normalise(expected_logs.double()).expand(draws, *layout.shape)
    return draw_dirichlet(layout, posterior, generator, draws)


def draw_dirichlet(
    layout: Layout,
    concentration: Tensor,  # broadcastable to (draws, *layout.shape)
    generator: torch.Generator,
    draws: int,
) -> Tensor:  # (draws, *layout.shape)
    """log theta drawn from Dirichlet rows. Structural zeros are -inf, and have no concentration.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> from pyro_unsup.estimate.variational import draw_dirichlet
    >>> rows = draw_dirichlet(pu.tables.Layout.dense(2, 3), torch.tensor(0.5), torch.Generator().manual_seed(0), 4)
    >>> rows.shape, bool((rows.exp().sum(-1) - 1).abs().max() < 1e-12)
    (torch.Size([4, 2, 3]), True)
    """
    rows = TableRows.of(layout)
    alpha = concentration.double().expand(draws, *layout.shape).reshape(draws, -1)
    alpha = (alpha if rows.cells is None else alpha[:, rows.cells]).contiguous()
    # Gamma(a) is Gamma(a + 1) U^(1/a), whose log stays finite where a small a makes the number itself underflow.
    noise = torch.empty_like(alpha).exponential_(generator=generator)
    log_gamma = torch._standard_gamma(alpha + 1, generator=generator).log() - noise / alpha
    index = row_index(torch.from_numpy(np.diff(rows.offsets)))
    return rows.scatter(segment_log_softmax(log_gamma, index, len(rows.numbers)))


def divergence(layout: Layout, posterior: Tensor, prior: Tensor, expected_logs: Tensor) -> Tensor:
    """KL(Dirichlet(posterior) || Dirichlet(prior)), summed over rows. Structural zeros count for nothing."""
    allowed = layout.allowed()

    def log_norm(alpha: Tensor) -> Tensor:
        return torch.lgamma(alpha[allowed]).sum() - torch.lgamma(layout.row_sum(alpha)).sum()

    cross = (posterior - prior)[allowed] * expected_logs[allowed]
    return log_norm(prior) - log_norm(posterior) + cross.sum()


def concentration_of(layout: Layout, expected_logs: Tensor) -> Tensor | None:  # layout.shape
    """The Dirichlet rows that have these E[log theta], structural zeros being 0; None if a row is that of no Dirichlet.

    With s the sum of a row, digamma(alpha) = E[log theta] + digamma(s): each cell follows from s by inverting the
    digamma function, and s is where the cells add up to it.
    """
    from ..kernels.dirichlet import concentrations

    rows = TableRows.of(layout)
    logs = rows.gather(expected_logs)
    index = row_index(torch.from_numpy(np.diff(rows.offsets)))
    missing = 1 - segment_sum(torch.from_numpy(np.exp(logs)), index, len(rows.numbers))
    several = segment_sum(torch.from_numpy((logs > -np.inf).astype(np.float64)), index, len(rows.numbers)) > 1
    if bool(((missing <= POINT) & several).any()):
        return None
    found = torch.from_numpy(concentrations(rows.offsets, logs, ROUNDING))
    if rows.cells is None:
        return found.reshape(layout.shape)
    certain = layout.allowed().double().flatten()  # one outcome is certain, whatever its concentration
    return certain.index_copy(0, rows.cells, found).reshape(layout.shape)


def _inverse_digamma(y: Tensor, near: Tensor | None) -> Tensor:
    """x with digamma(x) = y, by Newton's method; 0 for -inf."""
    steps = 2
    if near is None:  # T. Minka (2000) "Estimating a Dirichlet distribution", appendix C
        near = torch.where(y >= -2.22, y.exp() + 0.5, -1 / (y - torch.digamma(torch.ones((), dtype=y.dtype))))
        steps = 5
    finite = y > -torch.inf
    x = near.where(finite, 1.0)
    for _ in range(steps):
        new = x - (torch.digamma(x) - y) / torch.polygamma(1, x)
        x = torch.where(new > 0, new, x / 8).where(finite, 1.0)
    return x.where(finite, 0.0)
