"""``relabel``: one naming of the states for all draws, so that draws of one state can be averaged and diagnosed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from pyro.infer import MCMC
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..infer import CollapsedGibbs
from ..infer.progress import progress_bar
from ..results import Fit, Samples
from ..results.arviz import is_arviz
from .arguments import check_seed, check_whole, own_errors
from .assignment import assign, by_ecr, by_pivot, by_stephens, favourites, overlap
from .densities import Densities
from .draws import samples_of
from .parameters import diagnostics, flat, parameters_of
from .relabelled import Relabelled
from .relabelled_groups import groups_by_draw, named_axes, renamed_groups
from .sampled_data import sampled_data
from .states import as_axes, permuted, size_of_states, state_axes, states_of

Array = np.ndarray[Any, Any]
Method = Literal["pivot", "ecr", "stephens"]
METHODS = ("pivot", "ecr", "stephens")
#: Probabilities of states that are computed together.
ROOM = 2**25
#: Probabilities of states that are kept, at most: 2 GB.
LIMIT = 2**28


@own_errors()
def relabel(
    draws: Any,
    method: Method = "ecr",
    *,
    axes: Mapping[str, int | Sequence[int]] | None = None,
    model: Callable[..., Any] | None = None,
    data: Any = None,
    allocations: Any = None,
    probabilities: Any = None,
    pivot: tuple[int, int] | None = None,
    iterations: int = 100,
    seed: int = 0,
    progress: bool | None = None,
) -> Relabelled:
    """Give the states of every draw the names that fit those of all other draws.

    The posterior of a mixture or a hidden Markov model does not change when its states swap names. So state 0 of one
    draw may be state 1 of another, and the mean of "state 0" means nothing. Each method finds, for every draw, the
    order of states that agrees best with a reference (Hungarian assignment), and applies it to every axis of states of
    every parameter. Of an ArviZ object, that holds for all groups by draw: for every dimension of states, and for
    states that :func:`.recover` has found.

    - ``"pivot"``: the reference is one draw, by default the most probable one. Compares parameters; of
      :class:`.Samples`, labels.
    - ``"ecr"``: the reference is the state that each observation has most often, over all draws. Iterated until no name
      changes. Compares labels.
    - ``"stephens"``: the reference is the mean of the probabilities of states, over all draws. Iterated likewise.
      Compares these probabilities by Kullback-Leibler divergence.

    :param draws: :class:`.Samples` of a tagger or a clusterer; a Pyro ``MCMC`` that has run on a model; a dict of
        arrays (chain, draw, ...); or an ArviZ object.
    :param method: see above.
    :param axes: which axes of each parameter run over states, counted from 0 after (chain, draw):
        ``{"loc": 0, "transition": (0, 1)}``. Known for models of the library, and for ArviZ objects by the names of
        dimensions: ``state``, ``tag``, ``cluster``, or ``loc_state``.
    :param model: that the draws are of; known of samples and of an MCMC.
    :param data: that the model was run on: its argument, or a tuple of them; known likewise.
    :param allocations: (chains, draws, N) states of observations; by default the most probable ones given each draw.
    :param probabilities: (chains, draws, N, K) of states of observations; by default those given each draw.
    :param pivot: chain and draw of the reference to begin with.
    :param iterations: rounds at most.
    :param seed: of tables that are drawn given sampled labels.
    :param progress: show a bar where states of many draws are found; by default where there is a terminal.

    >>> import pyro_unsup as pu
    >>> sampler = pu.CollapsedGibbs(pu.models.Clusterer(clusters=2, vocab=4))
    >>> texts = [[0, 1, 0, 0], [0, 0, 1], [2, 3, 3], [3, 2, 2, 3]] * 3
    >>> samples = sampler.run(texts, sweeps=60, burn_in=20, chains=2, progress=False)
    >>> found = pu.relabel(samples, "ecr")
    >>> list(found.table.columns)
    ['r_hat_before', 'r_hat_after', 'ess_before', 'ess_after']
    >>> sorted({tuple(row) for row in found.samples.labels[:, -1, ::2].tolist()})  # both chains, one naming
    [(0, 1, 0, 1, 0, 1)]
    """
    import pandas

    if method not in METHODS:
        raise UnsupError(f"method must be one of {', '.join(METHODS)}, actual {method!r:.80}")
    check_whole("iterations", iterations)
    check_seed(seed)
    source = _Source(draws, model, data, axes, seed, progress)
    K, lead = source.K, next(iter(source.draws.values())).shape[:2]
    labels = source.labels if allocations is None else _allocations(allocations, lead, K)
    weights = None if probabilities is None else _probabilities(probabilities, lead, K)
    at = source.best if pivot is None else _place(pivot, lead)
    if method != "stephens" and labels is None and weights is not None:
        labels = weights.argmax(-1)
    start = source.pivot_order(at, labels)
    if method == "pivot":
        order, rounds = start, 1
    elif method == "ecr":
        labels = source.modes() if labels is None else labels
        order, rounds = by_ecr(labels.reshape(len(start), -1), K, start, iterations)
    else:
        weights = source.marginals() if weights is None else weights
        order, rounds = by_stephens(weights.reshape(len(start), -1, K), start, iterations)
    orders = order.reshape(*lead, K)
    found = permuted(source.draws, source.axes, torch.from_numpy(orders))
    before, after = diagnostics(source.draws), diagnostics(found)
    table = pandas.DataFrame(
        {
            name: {f"{what}_{when}": numbers[name][what] for what in ("r_hat", "ess") for when, numbers in both}
            for both in [(("before", before), ("after", after))]
            for name in found
        }
    ).T
    samples = None if source.samples is None else _renamed(source.samples, orders)
    groups = None if source.groups is None else renamed_groups(source.groups, source.axes, orders)
    return Relabelled(found, orders, method, rounds, table, samples, groups, source.model)


class _Source:
    """Draws, and what is known about their model."""

    def __init__(self, draws: Any, model: Any, data: Any, axes: Any, seed: int, progress: bool | None) -> None:
        if isinstance(draws, Fit):
            raise UnsupError(
                "a fit has one naming of its states in all draws, so nothing needs to be relabelled: relabel is for "
                "samples of Gibbs or NUTS"
            )
        if not (isinstance(draws, Samples | MCMC | Mapping) or is_arviz(draws)):
            raise UnsupError(
                "expected draws: Samples, a Pyro MCMC that has run, a dict of arrays (chain, draw, ...), or an ArviZ "
                f"object; actual {type(draws).__name__}"
            )
        self.progress = progress
        self.samples = draws if isinstance(draws, Samples) else None
        if self.samples is not None and self.samples.structure is not None:
            raise UnsupError(
                "relabel is for samples of one label a unit, and these are trees: samples.predict('vote') calls the "
                "labels of constituents alike in all draws"
            )
        if isinstance(draws, MCMC) and isinstance(draws.kernel, CollapsedGibbs):
            own: Any = bare(draws.kernel.model)
            model = own if model is None else model
            if not own.declarations().keys() & samples_of(draws).keys():
                raise UnsupError(
                    "this MCMC has labels, and no tables that could be relabelled: make the kernel by "
                    "CollapsedGibbs(model, keep_tables=True), or relabel the samples of CollapsedGibbs(model).run(data)"
                )
        if isinstance(draws, MCMC):
            model = draws.kernel.model if model is None else model
            data = draws._args if data is None else data
        if self.samples is not None:
            model, data = self.samples.model, sampled_data(self.samples)
        self.model = None if model is None else bare(model)
        self.groups = groups_by_draw(draws) if is_arviz(draws) else None
        self.args = data if isinstance(data, tuple) else () if data is None else (data,)
        self.draws = parameters_of(draws, self.args, seed=seed)
        if self.samples is not None:
            self.draws = {**self.draws, "token_counts": torch.from_numpy(self.samples.token_counts)}
        shapes = {name: tuple(x.shape[2:]) for name, x in self.draws.items()}
        if axes is not None:
            self.axes = as_axes(axes)
        elif self.groups is not None and states_of(self.model) is None:
            self.axes = named_axes(self.groups["posterior"])
        else:
            self.axes = state_axes(self.model, shapes)
        if not next(iter(self.draws.values())).shape[:2].numel():
            raise UnsupError("there are no draws: expected arrays (chain, draw, ...) with one draw or more")
        self.K = size_of_states(self.draws, self.axes)
        self.densities = Densities(model, self.args) if model is not None and self.args else None

    @property
    def labels(self) -> Array | None:  # (chains, draws, N)
        """Labels that were sampled."""
        return None if self.samples is None else self.samples.labels.astype(np.int64)

    @property
    def best(self) -> tuple[int, int]:
        """The most probable draw; the last one of the first chain, if only the model could tell and there is none."""
        if self.samples is not None:
            score = torch.from_numpy(self.samples.log_joint)
        elif self.densities is not None:
            lead = next(iter(self.draws.values())).shape[:2]
            with torch.no_grad():
                prior, likelihood = self.densities.both(flat(self.draws))
            score = (prior + likelihood).reshape(lead)
        else:
            return 0, next(iter(self.draws.values())).shape[1] - 1
        chain, draw = divmod(int(score.argmax()), score.shape[1])
        return chain, draw

    def pivot_order(self, at: tuple[int, int], labels: Array | None) -> Array:  # (S, K)
        """Orders that make every draw like one of them: by labels, or by parameters."""
        if labels is not None:
            flat_labels = labels.reshape(-1, labels.shape[-1])
            return assign(-overlap(flat_labels, labels[at], self.K))
        points = self._points()
        return by_pivot(points.reshape(-1, *points.shape[2:]), points[at])[0]

    def _points(self) -> Array:  # (chains, draws, K, D)
        """The parameters of each state; all of a name have the same say."""
        found = []
        for name, own in self.axes.items():
            x = self.draws[name].double().movedim([axis + 2 for axis in own], list(range(2, 2 + len(own))))
            for _ in own[1:]:  # of two axes of states, the diagonal: it belongs to one state
                x = x[:, :, : self.K, : self.K].diagonal(dim1=2, dim2=3).movedim(-1, 2)
            x = x[:, :, : self.K].flatten(3) if x.dim() > 3 else x[..., None]
            x = x - x.mean((0, 1, 2))
            found.append(x / x.square().mean((0, 1, 2)).sum().sqrt().clamp(min=1e-300))
        return torch.cat(found, -1).numpy()

    def marginals(self) -> Array:  # (S, N, K)
        """The probabilities of states given each draw."""
        if self.densities is not None:
            values = flat(self.draws)
            units = self.densities.structured({name: x[:1] for name, x in values.items()})[0].rows.size
            numbers = len(next(iter(values.values()))) * units * self.K
            if numbers > LIMIT:
                raise UnsupError(
                    f"the probabilities of {self.K} states of {units:,} observations in all draws would take "
                    f"{numbers * 8 / 1e9:.0f} GB: use method='ecr', which needs a {self.K}th of that, or fewer draws"
                )
        return self._by_draw(lambda posterior: posterior.marginals)

    def modes(self) -> Array:  # (S, N)
        """The most probable states given each draw."""
        return self._by_draw(lambda posterior: posterior.mode()).astype(np.int64)

    def _by_draw(self, ask: Callable[[Any], Tensor]) -> Array:
        if self.densities is None:
            raise UnsupError(
                "this method compares the states of observations: give model and data, or allocations or "
                "probabilities; or use method='pivot', which compares parameters"
            )
        values = flat(self.draws)
        every = torch.arange(len(next(iter(values.values()))))
        size = self.densities.structured({name: x[:1] for name, x in values.items()})[0].rows.size
        found = []
        with torch.no_grad():
            parts = every.split(max(1, ROOM // (size * self.K)))
            for part in progress_bar(parts, self.progress, unit="part"):
                fn, value = self.densities.structured({name: x[part] for name, x in values.items()})
                found.append(ask(fn.posterior(value)))
        return torch.cat(found).numpy()


def _given(name: str, x: Any, lead: Sequence[int]) -> Array:
    found = np.asarray(x.detach() if isinstance(x, Tensor) else x)
    if found.shape[:2] != tuple(lead):
        raise UnsupError(f"{name} should begin with the axes (chain, draw) = {tuple(lead)}, actual shape {found.shape}")
    return found


def _allocations(x: Any, lead: Sequence[int], K: int) -> Array:  # (chains, draws, N)
    found = _given("allocations", x, lead)
    if found.ndim != 3 or found.dtype.kind not in "iu" or (found.size and not 0 <= found.min() <= found.max() < K):
        raise UnsupError(
            f"allocations should be states 0 .. {K - 1} of the observations, (chain, draw, observation); actual shape "
            f"{found.shape} of {found.dtype}" + (f", {found.min()} .. {found.max()}" if found.size else "")
        )
    return found.astype(np.int64)


def _probabilities(x: Any, lead: Sequence[int], K: int) -> Array:  # (chains, draws, N, K)
    found = _given("probabilities", x, lead)
    if found.ndim != 4 or found.shape[-1] != K:
        raise UnsupError(f"probabilities should have shape ({lead[0]}, {lead[1]}, N, {K}), actual {found.shape}")
    if found.dtype.kind not in "iuf" or not (np.isfinite(found).all() and (found >= 0).all()):
        raise UnsupError("probabilities should be numbers, 0 or more; some are negative, infinite or NaN")
    return found


def _place(pivot: tuple[int, int], lead: Sequence[int]) -> tuple[int, int]:
    right = isinstance(pivot, Sequence) and len(pivot) == 2 and all(isinstance(i, int | np.integer) for i in pivot)
    if not right or not (0 <= pivot[0] < lead[0] and 0 <= pivot[1] < lead[1]):
        raise UnsupError(f"pivot should be a chain and a draw below {tuple(lead)}, actual {pivot!r:.80}")
    return pivot


def _renamed(samples: Samples, order: Array) -> Samples:  # (chains, draws, K)
    """Samples with new labels; the best and the last labelling of each chain by the names that overlap most."""
    K = order.shape[-1]
    name = np.argsort(order, -1)
    labels = np.take_along_axis(name, samples.labels.astype(np.int64), -1)
    favourite = favourites(labels.reshape(-1, labels.shape[-1]), np.tile(np.arange(K), (labels[..., 0].size, 1)), K)

    def one(x: Array) -> Array:  # (chains, N)
        renamed = np.argsort(assign(-overlap(x.astype(np.int64), favourite, K)), -1)
        return np.take_along_axis(renamed, x.astype(np.int64), -1).astype(x.dtype)

    beta = np.take_along_axis(samples.draws["beta"], order, -1) if samples.draws["beta"].shape[-1] == K else None
    draws = {**samples.draws, "labels": labels.astype(samples.labels.dtype), **({} if beta is None else {"beta": beta})}
    config = {**samples.config, "relabelled": True}
    return replace(samples, draws=draws, best=one(samples.best), last=one(samples.last), config=config)
