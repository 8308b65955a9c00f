"""``given``: answer a model's tables with known log-weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..errors import TableError
from ..tables import Declaration, LazyTable, take


class GivenMessenger(Messenger):
    """Answers ``table`` with given log-weights, as ``poutine.condition`` answers ``sample`` with given values.

    Tables that are not named keep their meaning. Rows need not sum to one.

    >>> import torch, pyro_unsup as pu
    >>> with pu.handlers.GivenMessenger({"share": torch.tensor([0.25, 0.75]).log()}):
    ...     share = pu.table("share", 2)
    >>> share.exp()
    tensor([0.2500, 0.7500])
    """

    def __init__(self, weights: Mapping[str, Tensor | LazyTable]) -> None:
        super().__init__()
        self.weights = weights

    def _pyro_table(self, msg: Any) -> None:
        declaration: Declaration = msg["args"][0]
        if declaration.name in self.weights:
            msg["value"] = self._answer(declaration)
            msg["done"] = msg["stop"] = True

    def _answer(self, declaration: Declaration) -> Tensor:
        part, support = part_of(declaration, self.weights[declaration.name]), declaration.layout.support
        if support is not None and bool((part[~take(support, declaration.touched)] != -torch.inf).any()):
            raise TableError(
                f"table '{declaration.name}': the given weights allow what the model's support forbids; "
                "apply Layout.mask"
            )
        return part


def part_of(declaration: Declaration, weights: Tensor | LazyTable) -> Tensor:
    """The touched part of log-weights, if they have the shape that the model declared."""
    shape = weights.layout.shape if isinstance(weights, LazyTable) else weights.shape
    if shape != declaration.layout.shape:
        raise TableError(
            f"table '{declaration.name}': the model wants shape {tuple(declaration.layout.shape)}, "
            f"the given weights have {tuple(shape)}"
        )
    if isinstance(weights, LazyTable):
        return weights.log_weights(declaration.touched)
    return take(weights, declaration.touched)


def given(model: Callable[..., Any], weights: Mapping[str, Tensor | LazyTable]) -> Callable[..., Any]:
    """The model with its tables fixed: an ordinary Pyro program without those latent sites.

    :param weights: by table, log-weights or a :class:`.LazyTable`.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> fixed = pu.given(lambda: pu.table("coin", 2), {"coin": torch.tensor([0.3, 0.7]).log()})
    >>> fixed().exp()
    tensor([0.3000, 0.7000])
    """
    wrapped: Callable[..., Any] = GivenMessenger(weights)(model)
    return wrapped
