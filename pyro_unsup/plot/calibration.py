"""Pictures of calibration and of predictive checks: ranks that should be uniform, and statistics of drawn data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.uniformity import ecdf_band

from .series import colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rank_ecdf(ranks: Mapping[str, Any], level: float = 0.95) -> Figure:
    """The distribution function of ranks less that of uniform ones, a panel a quantity, with a band.

    The line stays within the band at all points with the probability ``level``, if the ranks are uniform. A line that
    rises first and falls later belongs to an overconfident engine.

    :param ranks: by quantity, (simulations,) numbers between 0 and 1.
    :param level: of the band.

    >>> import numpy as np, pyro_unsup as pu
    >>> figure = pu.plot.rank_ecdf({"loc": np.linspace(0.005, 0.995, 100)})
    >>> len(figure.axes), figure.axes[0].get_title()
    (1, 'loc')
    """
    figure, panels = _panels(ranks)
    for ax, (name, u) in zip(panels, ranks.items(), strict=True):
        x = np.sort(np.asarray(u, dtype=float))
        points, low, high = ecdf_band(len(x), level)
        ax.fill_between(points, low - points, high - points, color="0.85", step="mid", linewidth=0)
        steps = np.concatenate([[0.0], x, [1.0]])
        height = np.concatenate([[0.0], np.arange(1, len(x) + 1) / len(x), [1.0]])
        ax.step(steps, height - steps, where="post", color=colour(0), linewidth=1.2)
        ax.axhline(0.0, color="0.5", linewidth=0.8)
        ax.set_title(name, fontsize="small")
        ax.set_xlim(0.0, 1.0)
    return figure


def rank_histogram(ranks: Mapping[str, Any], level: float = 0.95) -> Figure:
    """Histograms of ranks, a panel a quantity, with the range in which a bar lies with the probability ``level``.

    :param ranks: by quantity, (simulations,) numbers between 0 and 1.
    :param level: of the band, for each bar on its own.

    >>> import numpy as np, pyro_unsup as pu
    >>> figure = pu.plot.rank_histogram({"loc": np.linspace(0.005, 0.995, 100)})
    >>> len(figure.axes[0].patches)  # the bars
    20
    """
    figure, panels = _panels(ranks)
    for ax, (name, u) in zip(panels, ranks.items(), strict=True):
        x = np.asarray(u, dtype=float)
        bins = max(2, min(20, len(x) // 5))
        low, high = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], len(x), 1 / bins)
        ax.fill_between([0.0, 1.0], low, high, color="0.85", linewidth=0)
        ax.hist(x, bins=np.linspace(0.0, 1.0, bins + 1).tolist(), color=colour(0), alpha=0.8)
        ax.axhline(len(x) / bins, color="0.5", linewidth=0.8)
        ax.set_title(name, fontsize="small")
        ax.set_xlim(0.0, 1.0)
    return figure


def check_plot(drawn: Mapping[str, Any], observed: Mapping[str, float]) -> Figure:
    """Statistics of drawn data as histograms, a panel a statistic, with a line at that of the observed data.

    :param drawn: by statistic, (draws,).
    :param observed: by statistic, a number.

    >>> import numpy as np, pyro_unsup as pu
    >>> figure = pu.plot.check_plot({"mean": np.arange(10.0)}, {"mean": 8.0})
    >>> figure.axes[0].get_title()
    'mean'
    """
    figure, panels = _panels(drawn)
    for ax, (name, values) in zip(panels, drawn.items(), strict=True):
        x = np.asarray(values, dtype=float)
        spread = np.ptp(x) > 0
        ax.hist(x, bins=min(30, max(5, len(x) // 10)) if spread else 1, color=colour(5), alpha=0.8)
        ax.axvline(observed[name], color=colour(1), linewidth=1.6)
        ax.set_title(name, fontsize="small")
        ax.set_yticks([])
    return figure


def _panels(ranks: Mapping[str, Any]) -> tuple[Figure, list[Any]]:
    import matplotlib.pyplot as plt

    if not ranks:
        raise UnsupError("there are no ranks to draw: expected at least one quantity")
    columns = min(4, len(ranks))
    rows = -(-len(ranks) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.6 * columns, 2.0 * rows), layout="constrained", squeeze=False)
    panels = list(axes.ravel())
    for spare in panels[len(ranks) :]:
        spare.remove()
    for ax in panels[: len(ranks)]:
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, panels[: len(ranks)]
