"""``declared``: find out which tables a model has, without running any inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..errors import TableError
from ..tables import Declaration, take


class DeclaredMessenger(Messenger):
    """Records every table that a model declares, and answers with uniform rows.

    >>> import pyro_unsup as pu
    >>> with pu.handlers.DeclaredMessenger() as tables:
    ...     answer = pu.table("sides", 2, prior=0.5)
    >>> answer.exp(), tables.found["sides"].prior
    (tensor([0.5000, 0.5000], dtype=torch.float64), tensor(0.5000, dtype=torch.float64))
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.dtype = dtype
        self.found: dict[str, Declaration] = {}

    def __enter__(self) -> DeclaredMessenger:
        self.found = {}
        super().__enter__()
        return self

    def _pyro_table(self, msg: Any) -> None:
        declaration: Declaration = msg["args"][0]
        if declaration.name in self.found:
            raise TableError(
                f"table '{declaration.name}' is declared twice in one run of the model: declare it once "
                "and use the weights as often as you like"
            )
        self.found[declaration.name] = declaration
        msg["value"] = self._answer(declaration)
        msg["done"] = msg["stop"] = True

    def _answer(self, declaration: Declaration) -> Tensor:
        return take(declaration.layout.uniform(self.dtype), declaration.touched)


def declared(model: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Declaration]:
    """The tables that a run of the model declares, by name, in order.

    >>> import pyro_unsup as pu
    >>> def coin(n):
    ...     return pu.table("sides", n, prior=0.5)
    >>> pu.handlers.declared(coin, 2)["sides"].layout.shape
    torch.Size([2])
    """
    with DeclaredMessenger() as tables:
        model(*args, **kwargs)
    return tables.found
