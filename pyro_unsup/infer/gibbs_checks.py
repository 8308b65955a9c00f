"""Numbers that samplers are given: what counts as one, however it was passed."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from ..errors import FitError


def is_positive(value: Any) -> bool:
    """Whether this is a number, positive and finite."""
    try:
        return bool(0 < value < math.inf)
    except (TypeError, ValueError):  # no number, or several
        return False


def is_whole(value: Any, least: int) -> bool:
    """Whether this is a whole number, and not below that."""
    try:
        return index(value) >= least
    except TypeError:
        return False


def numbers(name: str, given: Any, axes: int = 0) -> np.ndarray[Any, Any] | None:
    """What was given as a number, or with an axis as a number for each label; None if nothing was."""
    if given is None:
        return None
    try:
        found = np.asarray(given)
    except ValueError:  # rows of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in "iuf" or found.ndim > axes:
        actual = " ".join(repr(given).split())
        raise FitError(f"{name} must be a number{', or one a label' if axes else ''}, actual {actual:.80}")
    return found.astype(np.float64)
