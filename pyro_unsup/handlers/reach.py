"""How large a share of parts that obey a rule the structures of some data can have."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Decimal

import torch
from torch import Tensor

from ..distributions import Structure
from ..distributions.parts import Parts
from ..distributions.sequences import Sequences
from ..distributions.wrapped import Wrapped
from ..errors import StructureError
from .component import AtLeast, truth


def check_reachable(fn: Structure, parts: Parts, value: Tensor, one: AtLeast) -> None:
    """Refuse a share of obeying parts that is more than the best structures have.

    :param fn: the site, whose weights tell what is possible.
    """
    with torch.no_grad():
        obeys = truth(one.rule, parts).double().expand(parts.shape)
        fn, value = _even(fn, value)
        reached = _with_most(fn, value, obeys, one.share)
        if not reached < one.share:
            return
        largest = _largest_from(fn, value, obeys, reached)
    if not largest:
        raise StructureError(
            f"{one!r}: no structure of these data has a part that obeys the rule: does it name tags, words or numbers "
            "that the data have?"
        )
    raise StructureError(
        f"{one!r}: no structures have so many parts that obey, of all parts. The largest share that they can "
        f"reach in these data is {rounded_down(largest, 4)}: ask for {rounded_down(0.98 * largest, 2)}, say"
    )


def _largest_from(fn: Structure, value: Tensor, obeys: Tensor, share: float) -> float:
    """The largest share, from one that can be reached. Structures may differ in how many parts they have, so those with
    the most parts to spare above a share need not have the largest one; but what they have can be asked for next, and
    what rises no more is the largest (Dinkelbach 1967)."""
    while (more := _with_most(fn, value, obeys, share)) > share:
        share = more
    return share


def _with_most(fn: Structure, value: Tensor, obeys: Tensor, share: float) -> float:
    """The share of the structures that have the most obeying parts above this share of all their parts. NaN without
    parts."""
    alike = fn.with_potentials(**{fn.part: obeys - share})
    there = fn.to_parts(alike.posterior(value).mode()).double()
    return float((there * obeys).sum() / there.sum())


def _even(fn: Structure, value: Tensor) -> tuple[Structure, Tensor]:
    """The distribution with all structures alike that have any weight, and its value."""
    if isinstance(fn, Sequences) and fn.density is not None and fn.is_flat:  # densities become a table
        fn, value = fn.laid_flat(value)
    found = fn.with_weights({name: _even_weights(w) for name, w in fn.weights.items()})
    if not isinstance(found, Wrapped):
        found.extra = {name: _even_weights(x) for name, x in found.extra.items()}
    return found, value


def _even_weights(w: Tensor) -> Tensor:
    return torch.where(w > -torch.inf, 0.0, w.double())


def rounded_down(x: float, digits: int) -> str:
    """A number above 0, never more than it is.

    >>> from pyro_unsup.handlers.reach import rounded_down
    >>> rounded_down(0.13641, 2), rounded_down(0.0099999, 2), rounded_down(0.5, 2)
    ('0.13', '0.0099', '0.50')
    """
    last = Decimal(1).scaleb(math.floor(math.log10(x)) - digits + 1)
    return f"{Decimal(x).quantize(last, ROUND_DOWN):f}"
