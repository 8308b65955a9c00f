"""Drawing sentences of given lengths from a dependency model.

What a half weighs, summed over all tags in it but its head's, depends only on how many words it has. So the recursion
of :class:`pyro_unsup.distributions.Dependency` goes over numbers of words and tags of heads:
O(n^2 K^2) for all lengths up to n.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..array import Array
from ..errors import StructureError
from .choice import choose
from .dependency import as_array
from .ring import LOG


def draw_sentences(weights: dict[str, Tensor], lengths: Array, uniforms: Array) -> Tensor:  # (tokens,)
    """Tags of sentences of these lengths.

    :param uniforms: (tokens, 2) float64 in [0, 1).
    """
    root, attach, stop = (as_array(weights[name]) for name in ("root", "attach", "stop"))
    attach = attach[:, :, None] if attach.ndim == 3 else attach  # (K, 2, valences, K)
    longest = int(lengths.max()) if len(lengths) else 0
    sealed, opened, half = _charts(attach, stop, longest)
    tags = np.empty(int(lengths.sum()), np.int64)
    bad = _draw(root, attach, sealed, opened, half, lengths, uniforms, tags)
    if bad >= 0:
        raise StructureError(f"these weights allow no sentence of {bad} words: none can be drawn")
    return torch.from_numpy(tags)


def _charts(attach: Array, stop: Array, longest: int) -> tuple[Array, Array, Array]:
    """Log-weights of halves, by direction.

    :return: ``sealed`` and ``opened`` (2, longest, K) with w words below the head; ``half`` (2, longest, K, K) with the
        last child attached, by head and child, and w words up to that child, itself and all on its inner side included.
    """
    K = len(attach)
    sealed, opened = np.full((2, longest, K), -np.inf), np.full((2, longest, K), -np.inf)
    half = np.full((2, longest, K, K), -np.inf)
    for w in range(longest):
        for side in range(2):
            if w == 0:
                sealed[side, 0], opened[side, 0] = stop[:, side, 0, 0], stop[:, side, 0, 1]
                continue
            # The words between head and child: v below the head on this side, the others below the child on its other.
            # Where none are below the head, the child is its first.
            first, later = attach[:, side, 0], attach[:, side, -1]
            ways = [opened[side, v][:, None] + sealed[1 - side, w - 1 - v] + (later if v else first) for v in range(w)]
            half[side, w] = np.logaddexp.reduce(ways, 0)
            ways = [np.logaddexp.reduce(half[side, v] + sealed[side, w - v], 1) for v in range(1, w + 1)]
            whole = np.logaddexp.reduce(ways, 0)
            sealed[side, w], opened[side, w] = whole + stop[:, side, 1, 0], whole + stop[:, side, 1, 1]
    return sealed, opened, half


@njit(cache=True, nogil=True)
def _draw(
    root: Array,  # (K,)
    attach: Array,  # (K, 2, valences, K)
    sealed: Array,  # (2, longest, K)
    opened: Array,  # (2, longest, K)
    half: Array,  # (2, longest, K, K)
    lengths: Array,  # (B,)
    uniforms: Array,  # (tokens, 2)
    tags: Array,  # (tokens,) out
) -> int:
    """Draw from the top; gives a length that has no sentence, or -1."""
    K, N, at = len(root), sealed.shape[1], 0
    ways = np.empty(N * K)
    todo = np.empty((3 * N, 3), np.int64)  # halves: side, head, words below it
    for n in lengths:
        if n == 0:
            continue
        for r in range(n):
            for tag in range(K):
                ways[r * K + tag] = root[tag] + sealed[0, r, tag] + sealed[1, n - 1 - r, tag]
        if ways[: n * K].max() == -np.inf:
            return int(n)
        used = at
        chosen = choose(LOG, ways[: n * K], uniforms[used, 0])
        head = at + chosen // K
        tags[head] = chosen % K
        todo[0, 0], todo[0, 1], todo[0, 2] = 0, head, chosen // K
        todo[1, 0], todo[1, 1], todo[1, 2] = 1, head, n - 1 - chosen // K
        size = 2
        while size > 0:
            size -= 1
            side, head, w = todo[size, 0], todo[size, 1], todo[size, 2]
            if w == 0:
                continue
            used += 1
            h = tags[head]
            for v in range(1, w + 1):
                for tag in range(K):
                    ways[(v - 1) * K + tag] = half[side, v, h, tag] + sealed[side, w - v, tag]
            chosen = choose(LOG, ways[: w * K], uniforms[used, 0])
            v, tag = chosen // K + 1, chosen % K
            child = head + v if side == 1 else head - v
            tags[child] = tag
            for k in range(v):
                weight = attach[h, side, 0 if k == 0 else -1, tag]
                ways[k] = opened[side, k, h] + sealed[1 - side, v - 1 - k, tag] + weight
            k = choose(LOG, ways[:v], uniforms[used, 1])
            todo[size, 0], todo[size, 1], todo[size, 2] = side, head, k
            todo[size + 1, 0], todo[size + 1, 1], todo[size + 1, 2] = 1 - side, child, v - 1 - k
            todo[size + 2, 0], todo[size + 2, 1], todo[size + 2, 2] = side, child, w - v
            size += 3
        at += n
    return -1
