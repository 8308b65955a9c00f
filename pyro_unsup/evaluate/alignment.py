"""How well do predicted links match gold links, of which some are sure and others merely possible?

**References:** [1] F. J. Och and H. Ney (2003) "A systematic comparison of various statistical alignment models".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data.links import Links
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, to_numpy


@dataclass(frozen=True)
class _Overlap:
    """Numbers of links: predicted, sure, predicted and sure, predicted and possible (sure ones are possible too)."""

    predicted: int
    sure: int
    both_sure: int
    both_possible: int


def alignment_error_rate(gold: Links, predicted: Links | Array) -> float:
    """1 - (\\|A and S\\| + \\|A and P\\|) / (\\|A\\| + \\|S\\|), of predicted links A, sure S and possible P [1].

    :param gold: pairs that are not ``annotated`` there are left out.
    :param predicted: links, or rows for them, shape (links, 3): pair, source place, target place.

    >>> import pyro_unsup as pu
    >>> gold = pu.data.Links(1, [[0, 0, 0], [0, 1, 1]], [True, False])
    >>> pu.evaluate.alignment_error_rate(gold, [[0, 0, 0], [0, 1, 1]])
    0.0
    >>> pu.evaluate.alignment_error_rate(gold, [[0, 0, 1], [0, 1, 1]])
    0.6666666666666667
    """
    return _error_rate(_overlap(gold, predicted))


def alignment_report(gold: Links, predicted: Links | Array) -> dict[str, float]:
    """``aer``, ``precision`` (predicted links that are possible) and ``recall`` (sure links that are predicted).

    Of no links at all the precision is 1, and so is the recall of no sure links. Pairs that are not ``annotated`` in
    ``gold`` are left out.

    >>> import pyro_unsup as pu
    >>> gold = pu.data.Links(1, [[0, 0, 0], [0, 1, 1]], [True, False])
    >>> pu.evaluate.alignment_report(gold, [[0, 1, 1]])
    {'aer': 0.5, 'precision': 1.0, 'recall': 0.0}
    """
    found = _overlap(gold, predicted)
    return {
        "aer": _error_rate(found),
        "precision": found.both_possible / found.predicted if found.predicted else 1.0,
        "recall": found.both_sure / found.sure if found.sure else 1.0,
    }


def _error_rate(found: _Overlap) -> float:
    if found.predicted + found.sure == 0:
        raise UnsupError("there are neither predicted nor sure links: the alignment error rate is undefined")
    return 1 - (found.both_sure + found.both_possible) / (found.predicted + found.sure)


def _overlap(gold: Links, predicted: Links | Array) -> _Overlap:
    if not isinstance(predicted, Links):
        predicted = Links(len(gold), to_numpy(predicted))
    if len(predicted) != len(gold):
        raise UnsupError(
            f"predicted links of {len(predicted)} pairs but gold links of {len(gold)}: score the same text"
        )
    rows = predicted.rows[gold.annotated[predicted.rows[:, 0]]], gold.rows
    places = 1 + max((int(x[:, 1:].max()) for x in rows if len(x)), default=0)
    ours, theirs = (_keys(x, places) for x in rows)
    possible = np.isin(theirs, ours, assume_unique=True)
    return _Overlap(len(ours), int(gold.sure.sum()), int((possible & gold.sure).sum()), int(possible.sum()))


def _keys(rows: NDArray[np.int32], places: int) -> NDArray[np.int64]:  # (n, 3) -> (n,)
    pair, i, j = rows.astype(np.int64).T
    keys: NDArray[np.int64] = (pair * places + i) * places + j
    return keys
