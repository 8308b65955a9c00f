"""Dependency heads and brackets of all sentences at once: finding cycles, and mending trees when words are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import IntArray, OffsetArray


def find_cycle(heads: IntArray, offsets: OffsetArray) -> int | None:
    """The first token of the corpus on a cycle of heads, or None. All sentences at once, by pointer doubling.

    >>> import numpy as np
    >>> from pyro_unsup.data.trees import find_cycle
    >>> find_cycle(np.array([2, 0, 2, 3, 2]), np.array([0, 2, 5])), find_cycle(np.array([2, 1]), np.array([0, 2]))
    (3, 0)
    """
    up = _parents(heads, offsets)
    steps, longest = 1, int(np.diff(offsets).max(initial=0))
    while steps <= longest:
        up, steps = up[up], 2 * steps
    lost = up[up < len(heads)]  # a token that has not reached the root by now has reached a cycle
    return int(lost.min()) if lost.size else None


def kept_before(mask: npt.NDArray[np.bool_]) -> OffsetArray:
    """Kept tokens before each fencepost of the whole corpus, shape ``(tokens + 1,)``."""
    return np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))


def keep_heads(heads: IntArray, offsets: OffsetArray, mask: npt.NDArray[np.bool_]) -> IntArray:
    """The heads of the kept tokens: the nearest kept ancestor, or the root. Also by pointer doubling.

    >>> import numpy as np
    >>> from pyro_unsup.data.trees import keep_heads
    >>> keep_heads(np.array([2, 3, 0]), np.array([0, 3]), np.array([True, False, True])).tolist()
    [2, 0]
    """
    root, nowhere = len(heads), len(heads) + 1
    up, before = _parents(heads, offsets), kept_before(mask)
    jump = np.where(np.concatenate((mask, [True, True])), np.arange(len(up)), up)
    while not np.array_equal(further := jump[jump], jump):
        jump = further
    head = jump[up[:root][mask]]
    rank = np.concatenate((before[:-1] + 1, [0, 0]))
    starts = np.repeat(offsets[:-1], np.diff(offsets))[mask]
    kept = rank[head] - np.where(head < root, before[starts], 0)
    return np.where(head == nowhere, -1, kept).astype(np.int32)


def spread_heads(heads: npt.NDArray[Any], offsets: OffsetArray, mask: npt.NDArray[np.bool_]) -> IntArray:
    """Heads of all tokens, where only the kept ones have been parsed: the way back from :func:`keep_heads`.

    What was left out hangs on the kept word before it, or else on the one after it, so that no two arcs cross that did
    not before. In a sentence without kept words each hangs on the one before it, and the first is the root.

    :param heads: of the kept tokens, by their numbers among the kept ones of their sentence, shape ``(kept,)``.
    :param offsets: of the sentences with all tokens, shape ``(sentences + 1,)``.
    :param mask: true for the kept tokens, shape ``(tokens,)``.

    >>> import numpy as np
    >>> from pyro_unsup.data import spread_heads
    >>> spread_heads(np.array([2, 0]), np.array([0, 5]), np.array([False, True, False, True, False])).tolist()
    [2, 4, 2, 0, 4]
    """
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    place = np.arange(len(mask)) - starts + 1  # from 1 in each sentence
    before, kept = kept_before(mask), np.flatnonzero(mask)
    first = before[starts]  # among all kept tokens, the first one of the sentence
    bare = before[np.repeat(offsets[1:], np.diff(offsets))] == first
    near = np.where(before[:-1] > first, before[:-1] - 1, first)
    full = np.where(bare, place - 1, 0)
    full[~mask & ~bare] = place[kept[near[~mask & ~bare]]]
    word = heads > 0
    full[kept] = heads
    full[kept[word]] = place[kept[first[kept][word] + heads[word] - 1]]
    return full.astype(np.int32)


def keep_spans(
    spans: IntArray, span_offsets: OffsetArray, offsets: OffsetArray, mask: npt.NDArray[np.bool_]
) -> tuple[IntArray, OffsetArray, OffsetArray]:
    """Brackets shrunk to the kept tokens, distinct and sorted, without those under two words; their offsets; and which
    bracket each of them was, the widest where several became one."""
    sentences, before = len(offsets) - 1, kept_before(mask)
    owner = np.repeat(np.arange(sentences), np.diff(span_offsets))
    edges = before[spans + offsets[owner][:, None]] - before[offsets[owner]][:, None]
    order = np.lexsort((spans[:, 0] - spans[:, 1], owner))  # the widest first
    order = order[(edges[:, 1] - edges[:, 0] >= 2)[order]]
    rows, first = np.unique(np.column_stack((owner, edges))[order], axis=0, return_index=True)
    ends = np.searchsorted(rows[:, 0], np.arange(sentences + 1)).astype(np.int64)
    return rows[:, 1:].astype(np.int32), ends, order[first]


def _parents(heads: IntArray, offsets: OffsetArray) -> OffsetArray:
    """The place in the corpus of each token's head, shape ``(tokens + 2,)``: root at ``tokens``, unknown after it."""
    root = len(heads)
    starts = np.repeat(offsets[:-1], np.diff(offsets))
    up = np.where(heads > 0, starts + heads - 1, np.where(heads == 0, root, root + 1))
    return np.concatenate((up, [root, root + 1]))
