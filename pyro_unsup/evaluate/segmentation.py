"""How well does a segmentation match the gold words? All scores are fractions of 1, over the whole text (micro).

Three ways to look at the same cuts: words found where they are (tokens), cuts found inside sentences (boundaries), and
the list of different words (lexicon). The edges of sentences are given, and no boundaries.

**References:** [1] S. Goldwater, T. Griffiths and M. Johnson (2009) "A Bayesian framework for word segmentation", 3.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, Ids, flat_ids, same_length, to_numpy


def segmentation_report(gold: Array, predicted: Array, symbols: Array, lengths: Array) -> dict[str, float]:
    """``token_precision``, ``token_recall`` and ``token_f1``; the same of ``boundary`` and of ``lexicon``.

    :param gold: 1 (or true) where a word ends, shape (symbols,).
    :param predicted: in the same way, shape (symbols,).
    :param symbols: symbol ids, shape (symbols,), which tell whether two words are the same.
    :param lengths: symbols in each sentence, shape (sentences,).

    >>> from pyro_unsup.evaluate import segmentation_report
    >>> report = segmentation_report(  # the dog / a dog, found as thed og / a dog
    ...     gold=[0, 0, 1, 0, 0, 1, 1, 0, 0, 1],
    ...     predicted=[0, 0, 0, 1, 0, 1, 1, 0, 0, 1],
    ...     symbols=[0, 1, 2, 3, 4, 5, 6, 3, 4, 5],
    ...     lengths=[6, 4],
    ... )
    >>> report["token_f1"], report["boundary_f1"], round(report["lexicon_f1"], 4)
    (0.5, 0.5, 0.5714)
    """
    ids, sizes = flat_ids(symbols, "symbols"), flat_ids(lengths, "lengths")
    if sizes.sum() != len(ids):
        raise UnsupError(f"lengths add up to {sizes.sum()}, actual number of symbols {len(ids)}")
    last = np.cumsum(sizes)[sizes > 0] - 1
    right, found = (_ends(x, name, last, len(ids)) for x, name in ((gold, "gold"), (predicted, "predicted")))
    (right_end, right_start), (found_end, found_start) = _words(right), _words(found)
    # A word is there in both if it ends in both, and begins where the other begins.
    both, i, j = np.intersect1d(right_end, found_end, assume_unique=True, return_indices=True)
    same = int((right_start[i] == found_start[j]).sum())
    listed, made = _types(ids, right_start, right_end), _types(ids, found_start, found_end)
    edges = len(last)
    return {
        **_scores("token", same, len(found_end), len(right_end)),
        **_scores("boundary", len(both) - edges, len(found_end) - edges, len(right_end) - edges),
        **_scores("lexicon", len(listed & made), len(made), len(listed)),
    }


def _ends(x: Array, name: str, last: Ids, symbols: int) -> NDArray[np.bool_]:
    found = to_numpy(x)
    same_length(symbols, found, name)
    if not np.isin(found, (0, 1)).all():
        raise UnsupError(f"{name} must be 1 where a word ends and 0 elsewhere, found another number")
    if not (found[last] == 1).all():
        raise UnsupError(f"{name} must end a word with every sentence, but sentences end inside words")
    return found.astype(np.bool_)


def _words(ends: NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """Last and first symbol of each word."""
    last = np.flatnonzero(ends)
    return last, np.concatenate([[0], last[:-1] + 1])[: len(last)]


def _types(symbols: Ids, first: Ids, last: Ids) -> set[bytes]:
    """The different words."""
    raw, size = symbols.tobytes(), symbols.itemsize
    return {raw[i:j] for i, j in zip((first * size).tolist(), ((last + 1) * size).tolist(), strict=True)}


def _scores(name: str, right: int, found: int, gold: int) -> dict[str, float]:
    """Where nothing is to be found and nothing was, all is right."""
    if found == gold == 0:
        right = found = gold = 1
    return {
        f"{name}_precision": right / found if found else 0.0,
        f"{name}_recall": right / gold if gold else 0.0,
        f"{name}_f1": 2 * right / (found + gold),
    }
