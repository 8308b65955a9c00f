"""Expectation-maximisation for any Pyro model whose hidden structure is summed out or enumerated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from ..errors import FitError, TableError
from ..estimate import Additive
from ..kernels.threads import plain_torch
from .climb import climb
from .engine import Engine
from .expectation import Expectation, at_iteration
from .loop import Info
from .state import Problem, State, checked


class EM(Engine):
    """Batch EM: ``run(corpus)`` returns a fit, and ``step`` goes from one state to the next.

    The model is a Pyro program. Its tables (:func:`pyro_unsup.table`) are re-estimated from expected counts, in
    closed form or, with features (:class:`.LogLinear`), by L-BFGS. So are its ``pyro.param`` sites and its continuous
    latent variables (at their posterior mode): in closed form where their family has one
    (:mod:`pyro_unsup.estimate.closed_forms`), by L-BFGS on the expected complete log-likelihood where it has not.
    Discrete latent variables are enumerated without being asked to.

    :param estimate: how counts become weights, one for all tables or by table name (others then :class:`.Normalise`).
    :param init: where to start, see :mod:`pyro_unsup.infer.init`.
    :param dtype: of the tables and all sums.
    :param lbfgs_iterations: in each M step, for parameters that are not tables.

    The objective is the log-likelihood plus the estimators' log priors, and never falls; what looks like a fall beyond
    rounding is an error, as are NaN and rows without counts. (A structure whose E step is a heuristic may fall.)

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run(sentences, iterations=20)
        >>> fit.predict([[0, 1, 1]]).shape
        torch.Size([3])

    In a loop of your own::

        >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
        >>> state = engine.init(sentences, seed=1)
        >>> for _ in range(3):
        ...     state, info = engine.step(state)
        >>> state.iteration, info.iteration
        (3, 2)

    A step is an E step and an M step::

        >>> info, expected = engine.e_step(state)
        >>> round(float(expected.counts["start"].sum()))  # one a sentence
        3
        >>> state = engine.m_step(state, expected)
        >>> engine.converged(state, [info], tolerance=1e-6), engine.has_next_stage(state), engine.config(state)
        (False, False, {})

    What sessions and runs build on, and engines of your own may say otherwise::

        >>> state = engine.load_state(engine.start(((sentences,), {}), seed=0), fit)  # where the run ended
        >>> fresh = engine.on(state, (([[1, 1], [0, 1]],), {}))  # the same weights, other data
        >>> state, info = engine.batch_step(fresh)
        >>> engine.loss(state) < engine.loss(fresh), engine.updates(state), engine.may_fall(state)
        (True, 21, 1e-09)
        >>> engine.default_estimator(), engine.wrapped_model()
        (Normalise(), Tagger(tags=2, vocab=2, order=1))
    """

    def e_step(self, state: State) -> tuple[Info, Expectation]:
        """Expected counts of every table, and what the weights are worth."""
        problem = state.problem
        found = problem.expect(state.tables, state.unconstrained, state.iteration)
        with plain_torch():
            checked(found, state.iteration)
            return Info(state.iteration, found.log_marginal + state.log_prior(), found.log_marginal), found

    def m_step(self, state: State, found: Expectation) -> State:
        """New weights from expected counts, and new parameters from the expected complete log-likelihood."""
        problem, iteration = state.problem, state.iteration
        with plain_torch():
            weights, memory, unvisited = estimated(problem, found, state.weights, state.memory, iteration)
        unconstrained = state.unconstrained
        if found.factors or found.plan is not None:
            with at_iteration(iteration, has_parameters=True):
                unconstrained = self._climbed(state, found)
        return replace(
            state,
            tables={**weights},
            memory=memory,
            unconstrained=unconstrained,
            iteration=iteration + 1,
            unvisited={**state.unvisited, **unvisited},
        )

    def _climbed(self, state: State, found: Expectation) -> dict[str, Tensor]:
        """Parameters that are not tables: by formula, or by climbing the expected complete log-likelihood."""
        problem = state.problem
        with plain_torch():
            known = problem.marginal.closed_form(found)
        if known.keys() == state.unconstrained.keys():
            return known
        problem.parameters.write({**state.unconstrained, **known})
        others = {name: leaf for name, leaf in problem.parameters.leaves.items() if name not in known}
        if leaves := [leaf for leaf in others.values() if leaf.requires_grad]:
            climb(
                leaves,
                lambda: problem.marginal.expected_complete(state.tables, found.factors, *problem.data),
                self.lbfgs_iterations,
            )
        return problem.parameters.read()


def estimated(
    problem: Problem, found: Expectation, old: dict[str, Tensor], memory: dict[str, Tensor], iteration: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, int]]:
    """New weights of every table, what estimators remember, and by table the rows without counts."""
    estimation, new, unvisited = problem.estimation, {}, {}
    for name, declaration in problem.declarations.items():
        empty = 0 if name in found.full else declaration.layout.empty_rows(found.counts[name])
        if empty == declaration.layout.rows.numel() and not _needs_no_counts(problem, name):
            raise FitError(
                f"iteration {iteration}: table '{name}' got no counts at all: does the model use it? If the "
                "data cannot reach it (sentences of one word, say), add pseudo-counts (AddLambda)"
            )
        if name in estimation.plain:
            unvisited[name] = empty
    try:
        for name, how in estimation.plain.items():
            new[name] = how.weights(problem.declarations[name], found.counts[name], old[name])
        memory = estimation.update(found.counts, memory)
    except TableError as error:
        raise FitError(f"iteration {iteration}: {error}") from None
    new |= estimation.tables(memory, problem.dtype)
    return {name: new[name] for name in problem.declarations}, memory, unvisited


def _needs_no_counts(problem: Problem, name: str) -> bool:
    """Whether a prior tells what a table is that no data reach (that of attachment in one-word sentences, say)."""
    how: Any = problem.estimation.plain.get(name)
    if not isinstance(how, Additive):
        return how is None
    return bool((how.pseudo_counts(problem.declarations[name]) > 0).any())
