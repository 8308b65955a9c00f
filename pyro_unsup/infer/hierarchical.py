"""Empirical Bayes for any model: weights of its own for every example, and a logistic-normal prior learned from all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import FitError, TableError
from ..estimate import TablePosterior
from ..estimate.normal.covariance import Given, brief, covariance_of, know_some_label, shapes, understood
from ..estimate.normal.empirical_normal import RowPriors, expected, reestimated
from ..estimate.normal.logistic_normal_updates import Posterior, at_prior, divergence
from ..estimate.settings import is_number
from ..estimate.table_rows import TableRows
from ..kernels.threads import plain_torch
from ..results import Fit
from ..tables import Declaration
from .engine import Engine
from .examples import Examples
from .expectation import Expectation, at_iteration
from .init import Initial, noise
from .kept import Kept, log_prior_of_points
from .loop import Info
from .own_weights import OwnExpectation
from .shares import Data, same_data
from .state import Problem, Saved, State
from .used_rows import Pairs, used_rows

#: Bytes that a cell of a pair takes: its posterior, log-weight, count and place, old and new.
BYTES = 64


class HierarchicalEM(Engine):
    """Variational EM in which every example draws its own weights, and what all examples have in common is learned [1]:

        for each row of each table:  mu, Sigma
        for each example:            eta ~ N(mu, Sigma) for each row, theta = softmax(eta); then the example by theta

    The posterior of an example is its hidden structure, summed out under its own weights, times a Gaussian for every
    row that it uses, N(m, diag s2). An iteration sums the structures of every example (E step), fits the Gaussians to
    what is expected of each, and re-estimates mu and Sigma from all of them (:mod:`.empirical_normal`). The objective
    is a lower bound of the log evidence, which no step lowers: the log Z of all examples, each under its own weights
    (their sum is ``log_likelihood`` in the history), minus the divergences of all Gaussians from N(mu, Sigma), plus a
    log prior that keeps covariances from collapsing.

    The tables of a fit are softmax(mu), as for a new example: what is decoded, text that was learned from too, is
    decoded with them. ``fit.guide()`` and ``fit.to_arviz(draws=...)`` draw the tables of a new example, softmax(eta)
    with eta ~ N(mu, Sigma). ``fit.memory`` has mu and Sigma of all rows that have a choice, ``<table>.mean`` and
    ``<table>.covariance``; ``fit.state`` the posteriors of the examples, to go on from.

    Parameters that are not tables (means, rates) are shared by all examples. They are point estimates, re-estimated
    from the posteriors of all examples at the end of every iteration, in closed form or by L-BFGS (:mod:`.kept`).

    Examples are told apart as for mini-batches (a model's ``index``). Which rows one can use is found by an E step
    under uniform weights, once: rows without counts meet no data, and are left out. A model with ``own_weights = True``
    has the E steps of many examples done at once; any other is run once for each example, a few milliseconds every
    time.

    :param init: where mu starts (a harmonic start, say), see :mod:`pyro_unsup.infer.init`.
    :param covariance: of the outcomes of a row: ``"diagonal"`` or ``"full"``, which start at the variance times the
        identity; or where Sigma starts. That is a mapping from the labels of outcomes to families, which vary together,
        or a tensor (an array, lists) for the tables that it suits: (outcomes, outcomes), or (outcomes,) of variances.
        Families and matrices make the covariance of a table full, variances diagonal; tables that they say nothing of
        are diagonal. All are learned from there.
    :param variance: on the diagonal of Sigma at the start, where ``covariance`` is not a tensor.
    :param within: the correlation within a family at the start.
    :param rounds: how often structures and Gaussians take turns before mu and Sigma move.
    :param strict: check the bound after every coordinate step of the Gaussians.
    :param max_gib: most memory for the posteriors of all examples: as many numbers as the rows have outcomes that each
        uses, a few times over.

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1, 1, 2], [2, 1, 0], [0, 1, 2]]
        >>> fit = pu.HierarchicalEM(pu.models.DMV(tags=3)).run(sentences, iterations=5, tolerance=0)
        >>> bool((fit.history.objective.diff()[1:] > 0).all())
        True
        >>> sorted(fit.memory)[:2]
        ['attach.covariance', 'attach.mean']

    **References:** [1] S. Cohen, K. Gimpel and N. Smith (2008) "Logistic normal priors for unsupervised probabilistic
    grammar induction".
    """

    ADDS_UP = False  # examples keep what is theirs

    def __init__(
        self,
        model: Callable[..., Any],
        init: Initial | None = None,
        *,
        covariance: Given = "diagonal",
        variance: float = 1.0,
        within: float = 0.5,
        rounds: int = 1,
        strict: bool = False,
        max_gib: float = 4.0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, None, init, dtype=dtype)
        if not (is_number(variance) and 0 < variance < float("inf")):
            raise FitError(
                "the covariance is not positive definite: variance must be a finite number above 0, actual "
                f"{variance!r:.80}"
            )
        if not (is_number(within) and 0 <= within < 1):
            raise FitError(f"within must be a number in [0, 1), actual {within!r:.80}")
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
            raise FitError(f"rounds must be a whole number, 1 or more, actual {rounds!r:.80}")
        self.covariance: Given = understood("HierarchicalEM", covariance)
        self.variance, self.within, self.rounds = float(variance), within, rounds
        self.strict, self.max_gib = strict, max_gib

    # -- where it begins

    def begin(self, state: State) -> HierarchicalState:
        """Find out which rows every example uses, and begin with posteriors at the prior."""
        problem = state.problem
        examples = Examples.of(self.model, *problem.data)
        tables = {
            name: rows
            for name, d in problem.declarations.items()
            if len((rows := TableRows.of(d.layout)).numbers)  # those that have a choice somewhere
        }
        if not tables:
            raise FitError("no row of any table has two outcomes: there is nothing to learn")
        uniform = {name: d.layout.uniform(self.dtype) for name, d in problem.declarations.items()}
        cells, plates = sum(w.numel() for w in uniform.values()), problem.marginal.plates
        expect = OwnExpectation(self.model, problem.parameters, self.dtype, plates, examples, cells)
        found = used_rows(expect, uniform, tables)
        unvisited = {}
        for name, (_, used) in found.items():
            if not len(used):
                raise FitError(f"table '{name}' gets no counts at all: does the model use it?")
            unvisited[name] = len(tables[name].numbers) - len(np.unique(used))
        need = BYTES * sum(int(np.diff(tables[name].offsets)[used].sum()) for name, (_, used) in found.items())
        if need > self.max_gib * 2**30:
            raise FitError(
                f"the posteriors of {examples.size} examples would take about {need / 2**30:.3g} GiB, more than "
                f"max_gib = {self.max_gib:g}: learn from fewer examples, raise max_gib, or use EM with LogisticNormal, "
                "where all examples share their weights"
            )
        pairs = {name: Pairs.of(tables[name], *both, examples.size) for name, both in found.items()}
        begun = HierarchicalState(**{**vars(state), "unvisited": unvisited}, rows=tables, pairs=pairs, expect=expect)
        if state.unconstrained:
            every = problem.expect(state.tables, state.unconstrained, 0)
            begun.by_formula = Kept.of(every, state.unconstrained).by_formula
        begun.posteriors = {name: at_prior(prior.of_pairs(pairs[name].rows)) for name, prior in begun.priors().items()}
        return begun

    def _initial_weights(
        self, problem: Problem, generator: torch.Generator
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """mu at the initial weights."""
        init = noise(self.NOISE) if self.initial is None else self.initial
        declarations = problem.declarations
        if not declarations:
            raise FitError(
                "HierarchicalEM gives every example tables of its own, and the model has no tables: train it with EM"
            )
        found = init(declarations, generator)
        know_some_label("HierarchicalEM", self.covariance, declarations)
        if not any(self._suits(declaration) for declaration in declarations.values()):
            assert isinstance(self.covariance, Tensor)
            sizes = {name: shapes(declaration)[1] for name, declaration in declarations.items()}
            raise TableError(
                f"HierarchicalEM: a covariance of shape {tuple(self.covariance.shape)} suits no table, expected one of "
                f"{sizes} or the variances on its diagonal"
            )
        priors: dict[str, RowPriors] = {}
        for name, declaration in declarations.items():
            start = declaration.layout.check(name, found[name])
            given = self.covariance if self._suits(declaration) else "diagonal"
            sigma = covariance_of(declaration, given, self.variance, self.within)
            prior = RowPriors.start(declaration, start, sigma, isinstance(given, str) and given == "full")
            if len(prior.rows.numbers):
                priors[name] = prior
        return tables_at(problem, priors), remembered(priors)

    def _suits(self, declaration: Declaration) -> bool:
        return not isinstance(self.covariance, Tensor) or self.covariance.shape in shapes(declaration)

    # -- an iteration

    def e_step(self, state: HierarchicalState) -> tuple[Info, Found]:
        """The E step of every example: the bound, and the expected counts of every cell of every pair."""
        found, seen = self._expectations(state, state.posteriors)
        with plain_torch():
            bound = found
            for name, prior in state.priors().items():
                rows = state.pairs[name].rows
                bound -= float(divergence(prior.of_pairs(rows), state.posteriors[name]).sum())
                bound += prior.log_prior(rows)
        return Info(state.iteration, bound, found), seen

    def m_step(self, state: HierarchicalState, found: Found) -> HierarchicalState:
        """The posteriors of all pairs, then mu and Sigma, and parameters that all examples share."""
        posteriors, priors = state.posteriors, state.priors()
        for round_ in range(self.rounds):
            if round_:
                _, found = self._expectations(state, posteriors)
            before = posteriors  # what the structures were weighed by
            with plain_torch():
                posteriors = {
                    name: expected(
                        found.counts[name], state.pairs[name].rows, prior, posteriors[name], strict=self.strict
                    ).posterior
                    for name, prior in priors.items()
                }
        with plain_torch():
            new = {name: reestimated(prior, state.pairs[name].rows, posteriors[name]) for name, prior in priors.items()}
            tables = tables_at(state.problem, new)
        return replace(
            state,
            tables={**tables},
            memory=remembered(new),
            posteriors=posteriors,
            unconstrained=self._shared(state, found, before),
            iteration=state.iteration + 1,
        )

    def _shared(self, state: HierarchicalState, found: Found, posteriors: Mapping[str, Posterior]) -> dict[str, Tensor]:
        """New values of parameters that all examples share."""
        if found.last is None:
            return state.unconstrained
        weights, expect = self._weights(state, posteriors), state.expect

        def source(group: int) -> Any:
            first, last, data = expect.groups[group]
            return expect.tables(weights, first, last), (data, {})

        with at_iteration(state.iteration, has_parameters=True):
            how = (found.last, expect.marginal, source, state.unconstrained, self.lbfgs_iterations)
            return found.kept.new_values(*how)

    def loss(self, state: HierarchicalState) -> float:
        """Minus the bound."""
        return -self.e_step(state)[0].objective

    def _expectations(self, state: HierarchicalState, posteriors: Mapping[str, Posterior]) -> tuple[float, Found]:
        """The sum of log Z, and the expected counts of every cell of every pair."""
        pairs, marginal, others = state.pairs, state.expect.marginal, bool(state.unconstrained)
        weights = self._weights(state, posteriors)
        result = Found({name: np.zeros(len(pair.places)) for name, pair in pairs.items()}, Kept(state.by_formula))
        total = prior = 0.0
        if others:
            marginal.parameters.write(state.unconstrained)
        for group, (first, last, found) in enumerate(state.expect(weights, state.iteration, others)):
            total += found.log_marginal
            for name, each in pairs.items():
                mine, heard = each.gather(found.counts[name], first, last)
                result.counts[name][mine] = heard.clip(min=0)  # what rounding leaves below zero is zero
            if others:
                prior = log_prior_of_points(marginal)  # which counts once, not with every example
                total -= prior
                data = state.expect.groups[group][2]
                result.kept.put(group, found, marginal, state.expect.tables(weights, first, last), (data, {}))
                result.last = found
        return total + prior, result

    def _weights(
        self, state: HierarchicalState, posteriors: Mapping[str, Posterior]
    ) -> Callable[[int, int], dict[str, Tensor]]:
        """From the first and last of some examples to their tables."""
        pairs, shared = state.pairs, state.weights
        psi = {name: q.log_weights(pairs[name].offsets) for name, q in posteriors.items()}

        def weights(first: int, last: int) -> dict[str, Tensor]:
            others = {name: w.expand(last - first, *w.shape) for name, w in shared.items() if name not in psi}
            own = (pairs[name].tables(x, shared[name], first, last) for name, x in psi.items())
            return others | dict(zip(psi, own, strict=True))

        return weights

    # -- what there is to know, and to keep

    def config(self, state: HierarchicalState) -> dict[str, Any]:
        given = self.covariance
        return {
            "estimate": "a logistic normal of each example",
            "covariance": given if isinstance(given, str) else brief(given),
            "variance": self.variance,
            **({"within": self.within} if isinstance(given, Mapping) else {}),
            "rounds": self.rounds,
        }

    def load_state(self, state: HierarchicalState, fit: Fit) -> HierarchicalState:
        loaded: HierarchicalState = super().load_state(state, fit)
        posteriors = {}
        for name, pairs in loaded.pairs.items():
            check_covariance(name, loaded.memory[f"{name}.covariance"])
            kept = [fit.state.get(f"{name}.{key}", torch.zeros(0)) for key in ("examples", "rows", "mean", "variance")]
            same = [np.array_equal(x.numpy(), own) for x, own in zip(kept, (pairs.examples, pairs.rows), strict=False)]
            if not all(same) or any(x.shape != pairs.places.shape for x in kept[2:]):
                raise FitError(
                    f"the fit to go on from has posteriors of other examples for table '{name}': resume with the data "
                    "that it was trained on, or start from what was learned with init=pu.init.from_weights(fit)"
                )
            posteriors[name] = Posterior(kept[2].numpy(), kept[3].numpy())
        return replace(loaded, posteriors=posteriors)

    def on(self, state: HierarchicalState, data: Data) -> HierarchicalState:
        if not same_data(state.problem.data, data):
            raise FitError(
                "HierarchicalEM remembers the posteriors of the data that it began with, and these are others: make a "
                "new session for them, with init=pu.init.from_weights(fit) to start from what was learned"
            )
        return state


@dataclass
class Found:
    """What the E steps of all examples found.

    :param counts: by table, the expected counts of every cell of every pair.
    :param kept: what parameters that all examples share are learned from.
    :param last: the last E step, if there are such parameters.
    """

    counts: dict[str, Array]
    kept: Kept
    last: Expectation | None = None


@dataclass
class HierarchicalState(State):
    """Where empirical Bayes is. ``memory`` has mu and Sigma.

    :param rows: of tables that have a choice somewhere.
    :param pairs: of an example and a row that it uses, by table.
    :param expect: E steps in which every example has its own weights.
    :param posteriors: the Gaussian of every pair, by table.
    :param by_formula: whether all parameters that are not tables have a formula.
    """

    rows: dict[str, TableRows] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    expect: OwnExpectation = None  # type: ignore[assignment]
    posteriors: dict[str, Posterior] = field(default_factory=dict)
    by_formula: bool = True

    def priors(self) -> dict[str, RowPriors]:
        """mu and Sigma by table."""
        return {
            name: RowPriors(rows, self.memory[f"{name}.mean"].numpy(), self.memory[f"{name}.covariance"].numpy())
            for name, rows in self.rows.items()
        }

    def own(self) -> dict[str, Tensor]:
        kept: dict[str, Tensor] = {}
        for name, pairs in self.pairs.items():
            q = self.posteriors[name]
            found = {"examples": pairs.examples, "rows": pairs.rows, "mean": q.mean, "variance": q.variance}
            kept |= {f"{name}.{key}": torch.from_numpy(x) for key, x in found.items()}
        return kept

    def saved(self) -> Saved:
        normal = dict.fromkeys(self.rows, TablePosterior.LOGISTIC_NORMAL)
        return {**super().saved(), "estimators": {}, "posteriors": normal}


def remembered(priors: Mapping[str, RowPriors]) -> dict[str, Tensor]:
    """Priors as the memory of a state."""
    return {
        f"{name}.{key}": torch.from_numpy(x)
        for name, prior in priors.items()
        for key, x in (("mean", prior.mean), ("covariance", prior.covariance))
    }


def tables_at(problem: Problem, priors: Mapping[str, RowPriors]) -> dict[str, Tensor]:
    """The tables at the means of some priors."""
    mean = {name: p.rows.scatter(torch.from_numpy(p.mean)) for name, p in priors.items()}
    layouts = {name: declaration.layout for name, declaration in problem.declarations.items()}
    return {
        name: layout.normalise(mean[name] if name in mean else layout.uniform()).to(problem.dtype)
        for name, layout in layouts.items()
    }


def check_covariance(name: str, x: Tensor) -> None:  # (cells,) of variances, or (rows, outcomes, outcomes)
    """Raise unless the covariance of a table is positive definite."""
    bad = ~(x > 0) if x.dim() == 1 else torch.linalg.cholesky_ex(x).info > 0
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        which = f"the variance of cell {row}" if x.dim() == 1 else f"the covariance of row {row}"
        raise FitError(f"table '{name}': {which} in the fit to go on from is not positive definite")
