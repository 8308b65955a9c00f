"""One set of links out of two: where target words chose source words, and where source words chose target words.

Everything lies flat: the cells of each pair of sentences, source words down and target words across, row by row and
pair after pair.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, to_numpy

Combine: TypeAlias = Literal["mean", "product", "geometric", "max", "min"]
Symmetrise: TypeAlias = Literal["intersection", "union", "grow-diag-final-and", "forward", "backward"]


def symmetrise(
    forward: Array,
    backward: Array,
    source_lengths: Array,
    target_lengths: Array,
    how: Symmetrise = "intersection",
) -> NDArray[np.bool_]:  # (cells,)
    """Links from the choices of two directions.

    :param forward: (cells,) true where a target word chose the source word.
    :param backward: (cells,) true where a source word chose the target word.
    :param source_lengths: (pairs,) words in each source sentence.
    :param target_lengths: (pairs,) words in each target sentence.
    :param how: links that both have (``"intersection"``) or one has (``"union"``); links that both have, grown by
        neighbours that one has and that have a word without a link, and at last by links between two words that have
        none (``"grow-diag-final-and"``); or those of one direction.

    >>> from pyro_unsup.evaluate import symmetrise
    >>> symmetrise([True, False, True, False], [True, False, False, True], [2], [2], "union").tolist()
    [True, False, True, True]
    """
    one, other = (to_numpy(x).astype(np.bool_) for x in (forward, backward))
    sizes = [np.ascontiguousarray(to_numpy(x), np.int64) for x in (source_lengths, target_lengths)]
    cells = int((sizes[0] * sizes[1]).sum())
    if one.shape != (cells,) or other.shape != (cells,):
        raise UnsupError(f"these sentences have {cells} cells in all, actual shapes {one.shape} and {other.shape}")
    if how == "intersection":
        return one & other
    if how == "union":
        return one | other
    if how == "forward":
        return one
    if how == "backward":
        return other
    if how != "grow-diag-final-and":
        raise UnsupError(f"how must be one of {', '.join(get_args(Symmetrise))}, actual {how!r}")
    from pyro_unsup.kernels.symmetrisation import grow_diag_final_and

    result = np.empty(cells, np.bool_)
    grow_diag_final_and(np.ascontiguousarray(one), np.ascontiguousarray(other), *sizes, result)
    return result


def above_threshold(
    forward: Array, backward: Array, threshold: float = 0.5, combine: Combine = "mean"
) -> NDArray[np.bool_]:  # (cells,)
    """Links whose probability, combined from two directions, is at least a threshold.

    :param forward: (cells,) posterior probability that a target word chooses the source word.
    :param backward: (cells,) that a source word chooses the target word.
    :param threshold: between 0 and 1.
    :param combine: ``"mean"`` and ``"max"`` are soft and hard unions; ``"product"`` (or ``"geometric"``, its root) and
        ``"min"`` soft and hard intersections.

    >>> from pyro_unsup.evaluate import above_threshold
    >>> above_threshold([0.9, 0.2], [0.4, 0.1], 0.5).tolist()
    [True, False]
    """
    found: NDArray[np.bool_] = _combined(forward, backward, combine) >= threshold
    return found


def competitive(
    forward: Array,
    backward: Array,
    source_lengths: Array,
    target_lengths: Array,
    threshold: float = 0.5,
    combine: Combine = "mean",
) -> NDArray[np.bool_]:  # (cells,)
    """Links above a threshold that compete: each word keeps its best link, and those beside it.

    A link must have a combined probability of at least the threshold, and so must all that lie between it and the best
    link of its source word, and of its target word (DeNero & Klein 2007, "Tailoring word alignments to syntactic
    machine translation"). Thus a low threshold gives a word several neighbours, but never two far apart.

    :param forward: as for :func:`above_threshold`, which says what ``combine`` means.
    :param source_lengths: (pairs,) words in each source sentence.
    :param target_lengths: (pairs,) words in each target sentence.

    >>> from pyro_unsup.evaluate import competitive
    >>> competitive([0.9, 0.6, 0.1, 0.7], [0.9, 0.6, 0.1, 0.7], [1], [4]).tolist()
    [True, True, False, False]
    """
    from pyro_unsup.kernels.symmetrisation import compete

    both = np.ascontiguousarray(_combined(forward, backward, combine))
    sizes = [np.ascontiguousarray(to_numpy(x), np.int64) for x in (source_lengths, target_lengths)]
    cells = int((sizes[0] * sizes[1]).sum())
    if both.shape != (cells,):
        raise UnsupError(f"these sentences have {cells} cells in all, actual shape {both.shape}")
    result = np.empty(cells, np.bool_)
    compete(both, float(threshold), *sizes, result)
    return result


def _combined(forward: Array, backward: Array, combine: Combine) -> NDArray[np.float64]:  # (cells,)
    p, q = (to_numpy(x).astype(np.float64) for x in (forward, backward))
    if p.shape != q.shape:
        raise UnsupError(f"forward has shape {p.shape} but backward has {q.shape}: expected the same cells")
    if combine not in get_args(Combine):
        raise UnsupError(f"combine must be one of {', '.join(get_args(Combine))}, actual {combine!r}")
    if combine == "mean":
        both = (p + q) / 2
    elif combine in ("product", "geometric"):
        both = p * q if combine == "product" else np.sqrt(p * q)
    else:
        both = np.maximum(p, q) if combine == "max" else np.minimum(p, q)
    return both


def link_rows(chosen: Array, source_lengths: Array, target_lengths: Array) -> NDArray[np.int64]:  # (cells,) -> (n, 3)
    """The pair, source place and target place of each link.

    >>> from pyro_unsup.evaluate import link_rows
    >>> link_rows([False, True, True], [1, 1], [2, 1]).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    source, target = (to_numpy(x).astype(np.int64) for x in (source_lengths, target_lengths))
    offsets = np.concatenate([[0], np.cumsum(source * target)])
    cell = np.flatnonzero(to_numpy(chosen))
    pair = np.searchsorted(offsets, cell, side="right") - 1
    within = cell - offsets[pair]
    return np.stack([pair, within // target[pair], within % target[pair]], 1)
