"""What all kinds of models in hmmlearn's signature have in common."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Chain
from ..distributions.markov import stationary
from ..distributions.series import ChainPosterior
from ..errors import UnsupError
from ..infer.runs import outcome
from ..infer.state import State
from ..models.hmm import HMM
from ..models.series import Series
from ..results import Fit, Reason
from .steps import LearnerEM, Seen, normalised


class ConvergenceMonitor:
    """How training went, and when it ends. A model takes one of your own at ``monitor_``, before ``fit``.

    :param tol: a gain in log-likelihood below this ends training.
    :param n_iter: most iterations.
    :param verbose: whether to print each to standard error.

    >>> from pyro_unsup import hmm
    >>> monitor = hmm.ConvergenceMonitor(tol=0.1, n_iter=10, verbose=False)
    >>> for log_likelihood in (-20.0, -12.0, -11.95):
    ...     monitor.report(log_likelihood)
    >>> list(monitor.history), monitor.iter, monitor.converged
    ([-20.0, -12.0, -11.95], 3, True)
    """

    def __init__(self, tol: float, n_iter: int, verbose: bool) -> None:
        self.tol, self.n_iter, self.verbose = tol, n_iter, verbose
        self.history: deque[float] = deque()
        self.iter = 0

    def reset(self) -> None:
        """Begin anew."""
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Take the log-likelihood that an iteration began with."""
        if self.verbose:
            gain = log_prob - self.history[-1] if self.history else np.nan
            print(f"{self.iter + 1:>10d} {log_prob:>16.8f} {gain:>+16.8f}", file=sys.stderr)
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether training has ended."""
        gained = len(self.history) < 2 or self.history[-1] - self.history[-2] >= self.tol
        return self.iter == self.n_iter or not gained


class Base(ABC):
    """What all kinds have in common.

    :param n_components: states.
    :param startprob_prior: concentration of a Dirichlet prior on starts, one for all or one a state; 1 for none.
    :param transmat_prior: the same of transitions, also one a cell.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param verbose: print the log-likelihood of every iteration.
    :param params: letters of the parameters that ``fit`` trains; others stay as they are.
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.
    """

    letters: ClassVar[Mapping[str, str]] = {"s": "startprob_", "t": "transmat_"}
    startprob_: Array
    transmat_: Array
    fit_: Fit
    n_features: int | None

    def __init__(
        self,
        n_components: int,
        startprob_prior: Any,
        transmat_prior: Any,
        algorithm: str,
        random_state: int | np.random.RandomState | None,
        n_iter: int,
        tol: float,
        verbose: bool,
        params: str,
        init_params: str,
        implementation: str,
    ) -> None:
        self.n_components, self.n_iter, self.tol = n_components, n_iter, tol
        self.startprob_prior, self.transmat_prior = startprob_prior, transmat_prior
        self.algorithm, self.implementation = algorithm, implementation
        self.random_state, self.verbose = random_state, verbose
        self.params, self.init_params = params, init_params
        for name, given in (("params", params), ("init_params", init_params)):
            if wrong := sorted({*given} - {*self.letters}):
                known = ", ".join(f"{letter} ({what})" for letter, what in self.letters.items())
                raise UnsupError(f"{name} has the letter {wrong[0]!r}, expected some of {known}")
        self.monitor_ = ConvergenceMonitor(tol, n_iter, verbose)

    # -- settings, as scikit-learn's tools ask for them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, so that ``sklearn.base.clone`` and grids of settings work.

        :param deep: there is nothing deeper here.
        """
        return {name: getattr(self, name) for name in self._settings()}

    def set_params(self, **params: Any) -> Any:
        """Change some settings."""
        for name, value in params.items():
            if name not in self._settings():
                raise UnsupError(f"{type(self).__name__} has no setting '{name}', expected one of {self._settings()}")
            setattr(self, name, value)
        return self

    @classmethod
    def _settings(cls) -> list[str]:
        makers: list[Any] = [vars(kind)["__init__"] for kind in cls.__mro__ if "__init__" in vars(kind)]
        named = [p for make in makers if make is not object.__init__ for p in signature(make).parameters.values()]
        return sorted({p.name for p in named if p.name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)})

    # -- training

    def fit(self, X: Any, lengths: Any = None) -> Any:
        """Estimate all parameters by EM.

        :param X: (N, D) observations, all series end to end.
        :param lengths: observations of each series.
        """
        series = self._series(X, lengths)
        values = series.values.reshape(len(series.values), -1).numpy()
        self.n_features = self._many(values)
        engine = LearnerEM(self, self._model(series), self._first_tables, values)
        state, rows, monitor = engine.init(series, seed=self._seed()), [], self.monitor_
        monitor.reset()
        self._take(state)
        for _ in range(self.n_iter):
            state, info = engine.step(state)
            self._take(state)
            rows.append(info)
            monitor.report(info.log_likelihood)
            if monitor.converged:
                break
        info, _ = engine.e_step(state)
        reason = Reason.CONVERGED if monitor.converged and monitor.iter < self.n_iter else Reason.ITERATION_CAP
        self.fit_ = outcome(engine, state, state.saved(), {}, [*rows, info], reason, self.n_iter, 0.0)
        return self

    def _take(self, state: State) -> None:
        """Take over what was learned, under hmmlearn's names."""
        weights = {name: w.exp().numpy() for name, w in state.weights.items()}
        self.startprob_, self.transmat_ = weights["start"], weights["transition"]
        params, _ = state.problem.parameters.constrained(state.unconstrained)
        self._learned({name: x.detach() for name, x in params.items()}, weights)

    def new_tables(self, counts: Mapping[str, Array]) -> dict[str, Array]:
        """Probabilities by table, from expected counts."""
        found = {}
        if "s" in self.params:
            found["start"] = normalised(counts["start"] + np.asarray(self.startprob_prior) - 1, self.startprob_)
        if "t" in self.params:
            found["transition"] = normalised(counts["transition"] + np.asarray(self.transmat_prior) - 1, self.transmat_)
        return found

    def new_parameters(self, seen: Seen) -> dict[str, Array]:
        """Parameters of the emission, by the names that the model has for them."""
        return {}

    def _many(self, values: Array) -> int:
        """How many features there are."""
        return int(values.shape[1])

    def _seed(self) -> int:
        """A whole number, whatever ``random_state`` is: numpy's old generators move on by it, as in scikit-learn."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return int(self.random_state or 0)

    def _first_tables(self, declarations: Any, generator: Any) -> dict[str, Tensor]:
        """Where tables start: at what was set, or evenly, as hmmlearn has it."""
        found = {}
        for name, declaration in declarations.items():
            attribute, letter = {"start": ("startprob_", "s"), "transition": ("transmat_", "t")}.get(
                name, ("emissionprob_", "e")
            )
            if hasattr(self, attribute) and letter not in self.init_params:
                found[name] = torch.as_tensor(getattr(self, attribute), dtype=torch.float64).log()
                continue
            shape = declaration.layout.shape
            noise = torch.rand(shape, generator=generator, dtype=torch.float64) if name == "emission" else 1.0
            rows = torch.ones(shape, dtype=torch.float64) * noise
            found[name] = (rows / rows.sum(-1, keepdim=True)).log()
        return found

    def _start(self, name: str, letter: str) -> Any:
        """What was set for a parameter, if training shall start there."""
        return getattr(self, name, None) if letter not in self.init_params else None

    @abstractmethod
    def _model(self, series: Series) -> HMM:
        """The model, for these data, and where its parameters start."""

    @abstractmethod
    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Array]) -> None:
        """Take over what was learned, under hmmlearn's names."""

    @abstractmethod
    def _emission(self) -> Any:
        """The emission that the attributes tell."""

    # -- what the parameters say

    def posterior(self, X: Any, lengths: Any = None) -> ChainPosterior:
        """Everything about the states: filtered and predicted probabilities, forecasts, residuals."""
        for name in self.letters.values():
            if not hasattr(self, name):
                raise UnsupError(f"this {type(self).__name__} has no {name}: call fit, or set it")
            rows = np.asarray(getattr(self, name), dtype=np.float64)
            if name in ("startprob_", "transmat_", "emissionprob_") and np.abs(rows.sum(-1) - 1).max() > 1e-6:
                raise UnsupError(f"rows of {name} must sum to 1, actual sums {rows.sum(-1).tolist()}")
        series = self._series(X, lengths)
        start = torch.as_tensor(self.startprob_, dtype=torch.float64).log()
        transition = torch.as_tensor(self.transmat_, dtype=torch.float64).log()
        emission, values = self._bound(series)
        return Chain(start, transition, emission, series.lengths, flat=True).posterior(values)

    def score(self, X: Any, lengths: Any = None) -> float:
        """log p(X)."""
        return float(self.posterior(X, lengths).log_partition.sum())

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, Array]:
        """log p(X), and the posterior probability of every state, (N, n_components)."""
        found = self.posterior(X, lengths)
        return float(found.log_partition.sum()), found.smoothed.numpy()

    def decode(self, X: Any, lengths: Any = None, algorithm: str | None = None) -> tuple[float, Array]:
        """The best states, (N,), and their log-probability.

        :param X: (N, D) observations, all series end to end.
        :param lengths: observations of each series.
        :param algorithm: ``viterbi`` for the best path, ``map`` for the best state of each observation.
        """
        found, algorithm = self.posterior(X, lengths), algorithm or self.algorithm
        if algorithm == "map":
            return float(found.smoothed.max(-1).values.sum()), found.mbr().numpy()
        if algorithm != "viterbi":
            raise UnsupError(f"algorithm must be 'viterbi' or 'map', actual {algorithm!r}")
        best = found.mode()
        return float(found.prior.score(found.value, best).sum()), best.numpy()

    def predict(self, X: Any, lengths: Any = None) -> Array:
        """The best states, (N,)."""
        return self.decode(X, lengths)[1]

    def predict_proba(self, X: Any, lengths: Any = None) -> Array:
        """The posterior probability of every state, (N, n_components)."""
        return self.score_samples(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: int | None = None, currstate: int | None = None
    ) -> tuple[Array, Array]:
        """Draw one series: observations, (n, D), and their states, (n,).

        :param n_samples: how long it is.
        :param random_state: a seed, instead of the model's own.
        :param currstate: the first state.
        """
        begin = self.startprob_ if currstate is None else np.eye(self.n_components)[currstate]
        start = torch.as_tensor(begin, dtype=torch.float64).log()
        transition = torch.as_tensor(self.transmat_, dtype=torch.float64).log()
        chain = Chain(start, transition, self._emission(), torch.tensor([n_samples]), flat=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed() if random_state is None else random_state)
            states = chain.draw_states()
            drawn = chain.density.draw(states, chain.rows, None) if chain.density else chain._draw_words(states)
        return drawn.reshape(n_samples, -1).numpy(), states.numpy()

    def get_stationary_distribution(self) -> Array:
        """Shares of the states in the long run, (n_components,)."""
        return stationary(torch.as_tensor(self.transmat_, dtype=torch.float64).log()).exp().numpy()

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike's information criterion."""
        return 2 * self._count() - 2 * self.score(X, lengths)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """The Bayesian information criterion."""
        return float(self._count() * np.log(len(np.asarray(X))) - 2 * self.score(X, lengths))

    def _count(self) -> int:
        """How many numbers the model has, whether they are trained or not."""
        K = self.n_components
        return K - 1 + K * (K - 1) + sum(self._scalars().values())

    @abstractmethod
    def _scalars(self) -> dict[str, int]:
        """By letter, how many numbers the emission has."""

    def _series(self, X: Any, lengths: Any) -> Series:
        values = np.asarray(X, dtype=np.float64)
        values = values.reshape(len(values), -1)
        return Series.of(values[:, 0] if self._numbers(values.shape[1]) else values, lengths)

    def _numbers(self, columns: int) -> bool:
        """Whether observations are numbers, not vectors."""
        return columns == 1

    def _bound(self, series: Series) -> tuple[Any, Tensor]:
        """The emission, and the observations as it takes them."""
        return self._emission(), series.values
