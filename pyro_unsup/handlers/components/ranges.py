"""Bounds of numbers, such as widths, that components are told."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...errors import StructureError


def within(numbers: Tensor, least: Any, most: Any, what: str) -> Tensor:  # bool
    """Which numbers lie between two bounds, both included.

    :param most: None for no upper bound.
    :param what: the numbers are, for errors.

    >>> import torch
    >>> from pyro_unsup.handlers.components.ranges import within
    >>> within(torch.arange(5), 1, 3, "width").tolist()
    [False, True, True, True, False]
    """
    for bound in (least, most):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 1):
            raise StructureError(f"{what}: bounds should be whole numbers, 1 or more, actual {bound!r:.40}")
    if least is None:
        raise StructureError(f"{what}: the lower bound should be a whole number, 1 or more, actual None")
    if most is not None and most < least:
        raise StructureError(f"{what}: the lower bound {least} is above the upper bound {most}, so nothing obeys")
    found: Tensor = numbers >= least
    return found if most is None else found & (numbers <= most)
