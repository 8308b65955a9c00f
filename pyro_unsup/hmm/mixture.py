"""States that emit mixtures of normal distributions, in hmmlearn's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor

from ..array import Array
from ..models.emissions import groups
from ..models.hmm import HMM
from ..models.series import Series
from .base import Base
from .gaussian import check_covariance
from .steps import Seen


class GMMHMM(Base):
    """States that emit mixtures of normal distributions.

    :param n_components: states.
    :param n_mix: normal distributions of each state.
    :param min_covar: added to the variances of the start.
    :param startprob_prior: concentration of a Dirichlet prior on starts; 1 for none.
    :param transmat_prior: the same of transitions.
    :param weights_prior: the same of the shares of the mixture.
    :param means_prior: the mean of a normal prior on means.
    :param means_weight: how many observations it counts for.
    :param covars_prior: of an inverse gamma prior (its shape) or an inverse Wishart prior (its matrix); None for none.
    :param covars_weight: its scale, or its degrees of freedom; None for none.
    :param algorithm: of :meth:`decode`, ``viterbi`` or ``map``.
    :param covariance_type: ``diag``, ``full``, ``spherical``, or ``tied``: one covariance for all of a state's
        distributions.
    :param random_state: seed of the start, or a generator of numpy's to take one from.
    :param n_iter: most iterations.
    :param tol: a gain in log-likelihood below this ends training.
    :param verbose: print the log-likelihood of every iteration.
    :param params: letters of the parameters that ``fit`` trains: s, t, m (means), c (covariances) and w (shares).
    :param init_params: letters of the parameters that ``fit`` chooses a start for; others start at what was set.
    :param implementation: ``log`` or ``scaling`` of hmmlearn; it makes no difference here.

    >>> import numpy as np
    >>> from pyro_unsup import hmm
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal((-4, -2), 0.3, (60, 2)).reshape(-1, 1), rng.normal(3, 1, (60, 1))])
    >>> model = hmm.GMMHMM(n_components=2, n_mix=2, n_iter=50, random_state=0).fit(X)
    >>> model.means_.shape, model.weights_.shape, model.predict(X)[[0, -1]].tolist()
    ((2, 2, 1), (2, 2), [0, 1])
    """

    letters: ClassVar[Mapping[str, str]] = {**Base.letters, "m": "means_", "c": "covars_", "w": "weights_"}
    means_: Array  # (n_components, n_mix, D)
    covars_: Array  # (n_components, n_mix[, D[, D]]), or (n_components, D, D) if tied
    weights_: Array  # (n_components, n_mix)

    def __init__(
        self,
        n_components: int = 1,
        n_mix: int = 1,
        min_covar: float = 1e-3,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        weights_prior: Any = 1.0,
        means_prior: Any = 0.0,
        means_weight: Any = 0.0,
        covars_prior: Any = None,
        covars_weight: Any = None,
        algorithm: str = "viterbi",
        covariance_type: str = "diag",
        random_state: int | np.random.RandomState | None = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmcw",
        init_params: str = "stmcw",
        implementation: str = "log",
    ) -> None:
        chain = (startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol, verbose)
        super().__init__(n_components, *chain, params, init_params, implementation)
        check_covariance(covariance_type)
        self.n_mix, self.covariance_type, self.min_covar = n_mix, covariance_type, min_covar
        self.weights_prior, self.means_prior, self.means_weight = weights_prior, means_prior, means_weight
        self.covars_prior, self.covars_weight = covars_prior, covars_weight

    def _numbers(self, columns: int) -> bool:
        return False

    # -- the model

    def _model(self, series: Series) -> HMM:
        values = series.values.numpy()
        begin = {
            "means": self._start("means_", "m"),
            "covars": self._start("covars_", "c"),
            "shares": self._start("weights_", "w"),
        }
        K, M = self.n_components, self.n_mix
        if begin["means"] is None:
            begin["means"] = self._centres(series.values)
        if begin["covars"] is None:
            begin["covars"] = self._spread(values)
        if begin["shares"] is None:
            begin["shares"] = np.full((K, M), 1 / M)
        given = {name: torch.as_tensor(np.asarray(x), dtype=torch.float64) for name, x in begin.items()}
        positive = self.covariance_type in ("diag", "spherical")
        supports: dict[str, Any] = {
            "means": constraints.real,
            "covars": constraints.positive if positive else constraints.positive_definite,
            "shares": constraints.simplex,
        }

        def emission(states: int) -> Any:
            """A mixture for every state."""
            return self._mixture(
                *(pyro.param(name, lambda name=name: given[name], constraint=supports[name]) for name in supports)
            )

        return HMM(K, emission)

    def _mixture(self, means: Tensor, covars: Tensor, shares: Tensor) -> Any:
        kind = self.covariance_type
        if kind in ("diag", "spherical"):
            scale = covars.sqrt() if kind == "diag" else covars.sqrt().unsqueeze(-1)
            each: Any = dist.Normal(means, scale).to_event(1)
        else:
            each = dist.MultivariateNormal(means, covariance_matrix=covars.unsqueeze(1) if kind == "tied" else covars)
        return dist.MixtureSameFamily(dist.Categorical(shares), each)

    def _centres(self, values: Tensor) -> Array:  # (K, M, D)
        """Means by k-means: of all data, and of the data of each state."""
        K, M, seed = self.n_components, self.n_mix, self._seed()
        state, found = groups(values, K, "kmeans", seed), []
        for k in range(K):
            own = values[state == k]
            own = own if len(own) >= M else values[state >= 0]
            part = groups(own, M, "kmeans", seed)
            centres = [own[part == m] if bool((part == m).any()) else own for m in range(M)]
            found.append(torch.stack([x.mean(0) for x in centres]))
        return torch.stack(found).numpy()

    def _spread(self, values: Array) -> Array:
        K, M, D = self.n_components, self.n_mix, values.shape[1]
        whole = values[~np.isnan(values).any(-1)]
        spread = np.cov(whole.T).reshape(D, D) + self.min_covar * np.eye(D)
        shapes = {"full": (K, M, D, D), "tied": (K, D, D), "diag": (K, M, D), "spherical": (K, M)}
        value = {"diag": np.diag(spread), "spherical": np.diag(spread).mean()}.get(self.covariance_type, spread)
        return np.broadcast_to(value, shapes[self.covariance_type]).copy()

    def _learned(self, params: Mapping[str, Tensor], weights: Mapping[str, Array]) -> None:
        self.means_, self.covars_ = params["means"].numpy(), params["covars"].numpy()
        self.weights_ = params["shares"].numpy()

    def _emission(self) -> Any:
        own = (self.means_, self.covars_, self.weights_)
        return self._mixture(*(torch.as_tensor(np.asarray(x), dtype=torch.float64) for x in own))

    def _scalars(self) -> dict[str, int]:
        K, M, D = np.shape(self.means_)
        full = D * (D + 1) // 2
        covars = {"spherical": K * M, "diag": K * M * D, "full": K * M * full, "tied": K * full}
        return {"m": K * M * D, "c": covars[self.covariance_type], "w": K * (M - 1)}

    # -- M steps

    def new_parameters(self, seen: Seen) -> dict[str, Array]:
        x, post = np.nan_to_num(seen.values), seen.post  # what is missing has no weight
        old, K, M, D = self.means_, self.n_components, self.n_mix, x.shape[1]
        each = self._emission()
        with torch.no_grad():
            wide = torch.as_tensor(x)[:, None, None]
            logs = each.component_distribution.log_prob(wide) + each.mixture_distribution.logits
        w = post[:, :, None] * logs.softmax(-1).numpy()  # (N, K, M)
        n = w.sum(0)
        shares, means, found = self.weights_, old, {}
        if "w" in self.params:
            extra = np.broadcast_to(self.weights_prior, (K, M)) - 1.0
            shares = (n + extra) / (post.sum(0) + extra.sum(1))[:, None]
            found["shares"] = np.maximum(shares, np.finfo(float).tiny)
        weight, prior = np.broadcast_to(self.means_weight, (K, M)), np.broadcast_to(self.means_prior, (K, M, D))
        if "m" in self.params:
            above = weight[:, :, None] * prior + np.einsum("nkm,nd->kmd", w, x)
            below = n + weight
            below = np.where((shares == 0) & (above == 0).all(-1), 1.0, below)
            found["means"] = means = above / below[:, :, None]
        if "c" in self.params:
            away, moved = x[:, None, None] - old, means - prior  # as hmmlearn has it: around the means before the step
            found["covars"] = self._new_covars(w, away, weight, moved)
        return found

    def _new_covars(self, w: Array, away: Array, weight: Array, moved: Array) -> Array:
        """Covariances.

        :param w: (N, K, M).
        :param away: (N, K, M, D) of observations from means.
        :param weight: (K, M) of the prior of means.
        :param moved: (K, M, D) of means from their prior.
        """
        kind, (_, K, M, D), n = self.covariance_type, away.shape, w.sum(0)
        given, times = self.covars_prior, self.covars_weight
        if kind == "full":
            prior = np.broadcast_to(0.0 if given is None else given, (K, M, D, D))
            free = np.broadcast_to(-(D + 2.0) if times is None else times, (K, M))
            above = prior + weight[:, :, None, None] * moved[..., :, None] * moved[..., None, :]
            above = above + np.einsum("nkm,nkmi,nkmj->kmij", w, away, away, optimize=True)
            return np.asarray(above / (n + free + D + 2)[:, :, None, None])
        if kind == "tied":
            prior = np.broadcast_to(0.0 if given is None else given, (K, D, D))
            free = np.broadcast_to(-(M + D + 1.0) if times is None else times, (K,))
            above = prior + np.einsum("km,kmi,kmj->kij", weight, moved, moved)
            above = above + np.einsum("nkm,nkmi,nkmj->kij", w, away, away, optimize=True)
            return np.asarray(above / (n.sum(1) + M + free + D + 1)[:, None, None])
        if kind == "diag":
            shape = np.broadcast_to(-1.5 if given is None else given, (K, M, D))
            scale = np.broadcast_to(0.0 if times is None else times, (K, M, D))
            above = weight[:, :, None] * moved**2 + 2 * scale + np.einsum("nkm,nkmd->kmd", w, away**2)
            return np.asarray(above / (n[:, :, None] + 1 + 2 * (shape + 1)))
        shape = np.broadcast_to(-(M + 2.0) / 2 if given is None else given, (K, M))
        scale = np.broadcast_to(0.0 if times is None else times, (K, M))
        above = weight * (moved**2).sum(-1) + 2 * scale + np.einsum("nkm,nkmd->km", w, away**2)
        return np.asarray(above / (D * (n + 1) + 2 * (shape + 1)))
