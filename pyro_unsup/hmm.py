"""Hidden Markov models in hmmlearn's signature: replace ``from hmmlearn import hmm`` by ``from pyro_unsup import hmm``.

Classes, arguments, attributes and methods have hmmlearn's names and meanings. Emissions have no priors here (hmmlearn
adds a small one to covariances), and all parameters are trained. Missing values (NaN) may be in the data.
Behind them are :class:`pyro_unsup.models.HMM` and :class:`pyro_unsup.EM`; ``fit_`` is the :class:`pyro_unsup.Fit`, with
forecasts, filtered probabilities and plots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from .array import Array
from .distributions import Chain
from .distributions.markov import stationary
from .distributions.series import ChainPosterior
from .errors import StructureError, UnsupError
from .estimate import AddLambda
from .infer import EM, Info
from .models.hmm import HMM, as_categories
from .models.series import Series
from .results import Fit

__all__ = ["CategoricalHMM", "GaussianHMM", "PoissonHMM"]


class _Monitor:
    """How training went: ``history`` of log-likelihoods, ``iter`` iterations, and whether it ``converged``."""

    def __init__(self) -> None:
        self.history: list[float] = []
        self.iter, self.converged = 0, False


class _Base(ABC):
    """What all kinds have in common.

    :param n_components: states.
    :param startprob_prior: concentration of a Dirichlet prior on starts; 1 for none.
    :param transmat_prior: the same of transitions.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param verbose: print the log-likelihood of every iteration.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.
    """

    letters: ClassVar[Mapping[str, str]] = {"s": "startprob_", "t": "transmat_"}

    def __init__(
        self,
        n_components: int = 1,
        *,
        startprob_prior: float = 1.0,
        transmat_prior: float = 1.0,
        algorithm: str = "viterbi",
        n_iter: int = 10,
        tol: float = 1e-2,
        random_state: int | np.random.RandomState | None = None,
        init_params: str | None = None,
        verbose: bool = False,
        implementation: str = "log",
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UnsupError(
                f"{type(self).__name__} does not take {', '.join(unknown)}: all parameters are trained, and emissions "
                "have no priors here. pyro_unsup.models.HMM(prior={...}) has priors"
            )
        self.n_components, self.n_iter, self.tol = n_components, n_iter, tol
        self.startprob_prior, self.transmat_prior = startprob_prior, transmat_prior
        self.algorithm, self.implementation = algorithm, implementation
        self.random_state, self.verbose = random_state, verbose
        self.init_params = "".join(self.letters) if init_params is None else init_params
        self.monitor_ = _Monitor()

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
        monitor = self.monitor_ = _Monitor()

        def stops(info: Info) -> bool:  # by an absolute gain, as hmmlearn does
            monitor.history.append(info.log_likelihood)
            if self.verbose:
                print(f"{info.iteration:10d} {info.log_likelihood:16.8f}")
            gain = monitor.history[-1] - monitor.history[-2] if len(monitor.history) > 1 else np.inf
            monitor.converged = gain < self.tol
            return monitor.converged

        priors = {"start": self.startprob_prior, "transition": self.transmat_prior}
        estimate = {name: AddLambda(alpha - 1) for name, alpha in priors.items() if alpha != 1}
        engine = EM(self._model(series), estimate or None, self._tables)
        options: Any = {"iterations": self.n_iter, "tolerance": 0.0, "callbacks": [stops], "progress": False}
        self.fit_: Fit = engine.run(series, seed=self._seed(), **options)
        monitor.iter = len(monitor.history) - 1
        self.startprob_ = self.fit_.weights["start"].exp().numpy()
        self.transmat_ = self.fit_.weights["transition"].exp().numpy()
        self._learned(self.fit_.params, self.fit_.weights)
        return self

    def _seed(self) -> int:
        """A whole number, whatever ``random_state`` is: numpy's old generators move on by it, as in scikit-learn."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return int(self.random_state or 0)

    def _tables(self, declarations: Any, generator: Any) -> dict[str, Tensor]:
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
    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
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
        chain = Chain(start, transition, self._emission(), series.lengths, flat=True)
        return chain.posterior(self._values(series))

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

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> tuple[Array, Array]:
        """Draw one series: observations, (n, D), and their states, (n,)."""
        start = torch.as_tensor(self.startprob_, dtype=torch.float64).log()
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
        columns = self._columns()
        shape = (self.n_components + 1, columns)
        zeros = np.zeros(shape)
        return self._model(Series.of(zeros[:, 0] if self._numbers(columns) else zeros)).free_parameters()

    def _columns(self) -> int:
        """How many coordinates an observation has."""
        return 1

    def _series(self, X: Any, lengths: Any) -> Series:
        values = np.asarray(X, dtype=np.float64)
        values = values.reshape(len(values), -1)
        return Series.of(values[:, 0] if self._numbers(values.shape[1]) else values, lengths)

    def _numbers(self, columns: int) -> bool:
        """Whether observations are numbers, not vectors."""
        return columns == 1

    def _values(self, series: Series) -> Tensor:
        return series.values


class GaussianHMM(_Base):
    """States with normal emissions.

    :param covariance_type: ``diag``, ``full``, ``spherical`` or ``tied``.
    :param min_covar: the least variance.

    >>> import numpy as np
    >>> from pyro_unsup import hmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (50, 1)), rng.normal(3, 1, (50, 1))])
    >>> model = hmm.GaussianHMM(n_components=2, n_iter=50, random_state=1).fit(X)
    >>> model.means_.round(1).tolist(), model.predict(X)[[0, -1]].tolist()
    ([[-2.9], [3.0]], [0, 1])
    """

    letters: ClassVar[Mapping[str, str]] = {**_Base.letters, "m": "means_", "c": "covars_"}

    def __init__(
        self, n_components: int = 1, covariance_type: str = "diag", *, min_covar: float = 1e-3, **options: Any
    ) -> None:
        super().__init__(n_components, **options)
        if covariance_type not in ("diag", "full", "spherical", "tied"):
            raise UnsupError(f"covariance_type must be diag, full, spherical or tied, actual {covariance_type!r}")
        self.covariance_type, self.min_covar = covariance_type, min_covar

    def _numbers(self, columns: int) -> bool:
        return False

    def _columns(self) -> int:
        return int(np.asarray(self.means_).shape[1])

    def _model(self, series: Series) -> HMM:
        D = series.values.shape[1]
        kind = {"diag": "diagonal"}.get(self.covariance_type, self.covariance_type)
        init: dict[str, Any] = {}
        if (means := self._start("means_", "m")) is not None:
            init["loc"] = means
        if (covars := self._start("covars_", "c")) is not None:
            name, value = self._spread(np.asarray(covars))
            init[name] = value
        floor = self.min_covar**0.5 if kind in ("diagonal", "spherical") else 0.0
        return HMM(self.n_components, "multivariate_normal", dim=D, covariance=kind, floor=floor, init=init or "kmeans")

    def _spread(self, covars: Array) -> tuple[str, Array]:
        if self.covariance_type == "diag":
            # hmmlearn shows diagonal covariances as matrices, and takes them as vectors.
            return "scale", np.sqrt(np.diagonal(covars, axis1=-2, axis2=-1) if covars.ndim == 3 else covars)
        if self.covariance_type == "spherical":
            return "scale", np.sqrt(covars[:, 0, :1] if covars.ndim == 3 else covars.reshape(self.n_components, 1))
        return "covariance", covars.reshape(-1, *covars.shape[-2:])

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        self.means_ = params["loc"].numpy()
        if self.covariance_type == "diag":
            self.covars_ = np.stack([np.diag(row) for row in params["scale"].numpy() ** 2])
        elif self.covariance_type == "spherical":
            self.covars_ = np.stack([s**2 * np.eye(self.means_.shape[1]) for s in params["scale"].numpy()[:, 0]])
        else:
            self.covars_ = params["covariance"].numpy().squeeze(0 if self.covariance_type == "tied" else ())

    def _emission(self) -> Any:
        means = torch.as_tensor(self.means_, dtype=torch.float64)
        name, value = self._spread(np.asarray(self.covars_, dtype=np.float64))
        spread = torch.as_tensor(np.ascontiguousarray(value), dtype=torch.float64)
        if name == "scale":
            return dist.Normal(means, spread).to_event(1)
        return dist.MultivariateNormal(means, covariance_matrix=spread)


class PoissonHMM(_Base):
    """States that emit counts.

    >>> from pyro_unsup import hmm
    >>> model = hmm.PoissonHMM(n_components=2, n_iter=50, random_state=0).fit([[1], [2], [1], [30], [28], [31]])
    >>> model.lambdas_.round(1).tolist()
    [[1.3], [29.7]]
    """

    letters: ClassVar[Mapping[str, str]] = {**_Base.letters, "l": "lambdas_"}

    def _model(self, series: Series) -> HMM:
        dim = series.values.shape[1] if series.values.dim() == 2 else None
        rates = self._start("lambdas_", "l")
        init: Any = "kmeans"
        if rates is not None:
            init = {"rate": np.asarray(rates).squeeze(-1) if dim is None else np.asarray(rates)}
        return HMM(self.n_components, "poisson", dim=dim, init=init)

    def _columns(self) -> int:
        return int(np.asarray(self.lambdas_).shape[1])

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        self.lambdas_ = params["rate"].numpy().reshape(self.n_components, -1)

    def _emission(self) -> Any:
        rates = torch.as_tensor(np.asarray(self.lambdas_), dtype=torch.float64)
        return dist.Poisson(rates[:, 0]) if rates.shape[1] == 1 else dist.Poisson(rates).to_event(1)


class CategoricalHMM(_Base):
    """States that emit one of some categories, numbered from 0.

    :param n_features: how many categories; the largest number in the data and one more, if it is not given.

    >>> import numpy as np
    >>> from pyro_unsup import hmm
    >>> model = hmm.CategoricalHMM(n_components=2)
    >>> model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]])
    >>> model.emissionprob_ = np.array([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
    >>> log_p, states = model.decode([[0], [1], [2]])
    >>> round(float(np.exp(log_p)), 5), states.tolist()
    (0.01344, [1, 0, 0])
    """

    letters: ClassVar[Mapping[str, str]] = {**_Base.letters, "e": "emissionprob_"}

    def __init__(self, n_components: int = 1, *, n_features: int | None = None, **options: Any) -> None:
        super().__init__(n_components, **options)
        self.n_features = n_features

    def _model(self, series: Series) -> HMM:
        if series.values.dim() != 1:
            raise StructureError(f"categories are one column, actual shape {tuple(series.values.shape)}")
        many = self.n_features or max(int(series.values.max()) + 1, self._known())
        return HMM(self.n_components, "categorical", categories=many)

    def _known(self) -> int:
        return np.asarray(self.emissionprob_).shape[1] if hasattr(self, "emissionprob_") else 1

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        self.emissionprob_ = weights["emission"].exp().numpy()

    def _emission(self) -> Any:
        return torch.as_tensor(np.asarray(self.emissionprob_), dtype=torch.float64).log()

    def _values(self, series: Series) -> Tensor:
        return as_categories(series.values)
