"""Numbers that sum up data or hidden structure, for predictive checks: each a function of values and lengths.

Values lie flat, example by example; ``lengths`` are the numbers of values of each example. Every task names those that
suit its data (``statistics``) and its hidden structure (``structure_statistics``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: From values (rows, ...) and lengths (examples,) to a number.
Statistic = Callable[[Array, Array], float]


def _owner(lengths: Array) -> Array:  # (rows,)
    return np.repeat(np.arange(len(lengths)), lengths)


def _pairs(x: Array, lengths: Array) -> tuple[Array, Array]:
    """Neighbours within an example: the first and the second of each pair."""
    owner = _owner(lengths)
    inside = owner[1:] == owner[:-1]
    return x[:-1][inside], x[1:][inside]


# -- words, and other symbols


def types(words: Array, lengths: Array) -> float:
    """How many different words there are."""
    return float(len(np.unique(words)))


def once_only(words: Array, lengths: Array) -> float:
    """How many words occur once."""
    return float((np.unique(words, return_counts=True)[1] == 1).sum())


def repeats(words: Array, lengths: Array) -> float:
    """The share of words that follow themselves in their sentence."""
    first, second = _pairs(words, lengths)
    return float(np.mean(first == second)) if len(first) else 0.0


def yields(spans: Array, lengths: Array) -> float:
    """Of spans, (rows, 2): how many different yields there are."""
    return float(len(np.unique(spans[:, 0])))


def contexts(spans: Array, lengths: Array) -> float:
    """Of spans, (rows, 2): how many different contexts there are."""
    return float(len(np.unique(spans[:, 1])))


def bigrams(labels: Array, lengths: Array) -> float:
    """How many different pairs of neighbours there are."""
    first, second = _pairs(labels, lengths)
    return float(len(np.unique(np.stack([first, second]), axis=1).T)) if len(first) else 0.0


def bigram_information(labels: Array, lengths: Array) -> float:
    """How much a label tells about the next one in its sentence, in bits: their mutual information."""
    first, second = _pairs(labels, lengths)
    if not len(first):
        return 0.0
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(first))
    seen = joint > 0
    expected = joint.sum(1, keepdims=True) * joint.sum(0)
    return float((joint[seen] * np.log2(joint[seen] / expected[seen])).sum())


def largest_share(labels: Array, lengths: Array) -> float:
    """The share of the most frequent label."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


# -- series of numbers


def mean(x: Array, lengths: Array) -> float:
    """The mean of all observations that are there; of vectors, of all coordinates."""
    return float(np.nanmean(x))


def deviation(x: Array, lengths: Array) -> float:
    """Their standard deviation."""
    return float(np.nanstd(x))


def smallest(x: Array, lengths: Array) -> float:
    """The smallest of them."""
    return float(np.nanmin(x))


def largest(x: Array, lengths: Array) -> float:
    """The largest of them."""
    return float(np.nanmax(x))


def autocorrelation(x: Array, lengths: Array) -> float:
    """The correlation of neighbours in a series; of vectors, the mean over coordinates."""
    first, second = _pairs(x if x.ndim > 1 else x[:, None], lengths)
    if np.isnan(first + second).all(0).any():  # no neighbours, or none that were both observed
        return 0.0
    centre = np.nanmean(x.reshape(len(x), -1), 0)
    both = np.nanmean((first - centre) * (second - centre), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nan_to_num(np.mean(both / np.nanvar(x.reshape(len(x), -1), 0))))


# -- states: runs of the same one


def _runs(states: Array, lengths: Array) -> Array:
    owner = _owner(lengths)
    new = np.flatnonzero(np.r_[True, (states[1:] != states[:-1]) | (owner[1:] != owner[:-1])])
    return np.diff(np.r_[new, len(states)])


def mean_run(states: Array, lengths: Array) -> float:
    """How long a state stays, on average."""
    return float(_runs(states, lengths).mean())


def longest_run(states: Array, lengths: Array) -> float:
    """How long a state stays at most."""
    return float(_runs(states, lengths).max())


# -- segments


def _segments(ends: Array, lengths: Array) -> Array:
    return np.diff(np.r_[0, np.flatnonzero(ends) + 1])


def mean_word_length(ends: Array, lengths: Array) -> float:
    """Symbols in a segment, on average. ``ends`` are 1 where a segment ends."""
    return float(_segments(ends, lengths).mean())


def longest_word(ends: Array, lengths: Array) -> float:
    """Symbols in the longest segment."""
    return float(_segments(ends, lengths).max())


def one_symbol_words(ends: Array, lengths: Array) -> float:
    """The share of segments of one symbol."""
    return float((_segments(ends, lengths) == 1).mean())


# -- trees, as the head of each word: 0 for the root, k for the k-th word of the sentence


def _depths(heads: Array, lengths: Array) -> Array:
    """Arcs between each word and the root."""
    offsets = np.repeat(np.r_[0, np.cumsum(lengths)[:-1]], lengths)
    at = np.where(heads == 0, -1, heads - 1 + offsets)
    depth, now = np.zeros(len(heads), np.int64), np.arange(len(heads))
    for _ in range(int(lengths.max(initial=0))):  # all words climb together
        climbing = now >= 0
        depth[climbing] += 1
        now[climbing] = at[now[climbing]]
        if not climbing.any():
            break
    return depth


def mean_depth(heads: Array, lengths: Array) -> float:
    """How far words are from the root, on average: 1 for the root word."""
    return float(_depths(heads, lengths).mean())


def deepest(heads: Array, lengths: Array) -> float:
    """How far the word is that is furthest from the root."""
    return float(_depths(heads, lengths).max())


def left_arcs(heads: Array, lengths: Array) -> float:
    """The share of words whose head stands before them, of all words but roots."""
    place, arcs = _places(lengths), heads > 0
    return float((heads[arcs] < place[arcs]).mean()) if arcs.any() else 0.0


def arc_length(heads: Array, lengths: Array) -> float:
    """How far heads are from their words, on average."""
    place, arcs = _places(lengths), heads > 0
    return float(np.abs(heads[arcs] - place[arcs]).mean()) if arcs.any() else 0.0


def _places(lengths: Array) -> Array:
    found: Array = np.arange(int(lengths.sum())) - np.repeat(np.r_[0, np.cumsum(lengths)[:-1]], lengths) + 1
    return found


def by_name(*found: Statistic) -> dict[str, Statistic]:
    """Statistics by the names of their functions."""
    return {getattr(one, "__name__", str(one)): one for one in found}
