"""States that emit counts or categories, in hmmlearn's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from ..array import Array
from ..errors import StructureError
from ..models.hmm import HMM, categories
from ..models.series import Series
from .base import Base
from .steps import Seen, normalised


class PoissonHMM(Base):
    """States that emit counts.

    :param n_components: states.
    :param startprob_prior: concentration of a Dirichlet prior on starts; 1 for none.
    :param transmat_prior: the same of transitions.
    :param lambdas_prior: of a gamma prior on rates: what it adds to counts.
    :param lambdas_weight: how many observations it counts for.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param verbose: print the log-likelihood of every iteration.
    :param params: letters of the parameters that ``fit`` trains: s, t and l (rates).
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.

    >>> from pyro_unsup import hmm
    >>> model = hmm.PoissonHMM(n_components=2, n_iter=50, random_state=0).fit([[1], [2], [1], [30], [28], [31]])
    >>> model.lambdas_.round(1).tolist()
    [[1.3], [29.7]]
    """

    letters: ClassVar[Mapping[str, str]] = {**Base.letters, "l": "lambdas_"}
    lambdas_: Array

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        lambdas_prior: Any = 0.0,
        lambdas_weight: Any = 0.0,
        algorithm: str = "viterbi",
        random_state: int | np.random.RandomState | None = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stl",
        init_params: str = "stl",
        implementation: str = "log",
    ) -> None:
        chain = (startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose)
        super().__init__(n_components, *chain, params, init_params, implementation)
        self.lambdas_prior, self.lambdas_weight = lambdas_prior, lambdas_weight

    def _model(self, series: Series) -> HMM:
        dim = series.values.shape[1] if series.values.dim() == 2 else None
        rates = self._start("lambdas_", "l")
        init: Any = "kmeans"
        if rates is not None:
            init = {"rate": np.asarray(rates).reshape(-1) if dim is None else np.asarray(rates)}
        return HMM(self.n_components, "poisson", dim=dim, init=init)

    def new_parameters(self, seen: Seen) -> dict[str, Array]:
        leaf = seen.leaf
        assert leaf is not None
        if "l" not in self.params:
            return {}
        x, w = leaf.value.numpy(), leaf.weight.detach().numpy()
        n, total = w.sum(0), (w * x).sum(0)  # (K,) or (K, D)
        mean = np.where(n > 0, total / np.where(n > 0, n, 1.0), self.lambdas_.reshape(n.shape))
        every = n.sum(0)  # as hmmlearn has it: the weight of all states stands against that of the prior
        prior, weight = np.asarray(self.lambdas_prior), np.asarray(self.lambdas_weight)
        if n.ndim == 1:
            prior, weight = (x[:, 0] if x.ndim == 2 else x for x in (prior, weight))
        return {"rate": (prior + every * mean) / (weight + every)}

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Array]) -> None:
        self.lambdas_ = params["rate"].numpy().reshape(self.n_components, -1)

    def _scalars(self) -> dict[str, int]:
        return {"l": np.asarray(self.lambdas_).size}

    def _emission(self) -> Any:
        rates = torch.as_tensor(np.asarray(self.lambdas_), dtype=torch.float64)
        return dist.Poisson(rates[:, 0]) if rates.shape[1] == 1 else dist.Poisson(rates).to_event(1)


class CategoricalHMM(Base):
    """States that emit one of some categories, numbered from 0.

    :param n_components: states.
    :param startprob_prior: concentration of a Dirichlet prior on starts; 1 for none.
    :param transmat_prior: the same of transitions.
    :param emissionprob_prior: the same of emissions.
    :param n_features: how many categories; the largest number in the data and one more, if it is not given.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param verbose: print the log-likelihood of every iteration.
    :param params: letters of the parameters that ``fit`` trains: s, t and e (emissions).
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.

    >>> import numpy as np
    >>> from pyro_unsup import hmm
    >>> model = hmm.CategoricalHMM(n_components=2)
    >>> model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]])
    >>> model.emissionprob_ = np.array([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
    >>> log_p, states = model.decode([[0], [1], [2]])
    >>> round(float(np.exp(log_p)), 5), states.tolist()
    (0.01344, [1, 0, 0])
    """

    letters: ClassVar[Mapping[str, str]] = {**Base.letters, "e": "emissionprob_"}
    emissionprob_: Array

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        *,
        emissionprob_prior: Any = 1.0,
        n_features: int | None = None,
        algorithm: str = "viterbi",
        random_state: int | np.random.RandomState | None = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: str = "log",
    ) -> None:
        chain = (startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose)
        super().__init__(n_components, *chain, params, init_params, implementation)
        self.emissionprob_prior, self.n_features = emissionprob_prior, n_features

    def _model(self, series: Series) -> HMM:
        if series.values.dim() != 1:
            raise StructureError(f"categories are one column, actual shape {tuple(series.values.shape)}")
        return HMM(self.n_components, "categorical", categories=self.n_features)

    def _many(self, values: Array) -> int:
        known = np.asarray(self.emissionprob_).shape[1] if hasattr(self, "emissionprob_") else 1
        return self.n_features or max(int(np.nanmax(values)) + 1, known)

    def new_tables(self, counts: Mapping[str, Array]) -> dict[str, Array]:
        found = super().new_tables(counts)
        if "e" in self.params:
            rows = counts["emission"] + np.asarray(self.emissionprob_prior) - 1
            found["emission"] = normalised(rows, np.where(rows > 0, 1.0, self.emissionprob_))
        return found

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Array]) -> None:
        self.emissionprob_ = weights["emission"]

    def _scalars(self) -> dict[str, int]:
        K, V = np.shape(self.emissionprob_)
        return {"e": K * (V - 1)}

    def _emission(self) -> Any:
        return torch.as_tensor(np.asarray(self.emissionprob_), dtype=torch.float64).log()

    def _bound(self, series: Series) -> tuple[Any, Tensor]:
        return categories(self._emission(), series.values)
