"""What the settings of estimators may be: numbers, and arrays of them."""

from __future__ import annotations

from numbers import Real

import numpy as np
import torch
from torch import Tensor


def is_number(x: object) -> bool:
    """Whether it can be compared with one: a plain number or a tensor with a single one, not its spelling.

    >>> from pyro_unsup.estimate.settings import is_number
    >>> is_number(0.5), is_number("0.5"), is_number(True)
    (True, False, False)
    """
    if isinstance(x, Tensor):
        return x.dim() == 0 and not x.is_complex() and x.dtype != torch.bool
    return isinstance(x, Real) and not isinstance(x, bool | np.bool_)


def to_tensor(x: object) -> Tensor | None:
    """A tensor, an array or nested lists as a tensor of doubles of their own; None if they are no numbers.

    >>> from pyro_unsup.estimate.settings import to_tensor
    >>> to_tensor([[1, 0], [0, 1]])
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    if isinstance(x, Tensor):
        return None if x.is_complex() or x.dtype == torch.bool else x.detach().double()
    if not isinstance(x, np.ndarray | list | tuple):
        return None
    try:
        found = np.asarray(x)
    except ValueError:  # lists of different lengths
        return None
    return torch.tensor(found, dtype=torch.float64) if found.dtype.kind in "iuf" else None
