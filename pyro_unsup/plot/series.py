"""Pictures of time series: by state, their probabilities, forecasts, residuals, and the graph of transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pyro_unsup.errors import UnsupError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyro_unsup.distributions import ChainPosterior, Forecast

Floats = NDArray[np.float64]

#: Colours that people with colour blindness can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def colour(state: int) -> str:
    """The colour of a state."""
    return COLOURS[state % len(COLOURS)]


def _axes(ax: Axes | None, size: tuple[float, float] = (8.0, 3.0)) -> Axes:
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=size, layout="constrained")[1]
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _one_series(posterior: ChainPosterior, series: int) -> tuple[Floats, slice]:
    """The observations of one series, and where they lie."""
    if posterior.prior.data is None:
        raise UnsupError("this chain emits words by a table: there are no measurements to draw")
    values, offsets = posterior.prior.data[1], posterior.prior.rows.offsets
    if not 0 <= series < len(offsets) - 1:
        raise UnsupError(f"there are {len(offsets) - 1} series, numbered from 0; actual number {series}")
    part = slice(int(offsets[series]), int(offsets[series + 1]))
    return values[part].detach().numpy(), part


def series_by_state(
    posterior: ChainPosterior, series: int = 0, time: Any = None, coordinate: int = 0, ax: Axes | None = None
) -> Axes:
    """A series, each observation in the colour of its state on the best path.

    :param posterior: of the data, ``fit.posterior(x)``.
    :param series: which one.
    :param time: (T,) what the horizontal axis shows; positions, if it is not given.
    :param coordinate: of vectors, which one.
    :param ax: where to draw; by default a new figure.

    >>> import pyro_unsup as pu
    >>> x = [1.0, 2.0, 1.0, 9.0, 8.0, 9.0]
    >>> fit = pu.EM(pu.models.HMM(2, "poisson")).run(x)
    >>> len(pu.plot.series_by_state(fit.posterior(x)).collections)  # a cloud of points a state
    2
    """
    ax = _axes(ax)
    values, part = _one_series(posterior, series)
    values = values if values.ndim == 1 else values[:, coordinate]
    states = posterior._masked(posterior._decode(False, None))[part].numpy()
    at = np.arange(len(values)) if time is None else np.asarray(time)
    ax.plot(at, values, color="0.75", linewidth=1, zorder=1)
    for k in range(posterior.prior.sizes["K"]):
        here = states == k
        ax.scatter(at[here], values[here], s=18, color=colour(k), label=f"state {k}", zorder=2)
    ax.set_ylabel("observation")
    ax.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def state_probabilities(
    posterior: ChainPosterior, series: int = 0, time: Any = None, which: str = "smoothed", ax: Axes | None = None
) -> Axes:
    """Probabilities of the states over time, stacked.

    :param posterior: of the data, ``fit.posterior(x)``.
    :param series: which one.
    :param time: (T,) what the horizontal axis shows.
    :param which: ``smoothed``, ``filtered`` or ``predicted``.
    :param ax: where to draw; by default a new figure.

    >>> import pyro_unsup as pu
    >>> x = [1.0, 2.0, 1.0, 9.0, 8.0, 9.0]
    >>> fit = pu.EM(pu.models.HMM(2, "poisson")).run(x)
    >>> len(pu.plot.state_probabilities(fit.posterior(x), which="filtered").collections)  # an area a state
    2
    """
    if which not in ("smoothed", "filtered", "predicted"):
        raise UnsupError(f"which must be smoothed, filtered or predicted, actual {which!r}")
    ax = _axes(ax, (8.0, 2.0))
    values, part = _one_series(posterior, series)
    flat = {"smoothed": posterior._marginals, "predicted": posterior._predicted, "filtered": posterior._forward[1]}
    shares = flat[which][part].numpy()
    at = np.arange(len(values)) if time is None else np.asarray(time)
    ax.stackplot(
        at,
        shares.T,
        colors=[colour(k) for k in range(shares.shape[1])],
        labels=[f"state {k}" for k in range(shares.shape[1])],
        alpha=0.85,
    )
    ax.set_ylim(0.0, 1.0)
    ax.set_xlim(at[0], at[-1])
    ax.set_ylabel(f"{which}\nprobability")
    ax.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def forecast_fan(
    posterior: ChainPosterior,
    forecast: Forecast,
    series: int = 0,
    time: Any = None,
    last: int = 50,
    ax: Axes | None = None,
) -> Axes:
    """The end of a series, and the quantiles of what comes: the middle 50, 80 and 95 percent.

    :param posterior: of the data.
    :param forecast: ``posterior.forecast(steps)``.
    :param series: which one.
    :param time: (T,) what the horizontal axis shows; it goes on in even steps.
    :param last: how many observations to show before the forecast.
    :param ax: where to draw; by default a new figure.

    >>> import pyro_unsup as pu
    >>> x = [1.0, 2.0, 1.0, 9.0, 8.0, 9.0]
    >>> posterior = pu.EM(pu.models.HMM(2, "poisson")).run(x).posterior(x)
    >>> len(pu.plot.forecast_fan(posterior, posterior.forecast(3)).collections)
    3
    """
    ax = _axes(ax)
    values, _ = _one_series(posterior, series)
    at = np.arange(len(values), dtype=float) if time is None else np.asarray(time, dtype=float)
    step = at[-1] - at[-2] if len(at) > 1 else 1.0
    steps = forecast.states.shape[-2]
    ahead = at[-1] + step * np.arange(1, steps + 1)
    ax.plot(at[-last:], values[-last:], color="0.3", linewidth=1, marker="o", markersize=3)
    levels = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
    found = [_row(forecast.quantile(q), series) for q in levels]
    for i, alpha in enumerate((0.2, 0.35, 0.5)):
        ax.fill_between(ahead, found[i], found[-1 - i], color=colour(0), alpha=alpha, linewidth=0)
    ax.plot(ahead, found[3], color=colour(0), linewidth=1.5, label="median")
    ax.plot(ahead, _row(forecast.mean, series), color=colour(1), linewidth=1, linestyle="--", label="mean")
    ax.legend(frameon=False)
    ax.set_ylabel("observation")
    return ax


def _row(x: Any, series: int) -> Floats:
    found: Floats = x.reshape(-1, x.shape[-1])[series].detach().numpy()
    return found


def residual_plot(posterior: ChainPosterior, ax: Axes | None = None) -> Axes:
    """Pseudo-residuals against the quantiles of a normal distribution: on the line, if the model is right.

    :param posterior: of the data.
    :param ax: where to draw; by default a new figure.

    >>> import pyro_unsup as pu
    >>> x = [1.0, 2.0, 1.0, 9.0, 8.0, 9.0]
    >>> len(pu.plot.residual_plot(pu.EM(pu.models.HMM(2, "poisson")).run(x).posterior(x)).lines)
    2
    """
    ax = _axes(ax, (4.0, 4.0))
    found = posterior.residuals().flatten().numpy()
    found = np.sort(found[np.isfinite(found)])
    expected = stats.norm.ppf((np.arange(len(found)) + 0.5) / max(len(found), 1))
    ax.plot(expected, expected, color="0.6", linewidth=1)
    ax.plot(expected, found, "o", markersize=3, color=colour(0))
    ax.set_xlabel("normal quantile")
    ax.set_ylabel("pseudo-residual")
    return ax


def transition_graph(transition: Any, labels: Any = None, least: float = 0.01, ax: Axes | None = None) -> Axes:
    """States in a circle, and arrows whose width is the probability of a move.

    :param transition: (K, K) log-weights, rows (old, new): ``fit.weights["transition"]``.
    :param labels: of the states; their numbers, if none are given.
    :param least: the least probability to draw.
    :param ax: where to draw; by default a new figure.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> ax = pu.plot.transition_graph(torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log())
    >>> len(ax.texts)  # two labels and four probabilities
    6
    """
    ax = _axes(ax, (4.5, 4.5))
    shares = np.asarray(transition.softmax(-1).detach())
    K = len(shares)
    names = range(K) if labels is None else labels
    angle = np.pi / 2 - 2 * np.pi * np.arange(K) / K
    place = np.stack([np.cos(angle), np.sin(angle)], 1) if K > 1 else np.zeros((1, 2))
    for i in range(K):
        for j in range(K):
            if shares[i, j] >= least:
                _arrow(ax, place[i], place[j], float(shares[i, j]), colour(i), i == j)
    for k, name in zip(range(K), names, strict=True):
        x, y = place[k].tolist()
        ax.scatter([x], [y], s=900, color=colour(k), zorder=3)
        ax.text(x, y, str(name), color="white", ha="center", va="center", zorder=4, weight="bold")
    ax.set_xlim(-1.7, 1.7)
    ax.set_ylim(-1.7, 1.7)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _arrow(ax: Axes, a: Floats, b: Floats, share: float, paint: str, loop: bool) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    width = 0.5 + 4 * share
    if loop:
        out = a / max(float(np.hypot(*a)), 1e-9) if np.any(a) else np.array([0.0, 1.0])
        ax.add_patch(Circle(tuple(a + 0.28 * out), 0.2, fill=False, color=paint, linewidth=width, zorder=1))
        where = a + 0.66 * out
    else:
        bend = "arc3,rad=0.18"
        ax.add_patch(
            FancyArrowPatch(
                tuple(a),
                tuple(b),
                connectionstyle=bend,
                arrowstyle="-|>",
                mutation_scale=10 + 8 * share,
                color=paint,
                linewidth=width,
                shrinkA=17,
                shrinkB=17,
                zorder=2,
            )
        )
        along = b - a
        # The label lies where the arc is widest: a ninth of the way to its side.
        where = (a + b) / 2 + 0.14 * np.array([along[1], -along[0]])
    at, up = where.tolist()
    text = ax.text(at, up, f"{share:.2f}", ha="center", va="center", fontsize=8, color="0.2", zorder=5)
    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
