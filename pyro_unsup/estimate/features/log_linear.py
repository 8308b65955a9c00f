"""Log-linear tables: multinomials with features, and an M step that climbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...errors import DivergenceError, NotDescribable, TableError
from ...tables import Declaration
from ..base import Declarations, Differentiable, Tensors
from .feature_names import FeatureNames
from .features import Features
from .lbfgs import LBFGS, Point
from .template import Template

#: The one thing that it remembers: the weights of all features.
MEMORY = "features"
#: Weights beyond this say no more than that something is impossible.
LARGEST = 1e3
#: Relative rise of its objective at which an M step is done.
STILL = 1e-12
#: L-BFGS steps after a mini-batch, and to fit weights to initial tables.
FEW, MANY = 5, 200


class LogLinear(Differentiable):
    """Tables whose rows are softmaxes of features with shared weights [1]:

        theta[d given c] = exp(w . f(d, c)) / sum over d' of exp(w . f(d', c))

    with a Gaussian prior on the weights: the objective is the log-likelihood minus ``kappa`` times their squares. One
    estimator holds one set of weights, for all tables that it is given for: ``EM(model, LogLinear(templates))`` for all
    tables of a model, ``EM(model, {"emission": LogLinear(templates)})`` for one of them. A table that no template is
    for has a feature for each cell, and with ``kappa=0`` is then the multinomial it would be without features.

    The M step is L-BFGS on the expected complete log-likelihood, never ending lower than it began. For the direct
    gradient of the log marginal instead, see :class:`pyro_unsup.Gradient`; it tends to end at better structure.

    :param templates: see :class:`.Template`.
    :param kappa: strength of the prior, 1 / (2 variance).
    :param lbfgs_iterations: the most in an M step (engines for mini-batches make 5 after each, if this is more). Few
        iterations are another algorithm, that climbs elsewhere.
    :param start: standard deviation of the random initial weights.
    :param fit_start: begin with weights fitted to the engine's initial tables, ``init=``, as well as features can.
    :param start_kappa: the prior of that fit, against one count a row. Larger, weights start smaller, and tables nearer
        to uniform: where the direct gradient ends may depend on it.
    :param max_gib: most memory that the feature matrices may need, see :class:`.Features`.
    :param begin_with: the names and weights to begin with, such as those of another fit with the same templates,
        ``(fit.features["features"], fit.memory["features"])``. Then ``start`` and ``fit_start`` make no difference.

        >>> import pyro_unsup as pu
        >>> words = ["dog", "dogs", "cat", "cats"]
        >>> ending = pu.Template("emission", "ending", tag=pu.same, word=lambda word: word[-1])
        >>> model = pu.models.Tagger(tags=2, vocab=pu.data.Vocab(words))
        >>> fit = pu.EM(model, pu.LogLinear([ending], kappa=0.1)).run([[0, 1], [2, 3, 1]], iterations=5)
        >>> fit.top_features("emission", n=2, tag=0).columns.tolist()
        ['template', 'tag', 'word', 'weight']

    **References:** [1] T. Berg-Kirkpatrick, A. Bouchard-Côté, J. DeNero and D. Klein (2010) "Painless unsupervised
    learning with features".
    """

    def __init__(
        self,
        templates: Sequence[Template] = (),
        kappa: float = 0.0,
        lbfgs_iterations: int = 100,
        start: float = 0.01,
        fit_start: bool = False,
        start_kappa: float = 1e-6,
        max_gib: float | None = None,
        begin_with: tuple[FeatureNames, Tensor] | None = None,
    ) -> None:
        if isinstance(templates, Template) or not all(isinstance(one, Template) for one in templates):
            raise TableError(f"LogLinear: templates must be a list of Template, actual {templates!r:.80}")
        for name, value in (("kappa", kappa), ("start", start), ("start_kappa", start_kappa)):
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise TableError(f"LogLinear: {name} must be finite and not negative, actual {value!r}")
        if not isinstance(lbfgs_iterations, int) or lbfgs_iterations < 1:
            raise TableError(
                f"LogLinear: lbfgs_iterations must be a whole number, at least 1, actual {lbfgs_iterations!r}"
            )
        self.templates, self.kappa, self.lbfgs_iterations = list(templates), float(kappa), lbfgs_iterations
        self.start, self.fit_start, self.start_kappa, self.max_gib = start, fit_start, start_kappa, max_gib
        self.begin_with = begin_with
        self._built: tuple[list[Declaration], Features] | None = None

    def features(self, declarations: Declarations) -> Features:
        """The feature matrices for these tables. Those of the last tables asked for are kept."""
        tables = list(declarations.values())
        if self._built is None or [id(d) for d in self._built[0]] != [id(d) for d in tables]:
            self._built = (tables, Features(declarations, self.templates, self.max_gib))
        return self._built[1]

    def names(self, declarations: Declarations) -> dict[str, FeatureNames]:
        """What the numbers in the memory are called."""
        return {MEMORY: self.features(declarations).names}

    # -- what engines call

    def begin(self, declarations: Declarations, weights: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
        """The weights that were given; or those that come closest to the initial tables; or small random ones."""
        features = self.features(declarations)
        if self.begin_with is not None:
            names, given = self.begin_with
            if (difference := names.differs(features.names)) is not None:
                raise TableError(f"LogLinear: begin_with has weights of other features: {difference}")
            return {MEMORY: given.detach().double().clone()}
        if not self.fit_start:
            drawn = torch.randn(len(features), dtype=torch.float64, generator=generator)
            return {MEMORY: self.start * drawn}
        shares = {name: d.layout.normalise(weights[name].double()).exp() for name, d in declarations.items()}
        return {MEMORY: _climbed(features, _flat(shares), torch.zeros(len(features)), self.start_kappa, MANY)}

    def tables(self, declarations: Declarations, memory: Tensors) -> dict[str, Tensor]:
        """The softmax of every row."""
        return self.features(declarations).log_weights(memory[MEMORY])

    def update(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """L-BFGS on counts times log-weights, minus the prior."""
        return self._moved(declarations, counts, memory, self.lbfgs_iterations)

    def refine(self, declarations: Declarations, counts: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """A few steps of the same, for counts that change little.

        :param declarations: of the tables, by name.
        :param counts: expected, by table.
        :param memory: to start from.
        """
        return self._moved(declarations, counts, memory, min(FEW, self.lbfgs_iterations))

    def log_prior(self, memory: Tensors) -> float:
        """Minus kappa times the squares of the weights."""
        return -self.kappa * float(memory[MEMORY] @ memory[MEMORY])

    def gradient(
        self,
        declarations: Declarations,
        counts: Tensors,
        weights: Tensors,
        memory: Tensors,
    ) -> dict[str, Tensor]:
        """Features as counted, minus as expected under the tables, minus 2 kappa w."""
        found = torch.from_numpy(self.features(declarations).gradient(weights, counts))
        return {MEMORY: found - 2 * self.kappa * memory[MEMORY]}

    def perturbed(
        self,
        declarations: Declarations,
        memory: Tensors,
        jitter: float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Noise on the weights.

        :param declarations: of the tables, by name.
        :param memory: to start from.
        :param jitter: the size of the noise.
        :param generator: where it comes from.
        """
        w = memory[MEMORY]
        return {MEMORY: w + jitter * torch.rand(w.shape, dtype=w.dtype, generator=generator)}

    def draw_prior(
        self,
        declarations: Declarations,
        memory: Tensors,
        generator: torch.Generator,
        draws: int = 1,
    ) -> dict[str, Tensor]:  # (draws, *layout.shape)
        """Log-weights of every table, the weights of features drawn from their prior, N(0, 1 / (2 kappa)).

        :param declarations: of the tables, by name.
        :param memory: not used here: this prior is not learned.
        :param generator: where the draws come from.
        :param draws: how many.
        """
        if not self.kappa:
            raise TableError(
                "LogLinear with kappa=0 has no prior to draw from: give kappa a positive value, or leave the groups "
                "prior and prior_predictive out"
            )
        features = self.features(declarations)
        weights = torch.randn(draws, len(features), generator=generator, dtype=torch.float64) / (2 * self.kappa) ** 0.5
        each = [features.log_weights(w) for w in weights]
        return {name: torch.stack([one[name] for one in each]) for name in declarations}

    def check(self, declarations: Declarations, memory: Tensors) -> None:
        """Raise if the weights have run away.

        :raises DivergenceError: naming the feature that went furthest.
        """
        w = memory[MEMORY]
        if bool(torch.isfinite(w).all()) and float(w.abs().max()) <= LARGEST:
            return
        worst = int(torch.nan_to_num(w, nan=torch.inf).abs().argmax())
        family = next(f for f in self.features(declarations).names.families if worst in f)
        raise DivergenceError(
            f"the weights of features diverge: {family.describe(worst)} has {float(w[worst]):.3g}. Nothing holds it "
            f"back: raise kappa, actual {self.kappa:g}"
        )

    def _moved(self, declarations: Declarations, counts: Tensors, memory: Tensors, steps: int) -> dict[str, Tensor]:
        new = {MEMORY: _climbed(self.features(declarations), _flat(counts), memory[MEMORY], self.kappa, steps)}
        self.check(declarations, new)
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}  # another process builds its own

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Of one without templates: plain values, and tensors (here none).

        :raises NotDescribable: if it has templates.
        """
        if self.templates:
            raise NotDescribable(
                "LogLinear has templates, which are functions: a fit stores the names and weights of its features "
                "instead"
            )
        own = ("kappa", "lbfgs_iterations", "start", "fit_start", "start_kappa", "max_gib")
        return {name: getattr(self, name) for name in own}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Tensors) -> LogLinear:
        """Build an estimator from its :meth:`settings`."""
        return cls(**plain)

    def __repr__(self) -> str:
        iterations = f"lbfgs_iterations={self.lbfgs_iterations}"
        return f"LogLinear({len(self.templates)} templates, kappa={self.kappa:g}, {iterations})"


def _climbed(features: Features, counts: Mapping[str, Array], w: Tensor, kappa: float, steps: int) -> Tensor:
    """Weights under which the counts, with the prior, are more probable."""

    def evaluate(x: Array) -> Point:
        value, gradient = features.expected(x, counts)
        return Point(x, value - kappa * float(x @ x), gradient - 2 * kappa * x)

    here = evaluate(w.double().numpy())
    # Where a feature is counted often, or expected to be, its weight has much curvature.
    counted = features.totals(counts)
    often = np.maximum(counted, counted - (here.gradient + 2 * kappa * here.x)) + 2 * kappa
    climber = LBFGS(scale=1 / np.maximum(often, often.max() * 1e-12))
    for _ in range(steps):
        there = climber.step(here, evaluate)
        if there is None:
            break
        rise, here = there.value - here.value, there
        if rise <= STILL * abs(here.value):
            break
    return torch.from_numpy(here.x)


def _flat(tables: Tensors) -> dict[str, Array]:
    # What rounding leaves below zero is zero.
    flat = {name: x.detach().double().reshape(-1).clamp(min=0) for name, x in tables.items()}
    return {name: np.ascontiguousarray(x.numpy()) for name, x in flat.items()}
