"""Running sufficient statistics of a model's tables, and the weights that they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError, TableError
from ..estimate.base import Additive
from ..kernels.threads import plain_torch
from ..tables import Declaration, LazyTable
from .estimation import Estimation
from .expectation import Expectation, Marginal, at_iteration

#: Counts of one mini-batch: by table, the columns or cells that it touches (None for all), and their counts.
BatchCounts = Mapping[str, tuple[Tensor | None, Tensor]]


class Statistics:
    """Counts that change a little at a time, and weights to go with them.

    An estimator that adds pseudo-counts (:class:`.Additive`) is applied where a weight is read, so that an update costs
    what it touches; any other sees whole tables at every update. One that remembers something (:class:`.Parametric`)
    goes a short way from there at every update, such as a few steps of L-BFGS.

    :param weights: where to start. They are current until the first update.
    :param memory: what estimators remember, to begin with.
    :param mass: counts of each row at the start, shared out by its initial weights.
    """

    def __init__(
        self,
        declarations: Mapping[str, Declaration],
        estimation: Estimation,
        weights: Mapping[str, Tensor],
        memory: Mapping[str, Tensor],
        mass: float,
        dtype: torch.dtype,
    ) -> None:
        self.declarations, self._estimation, self._dtype = declarations, estimation, dtype
        self.memory, self.unit = dict(memory), 1.0
        self.current: dict[str, Tensor | LazyTable] = dict(weights)
        self.tables = {
            name: self._table(name, mass * declaration.layout.normalise(weights[name]).exp())
            for name, declaration in declarations.items()
        }
        self._others = {name: how for name, how in estimation.plain.items() if not isinstance(how, Additive)}

    def copy(self) -> Statistics:
        """The same counts and weights, to be changed apart from these."""
        new = copy(self)
        new.memory, new.tables = dict(self.memory), {name: table.copy() for name, table in self.tables.items()}
        new.current = {name: new.tables[name] if isinstance(w, LazyTable) else w for name, w in self.current.items()}
        return new

    def value(self, unit: float) -> None:
        """Say what a count is worth against an estimator's pseudo-counts."""
        self.unit = unit
        for table in self.tables.values():
            table.unit = unit

    def update(self, parts: BatchCounts, step: float) -> None:
        """Every table forgets by ``step`` and takes in ``step`` times fresh counts."""
        for name, table in self.tables.items():
            touched, fresh = parts.get(name, (_nothing(), table.unscaled[..., :0]))
            table.update(fresh, step, touched)
        self.refresh()

    @property
    def all_additive(self) -> bool:
        """Whether every weight can be read off the counts of its row alone."""
        return not (self._others or self._estimation.groups)

    def shift(self, parts: BatchCounts) -> None:
        """Add to the counts of every table, without forgetting."""
        for name, (touched, change) in parts.items():
            self.tables[name].shift(change, touched)
        self.refresh()

    def refresh(self) -> None:
        """Make the weights that the counts stand for the current ones."""
        for name, how in self._others.items():
            table = self.tables[name]
            self.current[name] = how.weights(self.declarations[name], table.counts() * table.unit, self._whole(name))
        if self._estimation.groups:
            grouped = {name for group in self._estimation.groups for name in group.declarations}
            counts = {name: self.tables[name].counts() * self.tables[name].unit for name in grouped}
            self.memory |= self._estimation.update(counts, self.memory, briefly=True)  # in place: the state has it too
            self.current |= self._estimation.tables(self.memory, self._dtype)
        self._read_tables()

    def tensors(self) -> dict[str, Tensor]:
        """Copies of what it takes to go on from here."""
        return {f"{name}.{key}": x for name, table in self.tables.items() for key, x in table.tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from :meth:`tensors`. The weights have to be those that the counts stand for."""
        for name, table in self.tables.items():
            prefix = f"{name}."
            try:
                table.restore({key.removeprefix(prefix): x for key, x in state.items() if key.startswith(prefix)})
            except TableError as error:
                raise FitError(f"table '{name}': {error}") from None
        self._read_tables()

    def fill(self, totals: Mapping[str, Tensor]) -> None:
        """Replace all counts. A row without counts keeps the proportions of its weights."""
        for name, declaration in self.declarations.items():
            layout, counts = declaration.layout, totals[name]
            empty = layout.row_sum(counts) == 0
            if bool(empty.any()):
                kept = self.tables[name].floor * layout.normalise(self._whole(name)).exp()
                counts = counts.where(~layout.spread(empty).expand(layout.shape), kept)
            self.tables[name] = self._table(name, counts)
        self.refresh()

    def _table(self, name: str, counts: Tensor) -> LazyTable:
        declaration, how = self.declarations[name], self._estimation.plain.get(name)
        if how is None or not isinstance(how, Additive):
            return LazyTable(declaration.layout, counts)
        return LazyTable(declaration.layout, counts, how.pseudo_counts(declaration), how.link)

    def _read_tables(self) -> None:
        self.current |= {name: self.tables[name] for name in self._estimation.plain if name not in self._others}

    def _whole(self, name: str) -> Tensor:
        now = self.current[name]
        return now.log_weights() if isinstance(now, LazyTable) else now


def expect_batch(
    marginal: Marginal,
    current: Mapping[str, Tensor | LazyTable],
    args: Any,
    kwargs: Any,
    iteration: int,
    others: bool = False,
) -> tuple[Expectation, dict[str, tuple[Tensor | None, Tensor]]]:
    """The E step of one mini-batch, and counts of what it touches.

    :param others: whether there are parameters besides tables.
    """
    with at_iteration(iteration, others):
        found = marginal.expect(current, args, kwargs, others=others, whole=False)
    refuse(found.log_marginal, marginal, iteration)
    with plain_torch():
        found.check(iteration)
        return found, _parts(found)


def refuse(log_marginal: float, marginal: Marginal, iteration: int) -> None:
    """Raise if the data that were just looked at are impossible."""
    if math.isnan(log_marginal):
        raise FitError(f"iteration {iteration}: the log marginal is NaN: {marginal.trouble()}")
    if log_marginal == -math.inf:
        raise FitError(
            f"iteration {iteration}: {marginal.trouble()}: smooth (AddLambda), forget more slowly (a higher power, "
            "larger mini-batches), or widen the support that forbids it"
        )


def _parts(found: Expectation) -> dict[str, tuple[Tensor | None, Tensor]]:
    # What rounding leaves below zero is zero.
    return {name: (found.touched[name], counts.clamp(min=0)) for name, counts in found.counts.items()}


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.long)
