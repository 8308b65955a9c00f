"""Logistic-normal priors: outcomes that vary together, and weights that carry the uncertainty about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...distributions.segments import row_index, segment_log_softmax
from ...errors import FitError, TableError
from ...registry import PlainSettings
from ...tables import Declaration
from ..base import Declarations, Parametric, TablePosterior, Tensors
from ..settings import is_number, to_tensor
from ..table_rows import TableRows
from .covariance import Given, brief, covariance_of, know_some_label, understood
from .logistic_normal_updates import MAY_FALL, Posterior, at_prior, fitted
from .normal_prior import TablePrior, learned

#: What is added to the variances of a covariance that is learned. It is the scale of a prior that keeps it from
#: collapsing, exp(-rows / 2 * JITTER * trace(inverse)), which is part of the bound.
JITTER = 1e-6
#: Rounds between rows and the experts that they share, and the change of an expert that ends them.
ROUNDS, STILL = 4, 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class LogisticNormal(PlainSettings, Parametric):
    """Variational Bayes with a logistic-normal prior [1]: each row is softmax(eta), eta ~ N(mean, covariance), and its
    posterior is N(m, diag s2). The weights exp(psi) are below exp(E[log theta]) by a bound with one more parameter, and
    sub-normalised (see :mod:`.logistic_normal_updates`). Unlike a Dirichlet it can say that some outcomes rise and fall
    together.

    Under :class:`.EM` the objective is a lower bound on the log evidence, and never falls.

    :param mean: of the prior: ``"initial"``, the logs of the initial weights, so that a good start is also what is
        believed; ``"uniform"``; or a tensor (an array, lists) of log-weights that broadcasts to the table.
    :param covariance: of the outcomes of a row: ``"diagonal"``, the variance times the identity; a tensor (an array,
        lists), (outcomes,) of variances (a ragged table: one a cell), or (outcomes, outcomes); a mapping from the
        labels of outcomes to families, which vary together; or ``"full"``, any covariance, learned from the rows of the
        table that share it. (A table with one row keeps the identity: its prior would run after its posterior.)
    :param variance: on the diagonal, where ``covariance`` is not a tensor.
    :param within: the correlation within a family.
    :param shared: with families, the part of the covariance that rows of one family have in common, as experts that
        they share (:mod:`.sharing`). Families are those of the labels of rows.
    :param strict: check the bound after every coordinate step.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> layout = pu.tables.Layout.dense(3)
        >>> tables = {"coin": pu.tables.Declaration("coin", layout, torch.tensor(1.0, dtype=torch.float64))}
        >>> how = pu.LogisticNormal()
        >>> memory = how.begin(tables, {"coin": layout.uniform()}, torch.Generator())
        >>> counts = {"coin": torch.tensor([5.0, 2.0, 0.0], dtype=torch.float64)}
        >>> how.tables(tables, how.update(tables, counts, memory))["coin"].exp()
        tensor([0.5384, 0.2378, 0.0960], dtype=torch.float64)

    **References:**

    [1] S. Cohen, K. Gimpel and N. Smith (2008) "Logistic normal priors for unsupervised probabilistic grammar
    induction".
    [2] D. Blei and J. Lafferty (2007) "A correlated topic model of Science".
    """

    posterior: ClassVar = TablePosterior.LOGISTIC_NORMAL

    mean: Literal["initial", "uniform"] | Tensor = "initial"
    covariance: Given = "diagonal"
    variance: float = 1.0
    within: float = 0.5
    shared: float = 0.0
    strict: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.mean, str) or self.mean not in ("initial", "uniform"):
            mean = to_tensor(self.mean)
            if mean is None:
                raise TableError(f"LogisticNormal: mean is 'initial', 'uniform' or a tensor, actual {self.mean!r:.80}")
            object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", understood("LogisticNormal", self.covariance))
        if not (is_number(self.variance) and 0 < self.variance < float("inf")):
            raise TableError(
                f"LogisticNormal: the variance must be a number, positive and finite, actual {self.variance!r:.80}"
            )
        if not all(is_number(x) and 0 <= x < 1 for x in (self.within, self.shared)):
            raise TableError(
                "LogisticNormal: within and shared must be numbers in [0, 1), actual "
                f"{self.within!r:.40} and {self.shared!r:.40}"
            )
        if self.shared and not isinstance(self.covariance, Mapping):
            raise TableError("LogisticNormal: rows share by family: give covariance a mapping from labels to families")

    # -- what engines call

    def begin(self, declarations: Declarations, weights: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
        """Means at the initial weights, variances as those of the prior."""
        know_some_label("LogisticNormal", self.covariance, declarations)
        memory: dict[str, Tensor] = {}
        for name, declaration in declarations.items():
            rows = TableRows.of(declaration.layout)
            start = rows.gather(weights[name])
            if not np.isfinite(start).all():
                raise TableError(
                    f"table '{name}': {int((~np.isfinite(start)).sum())} allowed outcomes start with weight zero, "
                    "which no logistic normal has: smooth the initial weights, or forbid the outcomes by a support"
                )
            believed = start if isinstance(self.mean, str) and self.mean == "initial" else self._mean(declaration, rows)
            memory[f"{name}.prior_mean"] = torch.from_numpy(believed.copy())
            if self._learns(declaration):
                memory[f"{name}.covariance"] = _eye(declaration, self.variance)
            prior = self._prior(declaration, rows, memory)
            posterior = Posterior(start, at_prior(prior.rows).variance)
            memory |= self._remembered(declaration, prior, posterior)
        return memory

    def tables(self, declarations: Declarations, memory: Tensors) -> dict[str, Tensor]:
        """psi of every table: log-weights that sum to less than one."""
        found = {}
        for name, declaration in declarations.items():
            rows = TableRows.of(declaration.layout)
            found[name] = rows.scatter(torch.from_numpy(_posterior(name, memory).log_weights(rows.offsets)))
        return found

    def update(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """The best posteriors for these expected counts; then the covariances that are learned."""
        new = dict(memory)
        for name, declaration in declarations.items():
            rows = TableRows.of(declaration.layout)
            heard = rows.gather(counts[name]).clip(min=0)
            prior = self._prior(declaration, rows, memory)
            posterior = self._fitted(name, heard, prior, _posterior(name, memory))
            if self._learns(declaration):
                new[f"{name}.covariance"] = learned(prior.rows, posterior, JITTER)
                prior = self._prior(declaration, rows, new)
            new |= self._remembered(declaration, prior, posterior)
        return new

    def log_prior(self, memory: Tensors) -> float:
        """The bound without log Z: minus the divergence of the posterior from the prior."""
        return float(sum(x for key, x in memory.items() if key.endswith(".log_prior")))

    def perturbed(
        self,
        declarations: Declarations,
        memory: Tensors,
        jitter: float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Noise on the means of the posteriors, and what that costs.

        :param declarations: of the tables, by name.
        :param memory: to start from.
        :param jitter: the size of the noise.
        :param generator: where it comes from.
        """
        new = dict(memory)
        for name, declaration in declarations.items():
            q, prior = _posterior(name, memory), self._prior(declaration, TableRows.of(declaration.layout), memory)
            noise = torch.rand(len(q.mean), dtype=torch.float64, generator=generator).numpy()
            new |= self._remembered(declaration, prior, Posterior(q.mean + jitter * noise, q.variance))
        return new

    def draw(
        self,
        declarations: Declarations,
        memory: Tensors,
        generator: torch.Generator,
        draws: int = 1,
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """log theta of every table, drawn from the posterior: rows sum to one.

        :param declarations: of the tables, by name.
        :param memory: what :meth:`update` returned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        found = {}
        for name, declaration in declarations.items():
            rows, q = TableRows.of(declaration.layout), _posterior(name, memory)
            noise = torch.randn(draws, len(q.mean), generator=generator, dtype=torch.float64)
            eta = torch.from_numpy(q.mean) + torch.from_numpy(q.variance).sqrt() * noise
            found[name] = _softmax(rows, eta)
        return found

    def draw_prior(
        self,
        declarations: Declarations,
        memory: Tensors,
        generator: torch.Generator,
        draws: int = 1,
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """The same from the prior, with the covariances that were learned, if they were.

        :param declarations: of the tables, by name.
        :param memory: what :meth:`update` returned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        if self.shared:
            raise TableError(
                "LogisticNormal with shared experts cannot draw from its prior: train with shared=0.0, or leave the "
                "groups prior and prior_predictive out"
            )
        found = {}
        for name, declaration in declarations.items():
            rows = TableRows.of(declaration.layout)
            found[name] = _softmax(rows, self._prior(declaration, rows, memory).rows.draw(generator, draws))
        return found

    # -- its parts

    def _fitted(self, name: str, counts: Array, prior: TablePrior, start: Posterior) -> Posterior:
        found, rows = start, prior.given(start)
        for _ in range(ROUNDS):
            found = fitted(counts, rows, found, strict=self.strict, name=name)
            again = prior.given(found)
            if self.strict:
                before, after = prior.log_prior(found, rows), prior.log_prior(found, again)
                if after < before - MAY_FALL * max(1, abs(before)):
                    raise FitError(f"table '{name}': the step of shared experts lowered the bound: please report it")
            if np.abs(again.mean - rows.mean).max(initial=0) <= STILL:
                break
            rows = again
        return found

    def _remembered(self, declaration: Declaration, prior: TablePrior, posterior: Posterior) -> dict[str, Tensor]:
        name, log_prior = declaration.name, prior.log_prior(posterior, prior.given(posterior))
        if self._learns(declaration):
            log_prior -= 0.5 * JITTER * float(prior.rows.precision.sum())
        return {
            f"{name}.mean": torch.from_numpy(posterior.mean),
            f"{name}.variance": torch.from_numpy(posterior.variance),
            f"{name}.log_prior": torch.tensor(log_prior, dtype=torch.float64),
        }

    def _prior(self, declaration: Declaration, rows: TableRows, memory: Tensors) -> TablePrior:
        mean, covariance = memory[f"{declaration.name}.prior_mean"].numpy(), self._covariance(declaration, memory)
        related = self.covariance if isinstance(self.covariance, Mapping) else None
        return TablePrior.of(declaration, rows, mean, covariance, covariance.dim() == 2, related, self.shared)

    def _covariance(self, declaration: Declaration, memory: Tensors) -> Tensor:
        """() or (outcomes,) variances, or (outcomes, outcomes)."""
        learned_so_far = memory.get(f"{declaration.name}.covariance")
        if learned_so_far is not None:
            return learned_so_far
        return covariance_of(declaration, self.covariance, self.variance, self.within)

    def _learns(self, declaration: Declaration) -> bool:
        """Whether a table's covariance is learned, which takes rows that share it."""
        if not isinstance(self.covariance, str) or self.covariance != "full":
            return False
        layout = declaration.layout
        if layout.support is not None or layout.row_lengths is not None:
            raise TableError(
                f"table '{declaration.name}': covariance='full' learns from rows that have the same outcomes, and "
                "these have a support or are ragged: give a tensor or families, or use covariance='diagonal'"
            )
        return layout.rows.numel() > 1

    def _mean(self, declaration: Declaration, rows: TableRows) -> Array:  # (cells,)
        layout = declaration.layout
        if not isinstance(self.mean, Tensor):
            return rows.gather(layout.uniform())
        try:
            found = rows.gather(self.mean.expand(layout.shape))
        except RuntimeError:
            raise TableError(
                f"table '{declaration.name}': the mean must broadcast to the shape {tuple(layout.shape)}, actual "
                f"{tuple(self.mean.shape)}"
            ) from None
        if not np.isfinite(found).all():
            raise TableError(
                f"table '{declaration.name}': {int((~np.isfinite(found)).sum())} allowed outcomes have a mean that is "
                "not finite: give all of them a log-weight, or forbid the outcomes by a support"
            )
        return found

    def __repr__(self) -> str:
        said = {"mean": self.mean, "covariance": self.covariance, "variance": self.variance}
        said |= {"within": self.within} if isinstance(self.covariance, Mapping) else {}
        said |= {"shared": self.shared} if self.shared else {}
        return f"LogisticNormal({', '.join(f'{key}={brief(x)}' for key, x in said.items())})"


def _eye(declaration: Declaration, variance: float) -> Tensor:
    return variance * torch.eye(declaration.layout.shape[-1], dtype=torch.float64)


def _posterior(name: str, memory: Tensors) -> Posterior:
    return Posterior(memory[f"{name}.mean"].numpy(), memory[f"{name}.variance"].numpy())


def _softmax(rows: TableRows, eta: Tensor) -> Tensor:  # (draws, cells) -> (draws, *layout.shape)
    """log theta: the log softmax of every row, in its place."""
    index = row_index(torch.from_numpy(np.diff(rows.offsets)))
    return rows.scatter(segment_log_softmax(eta, index, len(rows.numbers)))
