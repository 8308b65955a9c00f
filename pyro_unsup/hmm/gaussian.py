"""States with normal emissions, in hmmlearn's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from ..array import Array
from ..errors import UnsupError
from ..models.hmm import HMM
from ..models.series import Series
from .base import Base
from .steps import Seen

KINDS = ("diag", "full", "spherical", "tied")


def check_covariance(kind: str) -> None:
    """Refuse a form of covariances that there is not."""
    if kind not in KINDS:
        raise UnsupError(f"covariance_type must be diag, full, spherical or tied, actual {kind!r}")


class GaussianHMM(Base):
    """States with normal emissions.

    :param n_components: states.
    :param covariance_type: ``diag``, ``full``, ``spherical`` or ``tied``.
    :param min_covar: added to the variances of the start.
    :param startprob_prior: concentration of a Dirichlet prior on starts; 1 for none.
    :param transmat_prior: the same of transitions.
    :param means_prior: the mean of a normal prior on means, (n_components, D) or one for all.
    :param means_weight: how many observations it counts for.
    :param covars_prior: added to sums of squares, as an inverse gamma or inverse Wishart prior does. It keeps states
        from shrinking onto one observation.
    :param covars_weight: how many observations it counts for.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param verbose: print the log-likelihood of every iteration.
    :param params: letters of the parameters that ``fit`` trains: s, t, m (means) and c (covariances).
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.

    >>> import numpy as np
    >>> from pyro_unsup import hmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (50, 1)), rng.normal(3, 1, (50, 1))])
    >>> model = hmm.GaussianHMM(n_components=2, n_iter=50, random_state=1).fit(X)
    >>> model.means_.round(1).tolist(), model.predict(X)[[0, -1]].tolist()
    ([[-2.9], [3.0]], [0, 1])
    """

    letters: ClassVar[Mapping[str, str]] = {**Base.letters, "m": "means_", "c": "covars_"}
    means_: Array

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: str = "diag",
        min_covar: float = 1e-3,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        means_prior: Any = 0,
        means_weight: Any = 0,
        covars_prior: Any = 0.01,
        covars_weight: float = 1,
        algorithm: str = "viterbi",
        random_state: int | np.random.RandomState | None = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
        implementation: str = "log",
    ) -> None:
        chain = (startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose)
        super().__init__(n_components, *chain, params, init_params, implementation)
        check_covariance(covariance_type)
        self.covariance_type, self.min_covar = covariance_type, min_covar
        self.means_prior, self.means_weight = means_prior, means_weight
        self.covars_prior, self.covars_weight = covars_prior, covars_weight

    @property
    def covars_(self) -> Array:  # (n_components, D, D)
        """Covariances as matrices, one a state. They are set in the form that ``covariance_type`` has: (n_components,)
        if spherical, (n_components, D) if diagonal, (D, D) if tied."""
        if not hasattr(self, "_covars"):
            raise AttributeError("covars_")
        return np.array(self._covars)

    @covars_.setter
    def covars_(self, covars: Any) -> None:
        given, K, kind = np.array(covars, dtype=np.float64), self.n_components, self.covariance_type
        if kind == "spherical" and given.shape == (K,):
            D = np.shape(self.means_)[1] if hasattr(self, "means_") else 1
            given = given[:, None, None] * np.eye(D)
        elif kind == "spherical" and given.ndim == 2 and given.shape[0] == K:
            given = given[:, :1, None] * np.eye(given.shape[1])
        elif kind == "diag" and given.ndim == 2 and given.shape[0] == K:
            given = given[:, :, None] * np.eye(given.shape[1])
        elif kind == "tied" and given.ndim == 2 and given.shape[0] == given.shape[1]:
            given = np.stack([given] * K)
        if given.ndim != 3 or given.shape[0] != K or given.shape[1] != given.shape[2]:
            forms = {"spherical": f"({K},)", "diag": f"({K}, D)", "tied": "(D, D)", "full": f"({K}, D, D)"}
            raise UnsupError(f"covars_ of covariance_type {kind!r} has shape {forms[kind]}, actual {np.shape(covars)}")
        if not np.allclose(given, given.swapaxes(-1, -2)) or (np.linalg.eigvalsh(given) <= 0).any():
            raise UnsupError("covars_ must be positive, and as matrices symmetric and positive definite")
        self._covars = given

    def _numbers(self, columns: int) -> bool:
        return False

    def _model(self, series: Series) -> HMM:
        D = series.values.shape[1]
        kind = {"diag": "diagonal"}.get(self.covariance_type, self.covariance_type)
        init: dict[str, Any] = {}
        if (means := self._start("means_", "m")) is not None:
            init["loc"] = means
        covars = self._start("covars_", "c")
        if covars is None:
            covars = np.stack([self._spread_of(series.values.numpy())] * self.n_components)
        elif self.covariance_type == "spherical" and covars.shape[1] != D:
            covars = covars[:, :1, :1] * np.eye(D)
        name, value = self._spread(covars)
        init[name] = value
        return HMM(self.n_components, "multivariate_normal", dim=D, covariance=kind, init=init)

    def _spread_of(self, values: Array) -> Array:  # (N, D) -> (D, D)
        """The covariance of all data."""
        whole, D = values[~np.isnan(values).any(-1)], values.shape[1]
        many = len(whole) > D
        found = np.cov(whole.T).reshape(D, D) if many else np.diag(np.nanvar(values, 0))
        return np.asarray(found + self.min_covar * np.eye(D))

    def _spread(self, covars: Array) -> tuple[str, Array]:  # (K, D, D)
        """Covariances as the model has them."""
        if self.covariance_type == "diag":
            return "scale", np.sqrt(np.diagonal(covars, axis1=-2, axis2=-1))
        if self.covariance_type == "spherical":
            return "scale", np.sqrt(np.diagonal(covars, axis1=-2, axis2=-1).mean(-1, keepdims=True))
        return "covariance", covars[:1] if self.covariance_type == "tied" else covars

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Array]) -> None:
        self.means_ = params["loc"].numpy()
        D = self.means_.shape[1]
        if "scale" in params:
            variances = np.broadcast_to(params["scale"].numpy() ** 2, (self.n_components, D))
            self._covars = variances[:, :, None] * np.eye(D)
        else:
            self._covars = np.broadcast_to(params["covariance"].numpy(), (self.n_components, D, D)).copy()

    # -- M steps

    def new_parameters(self, seen: Seen) -> dict[str, Array]:
        if self.covariance_type in ("diag", "spherical"):
            return self._by_coordinate(seen)
        n, first, second = self._moments(seen)
        means, found = self.means_, {}
        if "m" in self.params:
            above, below = self.means_weight * np.asarray(self.means_prior) + first, self.means_weight + n[:, None]
            found["loc"] = means = np.where(below > 0, above / np.where(below > 0, below, 1.0), means)
        if "c" in self.params:
            away = means - np.asarray(self.means_prior)
            cross = first[:, :, None] * means[:, None, :]
            scatter = second - cross - cross.swapaxes(1, 2) + n[:, None, None] * means[:, :, None] * means[:, None, :]
            scatter = scatter + self.means_weight * away[:, :, None] * away[:, None, :]
            weight = max(self.covars_weight - means.shape[1], 0)
            if self.covariance_type == "tied":
                found["covariance"] = ((self.covars_prior + scatter.sum(0)) / (weight + n.sum()))[None]
            else:
                below = (weight + n)[:, None, None]
                found["covariance"] = np.where(
                    below > 0, (self.covars_prior + scatter) / np.where(below > 0, below, 1.0), self._covars
                )
        return found

    def _by_coordinate(self, seen: Seen) -> dict[str, Array]:
        leaf = seen.leaf
        assert leaf is not None
        x, w = leaf.value.numpy(), leaf.weight.detach().numpy()  # (N, 1, D), (N, K, D)
        n, first, second = w.sum(0), (w * x).sum(0), (w * x**2).sum(0)
        means, found = self.means_, {}
        if "m" in self.params:
            above, below = self.means_weight * np.asarray(self.means_prior) + first, self.means_weight + n
            found["loc"] = means = np.where(below > 0, above / np.where(below > 0, below, 1.0), means)
        if "c" in self.params:
            away = means - np.asarray(self.means_prior)
            squares = self.means_weight * away**2 + second - 2 * means * first + means**2 * n
            variances = (self.covars_prior + squares) / np.maximum(max(self.covars_weight - 1, 0) + n, 1e-5)
            tied = self.covariance_type == "spherical"
            found["scale"] = np.sqrt(variances.mean(-1, keepdims=True) if tied else variances)
        return found

    def _moments(self, seen: Seen) -> tuple[Array, Array, Array]:  # (K,), (K, D), (K, D, D)
        """Weights, sums and sums of products. Missing coordinates count as expected, given the others."""
        post, values, means, covars = seen.post, seen.values, self.means_, self._covars
        K, D = means.shape
        first, second = np.zeros((K, D)), np.zeros((K, D, D))
        gaps = np.isnan(values)
        patterns, which = np.unique(gaps, axis=0, return_inverse=True)
        for i, gap in enumerate(patterns):
            rows = which.reshape(-1) == i
            w, x = post[rows], values[rows]
            if gap.all():
                continue  # nothing was seen, and nothing counts
            if not gap.any():
                first += w.T @ x
                second += np.einsum("nk,ni,nj->kij", w, x, x, optimize=True)
                continue
            for k in range(K):
                seen_, gone = np.ix_(~gap, ~gap), np.ix_(gap, ~gap)
                gain = np.linalg.solve(covars[k][seen_], covars[k][gone].T).T  # (gone, seen)
                whole = np.array(x)
                whole[:, gap] = means[k, gap] + (x[:, ~gap] - means[k, ~gap]) @ gain.T
                first[k] += w[:, k] @ whole
                second[k] += (w[:, k, None] * whole).T @ whole
                rest = covars[k][np.ix_(gap, gap)] - gain @ covars[k][gone].T
                second[k][np.ix_(gap, gap)] += w[:, k].sum() * rest
        return post.sum(0), first, second

    def _scalars(self) -> dict[str, int]:
        K, D = np.shape(self.means_)
        full = D * (D + 1) // 2
        return {"m": K * D, "c": {"diag": K * D, "full": K * full, "spherical": K, "tied": full}[self.covariance_type]}

    def _emission(self) -> Any:
        means = torch.as_tensor(self.means_, dtype=torch.float64)
        covars, D = self.covars_, means.shape[1]
        if self.covariance_type == "spherical" and covars.shape[1] != D:  # set before the means
            covars = covars[:, :1, :1] * np.eye(D)
        name, value = self._spread(covars)
        spread = torch.as_tensor(np.ascontiguousarray(value), dtype=torch.float64)
        if name == "scale":
            return dist.Normal(means, spread).to_event(1)
        return dist.MultivariateNormal(means, covariance_matrix=spread)
