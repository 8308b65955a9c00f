"""Brackets of many sentences as rows (sentence, start, end): put in order, and asked whether they cross."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import OffsetArray
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.errors import InputError

Rows = npt.NDArray[np.int64]  # (brackets, 3)


def bracket_rows(corpus: Corpus) -> Rows:
    """The brackets of a corpus as rows (sentence, start, end), shape ``(brackets, 3)``.

    >>> from pyro_unsup.data import Corpus, Vocab, bracket_rows
    >>> spans = {"spans": [[0, 2], [0, 3], [1, 3]], "span_offsets": [0, 1, 3]}
    >>> bracket_rows(Corpus([0] * 5, [0, 2, 5], Vocab(["a"]), **spans)).tolist()
    [[0, 0, 2], [1, 0, 3], [1, 1, 3]]
    """
    if corpus.spans is None or corpus.span_offsets is None:
        raise InputError("this corpus has no brackets; read it from a treebank (read_brackets)")
    owner = np.repeat(np.arange(len(corpus)), np.diff(corpus.span_offsets))
    return np.column_stack((owner, corpus.spans)).astype(np.int64)


def tidy_rows(brackets: Any, lengths: OffsetArray, name: str) -> Rows:
    """Brackets of two words or more, sorted, each of them once; an error where one does not lie in its sentence.

    :param brackets: rows (sentence, start, end), shape ``(brackets, 3)``, as an array, a list or a tensor.
    :param lengths: shape ``(sentences,)``.
    :param name: what they are called in an error.
    """
    rows = np.asarray(brackets)
    if rows.size == 0:
        return np.empty((0, 3), np.int64)
    if rows.dtype.kind not in "iu" or rows.ndim != 2 or rows.shape[1] != 3:
        raise InputError(
            f"{name}: expected integers of shape (brackets, 3), rows of sentence, start and end, "
            f"found {rows.dtype} of shape {rows.shape}"
        )
    sentence, start, end = rows.T.astype(np.int64)
    there = (sentence >= 0) & (sentence < len(lengths))
    limit = np.where(there, lengths[np.where(there, sentence, 0)], 0) if len(lengths) else np.zeros_like(end)
    bad = np.flatnonzero(~there | (start < 0) | (start >= end) | (end > limit))
    if bad.size:
        which, i, j = rows[bad[0]].tolist()
        where = f"{limit[bad[0]]} words" if there[bad[0]] else f"not among the {len(lengths)} sentences"
        raise InputError(f"{name}: the span ({i}, {j}) does not lie in sentence {which} ({where})")
    side = int(lengths.max()) + 1
    keys = np.unique(((sentence * side + start) * side + end)[end - start > 1])
    return np.column_stack((keys // side**2, keys // side % side, keys % side))


def crosses(rows: Rows, others: Rows, lengths: OffsetArray) -> npt.NDArray[np.bool_]:  # (m, 3), (k, 3) -> (m,)
    """Whether each bracket crosses one of the others of its sentence: they overlap, and neither holds the other.

    (i, j) is crossed by what ends inside it and starts before it, or starts inside it and ends after it. So each
    fencepost knows the first start of what ends there, and the last end of what starts there, and a bracket asks for
    the least and the greatest of those inside it.

    >>> import numpy as np
    >>> from pyro_unsup.data.spans import crosses
    >>> crosses(np.array([[0, 0, 2]]), np.array([[0, 1, 3]]), np.array([3]))
    array([ True])
    """
    base = np.concatenate(([0], np.cumsum(lengths + 1)))  # where the fenceposts of each sentence are
    sentence, start, end = others.T
    first, last = np.full(base[-1], base[-1]), np.full(base[-1], -1)
    np.minimum.at(first, base[sentence] + end, start)
    np.maximum.at(last, base[sentence] + start, end)
    sentence, start, end = rows.T
    low, high = base[sentence] + start + 1, base[sentence] + end  # of the fenceposts inside: low <= p < high
    found = np.zeros(len(rows), np.bool_)
    inside = np.flatnonzero(high > low)
    power = np.floor(np.log2(high[inside] - low[inside])).astype(np.int64)
    for k in range(int(power.max(initial=-1)) + 1):  # first and last: now of 2 ** k fenceposts from each one on
        some = inside[power == k]
        left, right = low[some], high[some] - 2**k
        found[some] = (np.minimum(first[left], first[right]) < start[some]) | (
            np.maximum(last[left], last[right]) > end[some]
        )
        first = np.minimum(first[: -(2**k)], first[2**k :])
        last = np.maximum(last[: -(2**k)], last[2**k :])
    return found


def check_nested(rows: Rows, lengths: OffsetArray, name: str) -> None:
    """Raise if two brackets of one sentence cross."""
    bad = np.flatnonzero(crosses(rows, rows, lengths))
    if bad.size:
        sentence, i, j = rows[bad[0]].tolist()
        for other, a, b in rows[bad].tolist():
            if other == sentence and (a < i < b < j or i < a < j < b):
                raise InputError(
                    f"{name}: the spans ({i}, {j}) and ({a}, {b}) of sentence {sentence} cross, expected a tree; "
                    "drop one of them"
                )
