"""Gold tags against clusters, as flat arrays of ids: checked, counted in one table, and mapped to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyro_unsup.errors import UnsupError

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "ArrayLike | torch.Tensor"
Ids: TypeAlias = NDArray[np.int64]
Map: TypeAlias = Literal["many_to_one", "one_to_one"]

UNMAPPED = -1  # the tag of a cluster that has no gold tag of its own
MAX_CELLS = 2**27  # a contingency table of one gigabyte


def to_numpy(array: Array) -> NDArray[Any]:
    """A numpy view of a numpy array, a sequence, or a torch tensor on any device."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def flat_ids(array: Array, name: str, least: int = 0) -> Ids:
    """Ids as int64, shape (tokens,): at least one, none below ``least``."""
    ids = to_numpy(array)
    if ids.ndim != 1:
        raise UnsupError(f"{name} must be a flat array of ids, shape (tokens,), actual shape {ids.shape}")
    if ids.size == 0:
        raise UnsupError(f"{name} is empty: there is no token to score")
    if not np.issubdtype(ids.dtype, np.integer):
        raise UnsupError(f"{name} must hold integer ids, actual type {ids.dtype}")
    if ids.min() < least:
        token = int(np.argmax(ids < least))
        raise UnsupError(
            f"{name} has id {ids[token]} at token {token}, expected {least} or more: drop such tokens first"
        )
    return ids.astype(np.int64, copy=False)


def same_length(expected: int, array: NDArray[Any], name: str) -> None:
    """Raise unless ``array`` has one entry for each gold token."""
    if array.shape[0] != expected:
        raise UnsupError(
            f"{name} has {array.shape[0]} tokens but gold has {expected}: score the same text on both sides"
        )


def pair(gold: Array, predicted: Array, least: int = 0) -> tuple[Ids, Ids]:
    """Both sides as flat ids of the same length; predicted ones are ``least`` or more."""
    gold, predicted = flat_ids(gold, "gold"), flat_ids(predicted, "predicted", least)
    same_length(gold.shape[0], predicted, "predicted")
    return gold, predicted


def _size(ids: Ids, size: int | None, name: str) -> int:
    needed = int(ids.max()) + 1
    if size is not None and size < needed:
        raise UnsupError(f"{name} has id {needed - 1}, expected less than {size}")
    return needed if size is None else size


def contingency(gold: Array, predicted: Array, gold_size: int | None = None, predicted_size: int | None = None) -> Ids:
    """How often each gold tag meets each cluster.

    :param gold: gold tag ids, shape (tokens,).
    :param predicted: cluster ids, shape (tokens,).
    :param gold_size: number of gold tags G; by default the largest id plus 1.
    :param predicted_size: number of clusters C; by default the largest id plus 1.
    :returns: counts, shape (G, C).

    >>> from pyro_unsup.evaluate import contingency
    >>> contingency([0, 0, 1, 1], [2, 2, 2, 0]).tolist()
    [[0, 0, 2], [1, 0, 1]]
    """
    gold, predicted = pair(gold, predicted)
    rows, columns = _size(gold, gold_size, "gold"), _size(predicted, predicted_size, "predicted")
    if rows * columns > MAX_CELLS:
        raise UnsupError(
            f"gold ids up to {rows - 1} and predicted ids up to {columns - 1} need over {MAX_CELLS} cells:"
            " renumber them first (np.unique with return_inverse=True)"
        )
    return np.bincount(gold * columns + predicted, minlength=rows * columns).reshape(rows, columns)


def best_map(table: Ids, how: Map) -> Ids:
    """The gold tag of each cluster, shape (C,)."""
    if how == "many_to_one":
        mapping = table.argmax(axis=0)
    elif how == "one_to_one":
        from scipy.optimize import linear_sum_assignment

        # Empty rows and columns stay out, so that ties break the same way however large the table is.
        rows, columns = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
        tags, clusters = linear_sum_assignment(table[np.ix_(rows, columns)], maximize=True)
        mapping = np.full(table.shape[1], UNMAPPED)
        mapping[columns[clusters]] = rows[tags]
    else:
        raise UnsupError(f"how must be 'many_to_one' or 'one_to_one', got {how!r}")
    # A cluster and its tag share a token, or it has none: the assignment also pairs off the left-overs at random.
    return np.where(hits(table, mapping) > 0, mapping, UNMAPPED)


def hits(table: Ids, mapping: Ids) -> Ids:
    """Tokens of each cluster that carry its mapped tag, shape (C,)."""
    return np.where(mapping == UNMAPPED, 0, table[mapping, np.arange(table.shape[1])])


def relabel(gold: Array, predicted: Array, how: Map = "many_to_one", predicted_size: int | None = None) -> Ids:
    """The gold tag of each cluster, to name clusters by: ``mapping[predicted]`` are tags.

    :param gold: gold tag ids, shape (tokens,).
    :param predicted: cluster ids, shape (tokens,).
    :param how: ``"many_to_one"``, each cluster's most frequent gold tag; or ``"one_to_one"``, the best matching.
    :param predicted_size: number of clusters C; by default the largest id plus 1.
    :returns: mapping, shape (C,); -1 for a cluster that shares no token with a tag of its own.

    >>> from pyro_unsup.evaluate import relabel
    >>> relabel([0, 0, 1, 1], [2, 2, 2, 0]).tolist()
    [1, -1, 0]
    """
    return best_map(contingency(gold, predicted, predicted_size=predicted_size), how)


@dataclass(frozen=True)
class Confusion:
    """Counts of gold tags against clusters, the columns in the order of the tags they stand for.

    :param counts: shape (G, C).
    :param gold_labels: names of the rows.
    :param predicted_labels: names of the columns.
    :param clusters: cluster id of each column, shape (C,).
    :param mapping: gold tag id of each column, -1 for none, shape (C,).

    >>> from pyro_unsup.evaluate import confusion
    >>> found = confusion([0, 0, 1, 1], [2, 2, 2, 0], ["noun", "verb"])
    >>> found.counts.tolist(), found.mapping.tolist()
    ([[2, 0, 0], [1, 1, 0]], [0, 1, -1])
    """

    counts: Ids
    gold_labels: tuple[str, ...]
    predicted_labels: tuple[str, ...]
    clusters: Ids
    mapping: Ids


def confusion(
    gold: Array,
    predicted: Array,
    gold_labels: Sequence[str] | None = None,
    predicted_labels: Sequence[str] | None = None,
    how: Map = "many_to_one",
) -> Confusion:
    """The table of gold tags against clusters, arranged so that a good clustering shows as a diagonal.

    Columns follow their mapped tag, the larger overlap first; clusters without a tag come last.

    :param gold: gold tag ids, shape (tokens,).
    :param predicted: cluster ids, shape (tokens,).
    :param gold_labels: names of the gold tags, G of them; by default their numbers.
    :param predicted_labels: names of the clusters, C of them; by default their numbers.
    :param how: see :func:`relabel`.

    >>> from pyro_unsup.evaluate import confusion
    >>> confusion([0, 0, 1, 1], [2, 2, 2, 0], ["noun", "verb"]).predicted_labels
    ('2', '0', '1')
    """
    table = contingency(
        gold,
        predicted,
        None if gold_labels is None else len(gold_labels),
        None if predicted_labels is None else len(predicted_labels),
    )
    rows, columns = table.shape
    gold_names = [str(i) for i in range(rows)] if gold_labels is None else gold_labels
    predicted_names = [str(i) for i in range(columns)] if predicted_labels is None else predicted_labels
    mapping = best_map(table, how)
    order = np.lexsort((-hits(table, mapping), np.where(mapping == UNMAPPED, rows, mapping)))
    return Confusion(
        counts=table[:, order],
        gold_labels=tuple(gold_names),
        predicted_labels=tuple(predicted_names[i] for i in order),
        clusters=order,
        mapping=mapping[order],
    )
