"""What every engine shares: a model's tables and where they start, and whole runs with progress and checkpoints."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import config_enumerate
from torch import Tensor

from ..distributions import Structure
from ..errors import FitError
from ..estimate import Estimator, Normalise, Parametric
from ..handlers import DeclaredMessenger
from ..handlers.temper import weighs_structure
from ..kernels.threads import plain_torch
from ..results import Fit
from ..results.storage import may_write
from ..tables import Declaration
from .estimation import Estimate, Estimation
from .expectation import Expectation, Marginal, naming, plainly
from .init import Initial, noise
from .loop import Callback, Checkpoints, Info, iterate
from .outcome import State, outcome
from .points import Points
from .processes import any_of, failing_together, rank_and_size
from .restarts import best_of
from .shares import Share, Total, check_splits, glimpse, same_start, summed

#: Relative fall of the objective that rounding explains.
MAY_FALL = {torch.float64: 1e-9, torch.float32: 2e-5}


class Engine:
    """An algorithm that looks at the data under the current weights, moves the weights, and so on.

    :param model: a Pyro program with tables (:func:`pyro_unsup.table`).
    :param estimate: how counts become weights, one for all tables or by table name (others then :class:`.Normalise`).
    :param init: where to start, see :mod:`pyro_unsup.infer.init`.
    :param dtype: of the tables and all sums.
    :param lbfgs_iterations: L-BFGS iterations in each M step, for parameters that are not tables.
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
        self.estimate: Estimate = self._usual() if estimate is None else estimate
        self.init = init
        self.weights: dict[str, Tensor] = {}
        self.remembered: dict[str, Tensor] = {}
        self.declarations: dict[str, Declaration] = {}
        self.iteration = 0
        self.seed = 0
        self.unvisited: dict[str, int] = {}
        self._points = Points()
        self._marginal: Marginal | None = None
        self._params: list[str] = []
        self._data: tuple[Any, Any] = ((), {})
        self._found_share: Share | None = None
        self.chunk: int | None = None
        self.sharded = False
        self._exact = True
        self._by_kernel = False

    # -- what an algorithm says of itself

    @abstractmethod
    def look(self) -> Info:
        """Evaluate the current weights (the E step)."""

    @abstractmethod
    def move(self) -> None:
        """Update them (the M step)."""

    def settled(self, info: Info, tolerance: float) -> bool:
        """Whether nothing is left to be done."""
        return info.change <= tolerance

    def described(self) -> dict[str, Any]:
        """What a fit should tell of how it was trained, in plain values."""
        return {}

    def _usual(self) -> Estimator | Parametric:
        """The estimator of tables that none is given for."""
        return Normalise()

    def _posed(self) -> Callable[..., Any]:
        """The model as the algorithm asks it: with handlers of its own around it, if it has some."""
        return self.model

    def _settings(self) -> dict[str, Any]:
        """What it takes to make this engine again, untrained."""
        return {
            "model": self.model,
            "estimate": self.estimate,
            "init": self.init,
            "dtype": self.dtype,
            "lbfgs_iterations": self.lbfgs_iterations,
        }

    # -- tables

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        """Take these data; the first time, find the model's tables and make their initial weights."""
        self._data = (args, kwargs)
        share = self._share
        if self._marginal is not None:
            return
        posed = self._posed()
        (args, kwargs), examples = share.sample()
        with torch.random.fork_rng(devices=[]), DeclaredMessenger(self.dtype) as tables, self._points:
            torch.manual_seed(seed)  # parameters may start at random
            with plainly():
                trace = poutine.trace(config_enumerate(posed)).get_trace(*args, **kwargs)
        self.declarations = tables.found
        self._params = [name for name, site in trace.nodes.items() if site["type"] == "param"]
        if not (self.declarations or self._params or self._points.unconstrained):
            raise FitError("the model has nothing to learn: no tables, no pyro.param, no latent variables")
        if examples is not None:
            check_splits(self.model, trace, examples, [*self._params, *self._points.unconstrained])
            self.declarations = {name: replace(d, touched=None) for name, d in tables.found.items()}
        self.estimation = Estimation(self.estimate, self.declarations, self._usual)
        self._initialise(torch.Generator().manual_seed(seed))
        self._exact = all(getattr(site.get("fn"), "exact", True) for site in trace.nodes.values())
        self._by_kernel = all(
            isinstance(site["fn"], Structure)
            for site in trace.nodes.values()
            if site["type"] == "sample" and weighs_structure(site)
        )
        plates = (f.dim for site in trace.nodes.values() for f in site.get("cond_indep_stack", ()) if f.vectorized)
        self._marginal = Marginal(posed, self._points, self.dtype, max((-dim for dim in plates), default=0))

    def _initialise(self, generator: torch.Generator) -> None:
        """Initial weights, and what estimators remember to begin with."""
        if self.init is not None and self.declarations and self.estimation.ignores_initial():
            raise FitError(
                "init has no effect, for features begin with random weights: leave it out, or fit the weights to it "
                "(LogLinear(fit_start=True))"
            )
        init = noise(self.NOISE) if self.init is None else self.init
        found = init(self.declarations, generator)
        weights = {name: d.layout.check(name, found[name].to(self.dtype)) for name, d in self.declarations.items()}
        memory = self.estimation.begin(weights, generator)
        self.weights = {**weights, **self.estimation.tables(memory, self.dtype)}
        self.remembered = memory

    def _log_prior(self) -> float:
        return self.estimation.log_prior(self.weights, self.remembered)

    @property
    def _share(self) -> Share:
        """The data of this process."""
        if self._found_share is None or self._found_share.data is not self._data:
            if not self.ADDS_UP and (self.chunk is not None or rank_and_size()[1] > 1):
                raise FitError(
                    f"{type(self).__name__} does not add up what it finds in all examples, so that it can neither be "
                    "shared by processes nor take data in chunks: run it in one process, or use EM"
                )
            chunk, sharded = (self.chunk, self.sharded) if self.ADDS_UP else (None, True)
            self._found_share = Share.of(self.model, self._data, chunk, sharded)
        return self._found_share

    def _expect(self, weights: Mapping[str, Tensor]) -> Expectation:
        """The E step on all data, under some weights."""
        assert self._marginal is not None
        marginal, share = self._marginal, self._share
        # Where kernels do the sums, torch has but small things to do.
        with naming(self.iteration), plain_torch() if self._by_kernel else nullcontext():
            if share.whole:
                others = bool(self._params or self._points.unconstrained)
                return self._noted(marginal.expect(weights, *share.data, others=others))
            return Total(self.declarations, self.dtype).gather(
                self._noted(marginal.expect(weights, *data, whole=False, first=first)) for first, data in share
            )

    def _noted(self, part: Expectation) -> Expectation:
        """What an E step on a part of the data found, with what else an algorithm wants to know of it."""
        return part

    def _log_likelihood(self, weights: Mapping[str, Tensor], marginal: Marginal | None = None) -> float:
        """log p of all data, without counts."""
        found = self._marginal if marginal is None else marginal
        assert found is not None
        return summed(self._share, lambda data: found.log_marginal(weights, *data))

    def _checked(self, found: Expectation) -> Expectation:
        """What an E step found, unless the data are impossible or the counts are none."""
        if math.isnan(found.log_marginal):
            raise FitError(f"iteration {self.iteration}: the log marginal is NaN: {found.trouble}")
        if found.log_marginal == -math.inf:
            raise FitError(
                f"iteration {self.iteration}: {found.trouble}: smooth (AddLambda), or widen the support that forbids it"
            )
        with plain_torch():
            found.check(self.iteration)
        return found

    # -- a whole run

    def run(
        self,
        *args: Any,
        iterations: int | None = None,
        tolerance: float = 1e-6,
        restarts: int = 1,
        processes: int | None = None,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        score: Callable[[Fit], float | Mapping[str, float]] | None = None,
        progress: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        resume: Fit | None = None,
        chunk: int | None = None,
        sharded: bool = False,
        **kwargs: Any,
    ) -> Fit:
        """Train on these data until the objective's relative change is at most ``tolerance``.

        A second call goes on from where the first ended. An interrupt loses nothing: ``weights`` hold the last update.

        Under ``torch.distributed`` (``torchrun``, or :func:`pyro_unsup.launch`) all processes call this with the same
        data. Each looks at a share of them, the counts are added up, and every process has the same fit. Progress and
        checkpoints are those of the first process; restarts come one after the other.

        :param iterations: the most to make; by default enough for most runs (100 for EM).
        :param restarts: how many starts to try, with seeds ``seed``, ``seed + 1``, ...; the best objective wins, and
            the report tells the spread. Each runs on one thread, so results do not depend on ``processes``.
        :param processes: how many restarts at a time; by default as many as there are cores.
        :param callbacks: called with every :class:`.Info`; a true answer stops. With restarts, called in their process.
        :param score: called with the fit as it is at every iteration; what it returns (a number, or numbers by name)
            becomes columns of the history, for learning curves.
        :param progress: show a bar, where there is a terminal to show it on.
        :param checkpoint: a folder in which to keep the fit as it is so far, written every few seconds, when the run is
            interrupted, and at the end. With restarts, one folder each inside it.
        :param resume: a fit (or a loaded checkpoint) to go on from, up to ``iterations`` in all; the result is the one
            that an uninterrupted run would have given, bit for bit on one thread.
        :param chunk: tokens to look at, at a time, so that an E step takes memory for these and the tables, but time to
            cut them out (examples, where these do not tell how long they are). By default all, or about a million of a
            corpus on disk (:meth:`.Corpus.open`).
        :param sharded: whether each process is given data of its own, rather than all the same.
        """
        iterations = self.ITERATIONS if iterations is None else iterations
        if restarts < 1 or iterations < 0 or not tolerance >= 0:
            raise FitError(
                f"restarts must be at least 1, iterations and tolerance not negative, "
                f"actual {restarts}, {iterations}, {tolerance}"
            )
        if not 0 <= seed < 2**63 - restarts:
            raise FitError(f"a seed must lie in 0 .. 2**63 - 1 - restarts, actual {seed}")
        if checkpoint is not None and restarts == 1:
            may_write(checkpoint, overwrite=True)  # better now than at the first interrupt
        if restarts > 1 and resume is not None:
            raise FitError("restarts begin anew: resume one fit with restarts=1")
        rank, size = rank_and_size()
        self.chunk, self.sharded, self._found_share = chunk, sharded, None
        if restarts > 1:
            settings = {"iterations": iterations, "tolerance": tolerance, "callbacks": list(callbacks), "score": score}
            settings |= {"chunk": chunk, "sharded": sharded}
            fresh, many = type(self)(**self._settings()), processes if size == 1 else 1
            fit = best_of(fresh, restarts, many, seed, progress and not rank, checkpoint, settings, args, kwargs)
            self._adopt(fit, args, kwargs)
            return fit
        rows: list[Info] = []
        limit = iterations
        with failing_together():
            if resume is not None:
                self._adopt(resume, args, kwargs)
                # The last row belongs to weights that are looked at again now.
                rows = [Info.of(row) for row in resume.rows[:-1]]
                iterations -= self.iteration
                seed = resume.seed
            self.start(*args, seed=seed, **kwargs)
        self.seed = seed
        if size > 1:
            where = {"iteration": self.iteration, "seed": seed, "iterations": limit, "tolerance": tolerance}
            same = {"the number of examples": self._share.size, "the checksum of data": glimpse([args, kwargs])}
            examples = {} if sharded else same
            same_start({"engine": type(self).__name__, **where, **examples}, self.weights)

        def fit_of(rows: list[Info], reason: str, state: State) -> Fit:
            return outcome(self, rows, reason, state, seed=seed, iterations=limit, tolerance=tolerance)

        def snapshot(rows: list[Info]) -> Callable[[str], None]:
            state = self._state()
            return lambda reason: fit_of(rows, reason, state).save(checkpoint or "", overwrite=True)

        def scored(info: Info) -> None:
            assert score is not None
            found = score(fit_of([info], "running", self._state()))
            info.scores |= {**found} if isinstance(found, Mapping) else {"score": float(found)}

        told = [*([] if score is None else [scored]), *callbacks]
        if size > 1:  # what stops one stops all
            own = told
            told = [lambda info: any_of([one(info) for one in own])]
        keep = None if checkpoint is None or rank else Checkpoints(snapshot)
        fall = MAY_FALL[self._precision()] if self._exact else math.inf
        rows, reason = iterate(self, rows, iterations, tolerance, fall, told, progress and not rank, keep)
        return fit_of(rows, reason, self._state())

    def _state(self) -> State:
        store = pyro.get_param_store()
        return {
            "weights": dict(self.weights),
            "memory": dict(self.remembered),
            "features": self.estimation.names(),
            "points": self._points.values(),
            "params": {name: store[name].detach().clone() for name in self._params},
            "unconstrained": {name: x.detach().clone() for name, x in self._moving().items()},
        }

    def _moving(self) -> dict[str, Tensor]:
        """The leaves that an M step moves, by parameter or site."""
        store = pyro.get_param_store()
        return {**{name: store[name].unconstrained() for name in self._params}, **self._points.unconstrained}

    def _precision(self) -> torch.dtype:
        """The coarsest dtype in play: parameters of the user's own may be float32."""
        found = [p.dtype for p in self._moving().values()]
        return torch.float32 if torch.float32 in [*found, self.dtype] else torch.float64

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None:
        """Make a fit the current state, Pyro's parameter store included."""
        self.start(*args, **kwargs)
        for name, declaration in self.declarations.items():
            if name not in fit.weights:
                raise FitError(f"the fit to go on from has no table '{name}': it has {sorted(fit.weights)}")
            self.weights[name] = declaration.layout.check(name, fit.weights[name].to(self.dtype))
        self.remembered = self.estimation.adopted(self.remembered, fit.memory, fit.features)
        self.iteration, self.unvisited = int(fit.rows[-1]["iteration"]), dict(fit.report.unvisited)
        with torch.no_grad():
            for name, leaf in self._moving().items():
                if name not in fit.unconstrained:
                    raise FitError(
                        f"the fit to go on from has no parameter '{name}': it has {sorted(fit.unconstrained)}"
                    )
                leaf.copy_(fit.unconstrained[name])
