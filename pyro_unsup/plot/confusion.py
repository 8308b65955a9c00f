"""Gold tags against induced clusters, arranged so that a good clustering shows as a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Map, confusion, flat_ids

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.19  # inches a cell, just enough for a small label
NUMBERS_UP_TO = 18  # rows and columns that leave room for a number in each cell
WIDE_CELL = 0.42  # inches a cell that holds a number


def confusion_matrix(
    gold: Any,
    predicted: Any,
    gold_labels: Sequence[str] | None = None,
    ax: Axes | None = None,
    normalise: Literal["gold", "predicted"] | None = "gold",
    *,
    predicted_labels: Sequence[str] | None = None,
    how: Map = "many_to_one",
) -> Axes:
    """How gold tags (rows) fall into clusters (columns): of ids, or ``confusion_matrix(fit, corpus)`` of a fit.

    Tags are ordered by frequency, clusters by the tag they map to; that cell is outlined. Unused ones are left out.

    :param gold: gold tag ids, shape (tokens,); or a fit, which is asked to tag the corpus.
    :param predicted: cluster ids, shape (tokens,); or the tagged corpus, by the vocabulary of the fit.
    :param gold_labels: names of the gold tags, by id; by default those of the corpus, or numbers.
    :param ax: where to draw; by default a new figure, sized to the table.
    :param normalise: ``"gold"``, each row sums to 1; ``"predicted"``, each column does; or None, counts.
    :param predicted_labels: names of the clusters, by id; by default those of the fit, or numbers.
    :param how: the map that orders the columns, ``"many_to_one"`` or ``"one_to_one"``.

    >>> from pyro_unsup.plot import confusion_matrix
    >>> confusion_matrix([0, 0, 1, 1], [2, 2, 0, 0], ["noun", "verb"]).get_ylabel()
    'gold tag'
    """
    if normalise not in ("gold", "predicted", None):
        raise UnsupError(f"normalise must be 'gold', 'predicted' or None, got {normalise!r}")
    if hasattr(gold, "predict"):
        fit, corpus = gold, predicted
        if getattr(corpus, "tags", None) is None:
            raise UnsupError("the corpus has no gold tags to compare with; read it from a tagged file")
        gold, predicted = corpus.tags, fit.predict(corpus)
        gold_labels = corpus.tagset.types if gold_labels is None else gold_labels
        predicted_labels = getattr(fit, "labels", None) if predicted_labels is None else predicted_labels
    ids = flat_ids(gold, "gold")
    gold_labels = [str(i) for i in range(ids.max() + 1)] if gold_labels is None else gold_labels
    if ids.max() >= len(gold_labels):
        raise UnsupError(f"gold has id {ids.max()}, but there are {len(gold_labels)} gold_labels")
    frequency = np.bincount(ids, minlength=len(gold_labels))
    by_frequency = np.argsort(-frequency, kind="stable")
    rank = np.argsort(by_frequency)
    table = confusion(rank[ids], predicted, [gold_labels[i] for i in by_frequency], predicted_labels, how)
    rows, columns = np.flatnonzero(table.counts.any(axis=1)), np.flatnonzero(table.counts.any(axis=0))
    counts = table.counts[np.ix_(rows, columns)]
    share = counts / {"gold": counts.sum(1, keepdims=True), "predicted": counts.sum(0), None: 1}[normalise]

    numbers = max(counts.shape) <= NUMBERS_UP_TO
    if ax is None:
        import matplotlib.pyplot as plt

        cell = WIDE_CELL if numbers else CELL
        height, width = (2.0 + cell * n for n in counts.shape)
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    from matplotlib.patches import Rectangle

    image = ax.imshow(share, cmap="Blues", vmin=0, vmax=None if normalise is None else 1, aspect="auto")
    for column, tag in enumerate(table.mapping[columns]):
        if tag >= 0:
            ax.add_patch(Rectangle((column - 0.5, tag - 0.5), 1, 1, fill=False, edgecolor="C1", linewidth=1.0))
    if numbers:
        dark = image.norm.vmax / 2  # type: ignore[operator]
        for row, column in zip(*np.nonzero(counts), strict=True):
            value = share[row, column]
            text = _count(counts[row, column]) if normalise is None else f"{100 * value:.0f}"
            if text != "0":
                colour = "white" if value > dark else "0.25"
                ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="x-small")

    small = "small" if numbers else "xx-small"
    ax.set_yticks(range(len(rows)), [table.gold_labels[i] for i in rows], parse_math=False, fontsize=small)
    names = [table.predicted_labels[i] for i in columns]
    turn = 90 if max(map(len, names)) > 3 else 0
    ax.set_xticks(range(len(columns)), names, parse_math=False, fontsize=small, rotation=turn)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_ylabel("gold tag")
    ax.set_xlabel("cluster")
    label = {"gold": "share of the gold tag", "predicted": "share of the cluster", None: "tokens"}[normalise]
    bar = ax.figure.colorbar(image, ax=ax, label=label, shrink=0.6, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    return ax


def _count(tokens: int) -> str:
    """At most four characters below ten million, to fit a cell."""
    return f"{tokens}" if tokens < 10_000 else f"{tokens / 1000:.0f}k"
