"""Incremental EM: one mini-batch's counts replaced at a time, all of them remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError
from ..handlers import declared
from ..kernels.threads import plain_torch
from ..results import Fit
from .counts_by_batch import CountsByBatch, product
from .estimation import Estimate
from .examples import Examples
from .expectation import Expectation, at_iteration
from .init import Initial
from .kept import Kept, log_prior_of_points
from .loop import Info
from .online import Online, OnlineState
from .shares import Data, same_data
from .state import Problem, State
from .statistics import BatchCounts, expect_batch

#: Mini-batches that the estimate of memory looks at.
SAMPLED = 32
OTHER_DATA = (
    "IncrementalEM remembers the mini-batches of the data that it began with, and these are others: make a new "
    "session for them, with init=pu.init.from_weights(fit) to start from what was learned"
)


class IncrementalEM(Online):
    """EM that updates the weights after every mini-batch, by replacing its expected counts in the sum of all:

        mu <- mu + s_i' - s_i,      s_i <- s_i'

    Each update raises a lower bound of the log-likelihood (plus the log prior), the negative free energy of Neal and
    Hinton: sum_i [s_i . log theta + entropy of the posterior behind s_i]. It is the objective, and never falls.

    Parameters that are not tables, such as the means and scales of an HMM of measurements, move with them: after every
    mini-batch, where all of them have a formula (:mod:`pyro_unsup.estimate.closed_forms`), or at the end of every pass,
    by L-BFGS (:mod:`.kept`).

    Nothing is forgotten, so the counts of every mini-batch are kept: :meth:`memory` says how much that is before any
    of it is needed, and a run that would take more than ``max_gib`` is refused. They are part of a saved fit.

    :param batch_size: examples in a mini-batch. Mini-batches stay the same; each pass takes them in another order.
    :param order_seed: orders the mini-batches; ``run(seed=...)`` makes the initial weights.
    :param from_zero: start with no counts but those of the initial weights, one a row, which are dropped after the
        first pass. That pass is then stepwise EM with power 1 (Liang & Klein 2009, 3.3). Otherwise all mini-batches are
        looked at under the initial weights first.
    :param max_gib: most memory for the counts of mini-batches.

        >>> import pyro_unsup as pu
        >>> data, model = [[0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]], pu.models.Tagger(tags=2, vocab=2)
        >>> fit = pu.IncrementalEM(model).run(data, iterations=5)
        >>> fit.objective <= fit.log_likelihood(data)  # a bound
        True

    In a loop of your own::

        >>> data, engine = [[0, 1], [0, 1, 1], [1, 0, 1]], pu.IncrementalEM(pu.models.Tagger(tags=2, vocab=2))
        >>> engine.memory(data) > 0  # bytes that the counts of all mini-batches will take
        True
        >>> state = engine.init(data)
        >>> state, info = engine.step(state)  # a pass; engine.visit(state, batch) is one mini-batch
        >>> before = engine.bound(state)
        >>> log_likelihood = engine.visit(state, batch=0)
        >>> before <= engine.bound(state) + 1e-9
        True
        >>> engine.add_up(state)

    **References:** [1] R. Neal and G. Hinton (1998) "A view of the EM algorithm that justifies incremental, sparse, and
    other variants".
    """

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        batch_size: int = 1,
        order_seed: int | None = 0,
        from_zero: bool = False,
        max_gib: float = 4.0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, estimate, init, batch_size, order_seed, dtype)
        self.from_zero, self.max_gib = from_zero, max_gib

    def begin(self, state: State) -> IncrementalState:
        """The state before anything was counted."""
        return self._with_counts(IncrementalState(**vars(state)))

    def memory(self, *args: Any, **kwargs: Any) -> int:
        """About how many bytes the counts of all mini-batches of these data will take."""
        return self._memory(self.start((args, kwargs), seed=0))

    def e_step(self, state: IncrementalState) -> tuple[Info, None]:
        """The bound of the current weights. At the start it is the log-likelihood."""
        if state.iteration == 0:
            self._count(state)
            if self.from_zero or state.unconstrained:
                state.problem.parameters.write(state.unconstrained)
                found = state.problem.marginal.log_marginal(state.tables, *state.problem.data)
            else:
                found = state.by_batch.bound(state.tables)
            with plain_torch():
                return Info(0, found + state.log_prior(), found, stage=0 if self.from_zero else None), None
        found, prior = self.bound(state), state.log_prior()
        return Info(state.iteration, found, found - prior, stage=1 if self.from_zero else None), None

    def m_step(self, state: IncrementalState, found: None = None) -> IncrementalState:
        """Visit every mini-batch once."""
        state = state.copy()
        if state.iteration == 0 and not self.from_zero:
            self.add_up(state)
        batches = self._batches(self.examples_of(state))
        for i in np.random.default_rng((self.order_of(state), state.iteration)).permutation(batches):
            self.visit(state, int(i))
        self.add_up(state)
        return replace(state, iteration=state.iteration + 1)

    def visit(self, state: IncrementalState, batch: int) -> float:
        """Replace the counts of one mini-batch. Returns its log-likelihood before the update."""
        found, fresh = self._look_at(state, batch)
        old = state.by_batch.parts(batch)
        with plain_torch():
            rest = found.log_marginal - self._keep(state, batch, found)
            state.by_batch.put(batch, rest, fresh, state.tables)
            change = {name: (at, new - old[name][1] if old else new) for name, (at, new) in fresh.items()}
            state.statistics.shift(change)
            if state.kept is not None and state.kept.by_formula:
                self._learn_parameters(state, found)
        return found.log_marginal

    def bound(self, state: IncrementalState) -> float:
        """The lower bound of the log-likelihood that every update raises, log priors included."""
        with plain_torch():
            counts = {name: (None, table.counts()) for name, table in state.statistics.tables.items()}
            tables = state.by_batch.rest() + product(counts, state.weights) + state.log_prior()
        return tables + self._expected_of_parameters(state)

    def add_up(self, state: IncrementalState) -> None:
        """Make the weights those of all counts that are kept, added up anew: rounding must not gather.

        Parameters that are not tables are learned from all that is kept, too.
        """
        if state.kept is not None:
            state.kept.drop_start()
            self._learn_parameters(state, self._under_parameters(state))
        with plain_torch():
            state.statistics.fill(state.by_batch.totals(state.problem.declarations, self.dtype))

    def loss(self, state: IncrementalState) -> float:
        """Minus the bound."""
        return -self.e_step(state)[0].objective

    def _count(self, state: IncrementalState) -> None:
        """Evaluate every mini-batch under the initial weights, if the result fits into memory."""
        if len(state.by_batch):
            return
        examples = self.examples_of(state)
        need, batches = self._memory(state), self._batches(examples)
        if need > self.max_gib * 2**30:
            raise FitError(
                f"the counts of {batches} mini-batches would take about {need / 2**30:.3g} GiB, more than "
                f"max_gib = {self.max_gib:g}: take larger mini-batches (batch_size), raise max_gib, or use StepwiseEM, "
                "which keeps none"
            )
        counted = CountsByBatch()
        for i in () if self.from_zero else range(batches):
            found, fresh = self._look_at(state, i)
            counted.put(i, found.log_marginal - self._keep(state, i, found), fresh, state.tables)
        state.by_batch = counted  # all of it or, after an interrupt, nothing

    def _take_data(self, state: IncrementalState) -> None:
        assert state.examples is not None
        if not state.by_batch.fits(self._batches(state.examples)):
            raise FitError(OTHER_DATA)

    def on(self, state: IncrementalState, data: Data) -> IncrementalState:
        if not same_data(state.problem.data, data):
            raise FitError(OTHER_DATA)
        return state

    def _look_at(self, state: IncrementalState, batch: int) -> tuple[Expectation, BatchCounts]:
        data, others = self._batch(self.examples_of(state), batch), bool(state.unconstrained)
        if others:
            state.problem.parameters.write(state.unconstrained)
        return expect_batch(state.problem.marginal, state.tables, data, {}, state.iteration, others)

    # -- parameters that are not tables

    def _check_parameters(self, problem: Problem) -> None:
        """All parameters are learned, by formula or by climbing."""

    def _begin_to_keep(self, state: IncrementalState) -> Expectation | None:
        """Find out, from an E step of all data, what has to be kept of mini-batches for parameters."""
        if not state.unconstrained or state.kept is not None:
            return None
        problem = state.problem
        problem.parameters.write(state.unconstrained)
        found, _ = expect_batch(problem.marginal, state.tables, *problem.data, state.iteration, others=True)
        state.kept = Kept.of(found, state.unconstrained)
        if self.from_zero:
            state.kept.put_start(found, self._mass)
        return found

    def _keep(self, state: IncrementalState, batch: int, found: Expectation) -> float:
        """Keep the posteriors of a mini-batch. Returns what of its log marginal depends on the parameters directly."""
        if not state.unconstrained:
            return 0.0
        self._begin_to_keep(state)
        assert state.kept is not None
        marginal = state.problem.marginal
        prior = log_prior_of_points(marginal)  # it counts once, not with every mini-batch
        return prior + state.kept.put(batch, found, marginal, *self._source(state)(batch))

    def _learn_parameters(self, state: IncrementalState, found: Expectation) -> None:
        """The M step of all parameters. In place."""
        assert state.kept is not None
        marginal, source = state.problem.marginal, self._source(state)
        with at_iteration(state.iteration, has_parameters=True):
            state.unconstrained = state.kept.new_values(
                found, marginal, source, state.unconstrained, self.lbfgs_iterations
            )

    def _expected_of_parameters(self, state: IncrementalState) -> float:
        """What parameters add to the bound, the log prior of latent variables included."""
        if state.kept is None:
            return 0.0
        marginal, found = state.problem.marginal, self._under_parameters(state)
        prior = log_prior_of_points(marginal)
        return prior + state.kept.expected(found, marginal, self._source(state))

    def _under_parameters(self, state: IncrementalState) -> Expectation:
        """The distributions that the parameters make now: an E step of the first mini-batch has them."""
        return self._look_at(state, 0)[0]

    def _source(self, state: IncrementalState) -> Any:
        """From the number of a mini-batch to the tables and its data."""
        return lambda batch: (state.tables, (self._batch(self.examples_of(state), batch), {}))

    def _batches(self, examples: Examples) -> int:
        return -(-examples.size // self.batch_size)

    def _batch(self, examples: Examples, number: int) -> tuple[Any, ...]:
        first = number * self.batch_size
        return examples.select(np.arange(first, min(first + self.batch_size, examples.size)))

    def _memory(self, state: IncrementalState) -> int:
        examples = self.examples_of(state)
        total = self._batches(examples)
        some = min(SAMPLED, total)
        found = [declared(self.model, *self._batch(examples, i * total // some)).values() for i in range(some)]
        counts = sum(CountsByBatch.size(d, self.dtype) for tables in found for d in tables) * total // some
        whole = self._begin_to_keep(state)
        return counts if whole is None or state.kept is None else counts + state.kept.size(whole, total)

    # -- what there is to know, and to keep

    def config(self, state: IncrementalState) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"batch_size": self.batch_size, "order_seed": self.order_of(state), "from_zero": self.from_zero}

    @property
    def _mass(self) -> float:
        return 1.0

    def load_state(self, state: IncrementalState, fit: Fit) -> IncrementalState:
        loaded: IncrementalState = self._with_counts(super().load_state(state, fit))
        loaded.by_batch = CountsByBatch()
        loaded.kept = Kept.from_tensors(fit.state) if "kept.order" in fit.state else None
        if "store.batches" in fit.state:
            loaded.by_batch.restore(fit.state, loaded.problem.declarations)
            if loaded.iteration > 0:
                loaded.statistics.restore(fit.state)
        return loaded


@dataclass
class IncrementalState(OnlineState):
    """Where incremental EM is.

    :param by_batch: the counts of every mini-batch. Within a pass they change in place.
    :param kept: what parameters that are not tables are learned from; None before anything was looked at.
    """

    by_batch: CountsByBatch = field(default_factory=CountsByBatch)
    kept: Kept | None = None

    def copy(self) -> Self:
        kept = None if self.kept is None else self.kept.copy()
        return replace(super().copy(), by_batch=self.by_batch.copy(), kept=kept)

    def own(self) -> dict[str, Tensor]:
        kept = {} if self.kept is None else self.kept.tensors()
        return {**super().own(), **self.by_batch.tensors(), **kept}
