"""What every engine shares: settings, ``init`` and ``step`` from state to state, and whole runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..estimate import Estimator, Normalise, Parametric
from ..handlers import bare
from ..results import Fit
from .estimation import Estimate
from .init import HasParameters, Initial, noise
from .loop import Callback, Info, relative_change
from .processes import rank_and_size
from .runs import Monitor, Run, best_of, best_probed
from .session import Session
from .shares import Data, Share
from .state import MAY_FALL, Problem, State


class Engine:
    """An algorithm: settings, and functions from state to state. What it learns is in the :class:`.State`, not in it.

    :param model: a Pyro program with tables (:func:`pyro_unsup.table`).
    :param estimate: how counts become weights, one for all tables or by table name (others then :class:`.Normalise`).
    :param init: where to start, see :mod:`pyro_unsup.infer.init`.
    :param dtype: of the tables and all sums.
    :param lbfgs_iterations: in each M step, for parameters that are not tables.
    """

    #: How many iterations a run makes at most, if it is not told; and the scale of the noise that it starts from.
    ITERATIONS, NOISE = 100, 1.0
    #: Whether an iteration is a sum over examples, which several processes can share.
    ADDS_UP = True

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        dtype: torch.dtype = torch.float64,
        lbfgs_iterations: int = 20,
    ) -> None:
        if dtype not in MAY_FALL:
            raise FitError(f"dtype must be torch.float64 or torch.float32, actual {dtype}")
        self.model, self.dtype, self.lbfgs_iterations = model, dtype, lbfgs_iterations
        self.estimate: Estimate = self.default_estimator() if estimate is None else estimate
        self.initial = init

    # -- from state to state

    def init(self, *args: Any, seed: int = 0, **kwargs: Any) -> State:
        """The state before the first step on these data, the model's arguments."""
        state: State = self.start((args, kwargs), seed)
        return state

    @abstractmethod
    def e_step(self, state: Any) -> tuple[Info, Any]:
        """What the weights of a state are worth, and what the M step needs."""

    @abstractmethod
    def m_step(self, state: Any, found: Any) -> Any:
        """The next state, from what the E step found."""

    def step(self, state: Any) -> tuple[Any, Info]:
        """An E step and an M step: the next state, and what the weights were worth before."""
        info, found = self.e_step(state)
        return self.m_step(state, found), info

    def converged(self, state: Any, rows: Sequence[Info], tolerance: float) -> bool:
        """Whether nothing is left to be done at this stage.

        :param state: where the run is.
        :param rows: what the iterations found so far; in a loop of your own, the infos that ``step`` returned.
        :param tolerance: relative change of the objective that counts as none.
        """
        change = relative_change(rows[-1], rows[-2] if len(rows) > 1 else None)
        if change == 0 and state.problem.estimation.is_random():
            return False  # the last M step drew nothing better, and the next one may
        return change <= tolerance

    def has_next_stage(self, state: Any) -> bool:
        """Whether a stage comes after this one, such as a higher beta."""
        return False

    def next_stage(self, state: Any) -> Any:
        """The state at the beginning of the next stage."""
        raise FitError(f"{type(self).__name__} has one stage")

    # -- what an algorithm says of itself

    def config(self, state: Any) -> dict[str, Any]:
        """What a fit should tell of how it was trained, in plain values."""
        return {}

    def default_estimator(self) -> Estimator | Parametric:
        """The estimator of tables that none is given for."""
        return Normalise()

    def wrapped_model(self) -> Callable[..., Any]:
        """The model with handlers of the algorithm's own around it, if it has some."""
        return self.model

    def may_fall(self, state: Any) -> float:
        """Relative fall of the objective that is no error."""
        return state.problem.may_fall  # type: ignore[no-any-return]

    def begin(self, state: State) -> Any:
        """A state with what the algorithm itself keeps, to begin with."""
        return state

    def load_state(self, state: Any, fit: Fit) -> Any:
        """The state that a fit was saved in.

        :param state: the initial one, on the data to go on with.
        """
        return self._loaded(state, fit)

    def on(self, state: Any, data: Data) -> Any:
        """The same state with other data, such as the next mini-batch."""
        return replace(state, problem=state.problem.on(data))

    # -- batches, for a :class:`.Session`

    def batch_step(self, state: Any) -> tuple[Any, Info]:
        """One update from the data of a state, which are one batch of many."""
        return self.step(state)

    def loss(self, state: Any) -> float:
        """Minus the objective on the data of a state."""
        found: float = state.problem.log_likelihood(state.tables, state.unconstrained) + state.log_prior()
        return -found

    def updates(self, state: Any) -> int:
        """How often the weights have moved."""
        return int(state.iteration)

    # -- where it starts

    def start(self, data: Data, seed: int, chunk: int | None = None, sharded: bool = False, store: bool = False) -> Any:
        """The first state, see :meth:`init` and :meth:`run`."""
        share = self._share(data, chunk, sharded)
        how = (self.estimate, self.default_estimator, self.dtype)
        problem = Problem.of(self.model, self.wrapped_model(), share, *how, seed)
        if store:
            problem.parameters.start_from_store()
        given: object = self.initial
        if isinstance(given, HasParameters) and given.parameters is not None:
            problem.parameters.start_from(given.parameters, "the other fit")
        weights, memory = self._initial_weights(problem, torch.Generator().manual_seed(seed))
        return self.begin(State(problem, seed, {**weights}, memory, problem.parameters.read()))

    def _share(self, data: Data, chunk: int | None, sharded: bool) -> Share:
        if self.ADDS_UP:
            return Share.of(self.model, data, chunk, sharded)
        if chunk is not None or rank_and_size()[1] > 1:
            raise FitError(
                f"{type(self).__name__} cannot split its data over processes or chunks: run it in one process, or use "
                "EM"
            )
        return Share.of(self.model, data, None, True)

    def _initial_weights(
        self, problem: Problem, generator: torch.Generator
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Initial weights, and what estimators remember to begin with."""
        declarations, estimation = problem.declarations, problem.estimation
        if self.initial is not None and declarations and estimation.ignores_initial():
            raise FitError(
                "init has no effect, for features and networks begin with random weights: leave it out, or fit the "
                "weights to it (LogLinear(fit_start=True), Neural(fit_start=True))"
            )
        init = noise(self.NOISE) if self.initial is None else self.initial
        found = init(declarations, generator)
        weights = {name: d.layout.check(name, found[name].to(self.dtype)) for name, d in declarations.items()}
        memory = estimation.begin(weights, generator)
        return {**weights, **estimation.tables(memory, self.dtype)}, memory

    def _loaded(self, state: State, fit: Fit) -> State:
        """A state with the tables, memory and parameters of a fit."""
        problem, tables = state.problem, dict(state.tables)
        for name, declaration in problem.declarations.items():
            if name not in fit.weights:
                raise FitError(f"the fit to go on from has no table '{name}': it has {sorted(fit.weights)}")
            tables[name] = declaration.layout.check(name, fit.weights[name].to(self.dtype))
        memory = problem.estimation.loaded(state.memory, fit.memory, fit.features)
        problem.parameters.start_from(fit.unconstrained, "the fit to go on from")
        return replace(
            state,
            seed=fit.seed,
            tables=tables,
            memory=memory,
            unconstrained=problem.parameters.read(),
            iteration=int(fit.rows[-1]["iteration"]),
            stage=int(fit.rows[-1].get("stage", 0)),
            unvisited=dict(fit.report.unvisited),
        )

    # -- whole runs

    def session(self, seed: int = 0) -> Session:
        """The engine with a state, for loops in the manner of :class:`pyro.infer.SVI`: ``step(batch)``.

        >>> import pyro_unsup as pu
        >>> session = pu.EM(pu.models.Tagger(tags=2, vocab=2)).session(seed=1)
        >>> data = [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> session.step(data) > session.evaluate_loss(data)
        True
        """
        return Session(self, seed)

    def run(
        self,
        *args: Any,
        iterations: int | None = None,
        tolerance: float | None = None,
        restarts: int = 1,
        probe: int | None = None,
        processes: int | None = None,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        score: Callable[[Fit], float | Mapping[str, float]] | None = None,
        progress: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        resume: Fit | bool | None = None,
        chunk: int | None = None,
        sharded: bool = False,
        store: bool = False,
        monitor: Monitor | None = None,
        **kwargs: Any,
    ) -> Fit:
        """Train on these data until the objective's relative change is at most ``tolerance`` (1e-6; 1e-9 for series).

        Every call starts anew; ``resume`` goes on from an earlier fit. The engine is not changed, and neither is
        Pyro's parameter store (but see ``store``).

        Under ``torch.distributed`` (``torchrun``, or :func:`pyro_unsup.launch`) all processes call this with the same
        data. Each evaluates a share of them, the counts are added up, and every process has the same fit. Progress and
        checkpoints are those of the first process; restarts come one after the other.

        :param iterations: maximum number of iterations; by default enough for most runs (100 for EM).
        :param restarts: how many starts to try, with seeds ``seed``, ``seed + 1``, ...; the best objective wins, and
            the report tells the spread. Each runs on one thread, so results do not depend on ``processes``.
        :param probe: give each restart only so many iterations, and go on with the best of them. The report has the
            objectives of all restarts as they were then.
        :param processes: restarts to run in parallel; by default as many as there are cores.
        :param callbacks: called with every :class:`.Info`; a true answer stops. With restarts, called in their process.
        :param score: called with the fit as it is at every iteration; what it returns (a number, or numbers by name)
            becomes columns of the history, for learning curves.
        :param progress: show a bar, where there is a terminal to show it on.
        :param checkpoint: a folder in which to keep the fit as it is so far, written every few seconds, when the run is
            interrupted, and at the end. With restarts, one folder each inside it.
        :param resume: a fit (or a loaded checkpoint) to go on from, up to ``iterations`` in all; or True, to go on from
            what the checkpoint folder holds. The result is the one that an uninterrupted run would have given, bit for
            bit on one thread.
        :param chunk: tokens to evaluate at a time, so that an E step takes memory for these and the tables, but time to
            cut them out (examples, where these do not tell how long they are). By default all, or about a million of a
            corpus on disk (:meth:`.Corpus.open`).
        :param sharded: whether each process is given data of its own, rather than all the same.
        :param store: start the model's ``pyro.param`` sites from Pyro's global store where it has them, and write them
            there at the end (:meth:`.Fit.to_param_store`).
        :param monitor: hears of restarts, in their processes.
        """
        own = bare(self.model)  # which may know what suits it
        default = max(self.ITERATIONS, getattr(own, "iterations", 0))
        iterations = default if iterations is None else iterations
        tolerance = getattr(own, "tolerance", 1e-6) if tolerance is None else tolerance
        _check_whole("restarts", restarts)
        _check_whole("probe", 1 if probe is None else probe)
        if restarts < 1 or iterations < 0 or not tolerance >= 0:
            raise FitError(
                f"restarts must be at least 1, iterations and tolerance not negative, "
                f"actual {restarts}, {iterations}, {tolerance}"
            )
        if not 0 <= seed < 2**63 - restarts:
            raise FitError(f"a seed must lie in 0 .. 2**63 - 1 - restarts, actual {seed}")
        if probe is not None and (probe < 1 or restarts < 2):
            raise FitError(
                f"probe is how many iterations each restart gets, at least 1, of at least 2 restarts, actual {probe} "
                f"of {restarts}"
            )
        if restarts > 1 and isinstance(resume, Fit):
            raise FitError(
                "restarts begin anew: resume one fit with restarts=1, or all from a checkpoint (resume=True)"
            )
        if resume is True and checkpoint is None:
            raise FitError("resume=True goes on from the checkpoint folder: give checkpoint, or the fit itself")
        limits = (iterations, tolerance, list(callbacks), score, progress)
        run = Run(*limits, checkpoint, resume, chunk, sharded, store, monitor)
        data = (args, kwargs)
        if restarts == 1:
            fit = run(self, data, seed)
        elif probe is None or probe >= iterations:
            fit = best_of(self, run, data, seed, restarts, processes)
        else:
            fit = best_probed(self, run, data, seed, restarts, processes, probe)
        if store:
            fit.to_param_store(*args, **kwargs)
        return fit


def _check_whole(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise FitError(f"{name} should be a whole number, actual {number!r:.40}")
