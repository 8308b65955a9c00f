"""Weights that are computed from tables, and say how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Derivation:
    """How weights came about: ``function(*inputs)``.

    :param function: the same for the same inputs, always.
    """

    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def derived(function: Callable[..., Any], *inputs: Any) -> Any:
    """Call a function of tables. Its result remembers how it was computed (:func:`derivation_of`).

    A model that does so computes its weights where others can see it, and EM need not run it again for the same data.

    :param function: of tensors and anything else, to a tensor or a tuple of tensors. It has no state: a function of a
        module, or a method of an object that never changes.

    >>> import torch
    >>> from pyro_unsup.tables.derived import derivation_of, derived
    >>> turned = derived(torch.flip, torch.tensor([0.1, 0.9], requires_grad=True), (0,))
    >>> derivation, output = derivation_of(turned)
    >>> derivation.inputs[1:], output
    (((0,),), 0)
    """
    found, how = function(*inputs), Derivation(function, inputs)
    for output, one in enumerate(found if isinstance(found, tuple) else (found,)):
        if one.requires_grad:
            one._derivation = how, output, one._version
    return found


def derivation_of(x: Tensor) -> tuple[Derivation, int] | None:
    """How a tensor was derived, and which output of the function it is; None if that is not known."""
    how, output, version = getattr(x, "_derivation", (None, 0, 0))
    return None if how is None or x._version != version else (how, output)  # it may have been changed since
