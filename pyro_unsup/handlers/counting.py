"""``Counting``: expected counts are the gradient of the log marginal in the log-weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import TableError
from ..tables import Declaration, LazyTable
from .declared import DeclaredMessenger
from .given import part_of


class Counting(DeclaredMessenger):
    """Answers tables with leaves of the gradient, and reads counts off a log marginal computed under it.

    Only the touched part of a table becomes a leaf, so the gradient of a mini-batch is as small as the mini-batch.

        >>> import pyro, torch
        >>> from pyro_unsup.handlers import Counting
        >>> from pyro_unsup.tables import table
        >>> weights = {"coin": torch.tensor([0.3, 0.7]).log()}
        >>> with Counting(weights) as counting:
        ...     coin = table("coin", 2)
        ...     log_marginal = 5 * coin[0] + 2 * coin[1]  # five heads, two tails
        >>> counting.counts(log_marginal)["coin"]
        tensor([5., 2.])
    """

    def __init__(self, weights: Mapping[str, Tensor | LazyTable]) -> None:
        super().__init__()
        self.weights = weights
        self.leaves: dict[str, Tensor] = {}

    def __enter__(self) -> Counting:
        self.leaves = {}
        super().__enter__()
        return self

    def _answer(self, declaration: Declaration) -> Tensor:
        name = declaration.name
        if name not in self.weights:
            raise TableError(
                f"table '{name}' has no weights to count with: there are {sorted(self.weights)}. "
                "A model must declare the same tables whenever it runs"
            )
        # No look at the support: this runs at every E step, and engines keep structural zeros where they are.
        self.leaves[name] = leaf = part_of(declaration, self.weights[name]).detach().requires_grad_()
        return leaf

    def counts(self, log_marginal: Tensor) -> dict[str, Tensor]:  # () -> shapes of the tables
        """Expected counts of every table, for the touched part where only a part was asked for."""
        if not self.leaves:
            return {}
        if not log_marginal.requires_grad:  # it uses none of the tables
            return {name: torch.zeros_like(leaf) for name, leaf in self.leaves.items()}
        found = torch.autograd.grad(
            log_marginal, list(self.leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return dict(zip(self.leaves, found, strict=True))
