"""E steps in which every example has weights of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..errors import FitError
from ..handlers import Handled
from ..kernels.threads import plain_torch
from ..tables import Declaration, Layout
from .examples import Examples
from .expectation import Expectation, Marginal, at_iteration
from .parameters import Parameters

#: The most examples that a model is asked for at once, and the most cells that their tables may have.
TOGETHER, CELLS = 256, 2**21


class OwnTables(Messenger):
    """Gives every table one more axis, the first: a set of weights for each of ``size`` examples."""

    size = 1

    def _pyro_table(self, msg: Any) -> None:
        declaration: Declaration = msg["args"][0]
        layout = Layout(torch.Size([self.size, *declaration.layout.shape]))
        msg["args"] = (replace(declaration, layout=layout, axes=None),)


class OwnExpectation:
    """E steps of examples that each have their own weights.

    A model that says so (``own_weights = True``) takes the tables of many examples with one more axis, and has all of
    them done at once. Others, and those under handlers, are run for each example.

    :param cells: of all tables together.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        parameters: Parameters,
        dtype: torch.dtype,
        plates: int,
        examples: Examples,
        cells: int,
    ) -> None:
        self.size, self.together = examples.size, bool(getattr(model, "own_weights", False))
        self._tables = OwnTables()
        self.marginal = Marginal(Handled(model, self._tables) if self.together else model, parameters, dtype, plates)
        step = max(1, min(TOGETHER, CELLS // cells)) if self.together else 1
        cuts = [*range(0, self.size, step), self.size]
        #: First and last example of every group, and the model's arguments for it.
        self.groups = [(first, last, examples.select(np.arange(first, last))) for first, last in pairwise(cuts)]

    def __call__(
        self, weights: Callable[[int, int], dict[str, Tensor]], iteration: int, others: bool = False
    ) -> Iterator[tuple[int, int, Expectation]]:
        """What E steps find, and for which examples: from the first to before the last.

        :param weights: from two such numbers to log-weights by table, (examples, *layout.shape); counts are shaped so.
        :param others: whether there are parameters besides tables.
        """
        for first, last, data in self.groups:
            tables = self.tables(weights, first, last)
            # The small things that torch does for one example need no threads.
            with at_iteration(iteration, others), nullcontext() if self.together else plain_torch():
                found = self.marginal.expect(tables, data, {}, others=others)
                if not self.together:
                    found.counts = {name: counts[None] for name, counts in found.counts.items()}
            if not np.isfinite(found.log_marginal):
                raise FitError(
                    f"iteration {iteration}: in examples {first} to {last - 1}, {self.marginal.trouble()}: widen the "
                    "support that forbids it"
                )
            found.check(iteration)
            yield first, last, found

    def tables(self, weights: Callable[[int, int], dict[str, Tensor]], first: int, last: int) -> dict[str, Tensor]:
        """The tables of some examples, as the model takes them."""
        self._tables.size, tables = last - first, weights(first, last)
        return tables if self.together else {name: w[0] for name, w in tables.items()}
