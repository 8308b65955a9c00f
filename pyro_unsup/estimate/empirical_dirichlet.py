"""Variational Bayes for Dirichlet priors that are learned as well: empirical Bayes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..errors import TableError
from ..registry import PlainSettings
from ..tables import Declaration
from .base import Declarations, Parametric, TablePosterior, Tensors
from .settings import is_number
from .variational import _inverse_digamma, concentration_of, divergence, draw_dirichlet, draw_rows

#: Where concentrations stay: a point on one side, certainty of a single outcome on the other.
LEAST, MOST = 1e-8, 1e8
#: Leaps of the fixed point in one update, which goes on from where the last one ended; and the relative change that
#: ends them.
LEAPS, STILL = 3, 1e-8


@dataclass(frozen=True)
class EmpiricalDirichlet(PlainSettings, Parametric):
    """:class:`.DirichletVB` whose concentration is fitted to the data, table by table.

    Given expected counts, the bound with the best Dirichlet posterior is the Dirichlet-multinomial log-likelihood of
    the counts; Minka's fixed point [1] climbs it in the concentration. It is sure to climb where counts are whole
    numbers of at least one; where it does not on fractional counts, a step that is sure to takes its place (towards the
    likeliest concentration, given the posterior's E[log theta]). So the bound never falls.

    :param per: one concentration for a ``"table"``, or one for each ``"outcome"`` of it.
    :param start: the concentration to begin with; None takes the prior that the model declared for the table.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> layout = pu.tables.Layout.dense(2, 3)
        >>> tables = {"t": pu.tables.Declaration("t", layout, torch.tensor(1.0, dtype=torch.float64))}
        >>> how = pu.EmpiricalDirichlet()
        >>> memory = how.begin(tables, {"t": layout.uniform()}, torch.Generator())
        >>> counts = {"t": torch.tensor([[40.0, 1, 0], [0, 60, 2]], dtype=torch.float64)}
        >>> how.update(tables, counts, memory)["t.concentration"]
        tensor(0.1388, dtype=torch.float64)

    **References:**

    [1] T. Minka (2000) "Estimating a Dirichlet distribution".
    [2] R. Varadhan and C. Roland (2008) "Simple and globally convergent methods for accelerating the convergence of any
    EM algorithm".
    """

    posterior: ClassVar = TablePosterior.DIRICHLET

    per: Literal["table", "outcome"] = "table"
    start: float | None = None

    def __post_init__(self) -> None:
        if self.per not in ("table", "outcome"):
            raise TableError(f"EmpiricalDirichlet: per is 'table' or 'outcome', actual {self.per!r:.80}")
        if self.start is not None and not (is_number(self.start) and LEAST <= self.start <= MOST):
            raise TableError(
                f"EmpiricalDirichlet: start must be a number in [{LEAST}, {MOST}], actual {self.start!r:.80}"
            )

    def begin(self, declarations: Declarations, weights: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
        """The initial weights are point masses, which no Dirichlet is near: their bound is -inf."""
        memory: dict[str, Tensor] = {}
        for name, declaration in declarations.items():
            own = declaration.prior.double() if self.start is None else torch.tensor(self.start, dtype=torch.float64)
            if self.per == "table":
                own = own.expand(declaration.layout.shape)[declaration.layout.allowed()].log().mean().exp()
            else:
                cells = _Cells(declaration, "outcome")
                spelled = own.expand(declaration.layout.shape).log()
                own = (cells.sum(spelled) / cells.sum(torch.ones_like(spelled)).clamp(min=1)).exp()
            memory |= {
                f"{name}.concentration": own.clamp(LEAST, MOST),
                f"{name}.weights": weights[name].double(),
                f"{name}.log_prior": torch.tensor(-torch.inf, dtype=torch.float64),
            }
        return memory

    def tables(self, declarations: Declarations, memory: Tensors) -> dict[str, Tensor]:
        return {name: memory[f"{name}.weights"] for name in declarations}

    def update(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        new = dict(memory)
        for name, declaration in declarations.items():
            layout, cells = declaration.layout, _Cells(declaration, self.per)
            heard = counts[name].double().clamp(min=0)
            alpha = fitted_concentration(cells, heard, memory[f"{name}.concentration"])
            prior = cells.spread(alpha)
            posterior = heard + prior
            logs = torch.digamma(posterior) - layout.spread(torch.digamma(layout.row_sum(posterior)))
            logs = layout.mask(logs)
            cost = (heard * logs.where(layout.allowed(), 0.0)).sum()
            new |= {
                f"{name}.concentration": alpha,
                f"{name}.weights": logs,
                # The evidence of the counts is what the bound makes of them: counts . weights - KL.
                f"{name}.log_prior": cells.evidence(heard, alpha) - cost,
            }
        return new

    def log_prior(self, memory: Tensors) -> float:
        """Minus the divergence of the posterior rows from their prior."""
        return float(sum(x for key, x in memory.items() if key.endswith(".log_prior")))

    def perturbed(
        self,
        declarations: Declarations,
        memory: Tensors,
        jitter: float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Noise on the logs of the posterior's concentrations, and what that costs; on the weights, if they are
        points.

        :param declarations: of the tables, by name.
        :param memory: to start from.
        :param jitter: the size of the noise.
        :param generator: where it comes from.
        """
        new = dict(memory)
        for name, declaration in declarations.items():
            layout, logs = declaration.layout, memory[f"{name}.weights"]
            noise = jitter * torch.rand(layout.shape, dtype=torch.float64, generator=generator)
            posterior = concentration_of(layout, logs)
            if posterior is None:
                new[f"{name}.weights"] = layout.normalise(logs + noise)
                continue
            posterior = posterior * noise.exp()
            logs = layout.mask(torch.digamma(posterior) - layout.spread(torch.digamma(layout.row_sum(posterior))))
            prior = _Cells(declaration, self.per).spread(memory[f"{name}.concentration"])
            cost = divergence(layout, posterior, prior, logs)
            new |= {f"{name}.weights": logs, f"{name}.log_prior": -cost}
        return new

    def draw(
        self,
        declarations: Declarations,
        memory: Tensors,
        generator: torch.Generator,
        draws: int = 1,
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """log theta of every table, drawn from the posterior.

        :param declarations: of the tables, by name.
        :param memory: what :meth:`.Parametric.update` returned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        return {name: draw_rows(d, memory[f"{name}.weights"], generator, draws) for name, d in declarations.items()}

    def draw_prior(
        self, declarations: Declarations, memory: Tensors, generator: torch.Generator, draws: int = 1
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """The same from the prior, with the concentrations that were learned.

        :param declarations: of the tables, by name.
        :param memory: what :meth:`.Parametric.update` returned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        alpha = {n: _Cells(d, self.per).spread(memory[f"{n}.concentration"]) for n, d in declarations.items()}
        return {name: draw_dirichlet(d.layout, alpha[name], generator, draws) for name, d in declarations.items()}


class _Cells:
    """Which concentration the cells of a table have."""

    def __init__(self, declaration: Declaration, per: str) -> None:
        self.layout, self.allowed = declaration.layout, declaration.layout.allowed()
        self._outcomes: Tensor | None = None  # of each cell, flat
        self._count = 0
        if per == "table":
            return
        if self.layout.row_lengths is None:
            self._count = self.layout.shape[-1]
            self._outcomes = torch.arange(self._count).expand(self.layout.shape).flatten()
            return
        axis = None if declaration.axes is None else declaration.axes[-1]
        if axis is None or axis.cells is None:
            raise TableError(
                f"table '{declaration.name}': per='outcome' needs to know which outcome each cell of a ragged table "
                "is: declare its axes, or use per='table'"
            )
        self._count, self._outcomes = len(axis.labels), axis.cells.long()

    def sum(self, x: Tensor) -> Tensor:  # layout.shape -> () or (outcomes,)
        """Over the allowed cells that have a concentration in common."""
        x = x.where(self.allowed, 0.0)
        if self._outcomes is None:
            return x.sum()
        return x.new_zeros(self._count).index_add(0, self._outcomes, x.flatten())

    def spread(self, alpha: Tensor) -> Tensor:  # () or (outcomes,) -> layout.shape
        """Each allowed cell's concentration; zero elsewhere."""
        full = alpha.expand(self.layout.shape) if self._outcomes is None else alpha[self._outcomes]
        return full.reshape(self.layout.shape) * self.allowed

    def evidence(self, counts: Tensor, alpha: Tensor) -> Tensor:  # ()
        """The Dirichlet-multinomial log-likelihood of counts, without multinomial coefficients."""
        prior = self.spread(alpha)
        met = (counts > 0) & self.allowed  # others add nothing
        cells = _rising(prior[met], counts[met])
        return cells.sum() - _rising(self.layout.row_sum(prior), self.layout.row_sum(counts)).sum()


def _rising(x: Tensor, n: Tensor) -> Tensor:
    """log Gamma(x + n) - log Gamma(x), also where x is so large that the two are nearly the same number."""

    def tail(y: Tensor) -> Tensor:  # what Stirling's formula leaves
        return 1 / (12 * y) - 1 / (360 * y**3) + 1 / (1260 * y**5)

    large = x.clamp(min=100.0)
    apart = (large + n - 0.5) * torch.log1p(n / large) + n * large.log() - n + tail(large + n) - tail(large)
    return torch.where(x < 100, torch.lgamma(x + n) - torch.lgamma(x), apart)


def fitted_concentration(cells: _Cells, counts: Tensor, alpha: Tensor) -> Tensor:  # () or (outcomes,)
    """Climb the evidence of expected counts, from a concentration to a better one.

    Two steps of the fixed point tell where more of them would lead [2]; what does not raise the evidence is not taken.
    """
    reached = cells.evidence(counts, alpha)
    for _ in range(LEAPS):
        one = _minka(cells, counts, alpha)
        two = _minka(cells, counts, one)
        if ((two - alpha) / alpha).abs().max() <= STILL:
            break
        first, second = (one / alpha).log(), (two / one).log()
        far = (first.norm() / (second - first).norm().clamp(min=1e-12)).clamp(min=1.0)
        leap = (alpha.log() + 2 * far * first + far**2 * (second - first)).exp().clamp(LEAST, MOST)
        new, found = leap, cells.evidence(counts, leap)
        if not found >= reached:
            new, found = two, cells.evidence(counts, two)
        if not found >= reached:
            new = _likeliest(cells, counts, alpha)
            found = cells.evidence(counts, new)
        if not found >= reached:
            break  # at the best, up to rounding
        alpha, reached = new, found
    return alpha


def _minka(cells: _Cells, counts: Tensor, alpha: Tensor) -> Tensor:
    """Minka (2000), equation 55: the fixed point for a Dirichlet-multinomial."""
    layout, prior = cells.layout, cells.spread(alpha)
    safe = prior.where(cells.allowed, 1.0)
    whole = layout.row_sum(prior)
    rows = torch.digamma(layout.row_sum(counts) + whole) - torch.digamma(whole)
    above = cells.sum(torch.digamma(counts + safe) - torch.digamma(safe))
    below = cells.sum(layout.spread(rows).expand(layout.shape))
    new = torch.where(below > 0, alpha * above / below.where(below > 0, 1.0), alpha)
    return new.clamp(LEAST, MOST)


def _likeliest(cells: _Cells, counts: Tensor, alpha: Tensor) -> Tensor:
    """Minka (2000), equation 9: digamma(new) = digamma(sum of the old) + E[log theta], averaged over cells."""
    layout, prior = cells.layout, cells.spread(alpha)
    posterior = (counts + prior).where(cells.allowed, 1.0)
    logs = torch.digamma(posterior) - layout.spread(torch.digamma(layout.row_sum(counts + prior)))
    target = logs + layout.spread(torch.digamma(layout.row_sum(prior)))
    many = cells.sum(torch.ones_like(logs))
    new = _inverse_digamma(cells.sum(target) / many.clamp(min=1), None)
    return torch.where(many > 0, new, alpha).clamp(LEAST, MOST)
