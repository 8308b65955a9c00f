"""The feature matrix of one template, and its products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...array import Array
from ...errors import TableError
from ...tables import Axis, Declaration
from .feature_names import Family
from .incidence import Incidence, along, crossed, jointly, places_of
from .template import Template

#: Vectors as long as the weights that training holds: weights, gradients, a trial of each, what L-BFGS remembers.
VECTORS = 25
#: Bytes that Python needs for a value that it has not met before.
OBJECT = 250


@dataclass(frozen=True, eq=False)
class Factored:
    """All pairs of the values of rows and outcomes, on a dense table. Cells are never spelled out."""

    rows: Incidence
    outcomes: Incidence

    @property
    def shape(self) -> tuple[int, int]:
        """Decisions and contexts."""
        return len(self.outcomes.values), len(self.rows.values)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def add(self, weights: Array, logits: Array) -> None:  # (F,), (cells,)
        from ...kernels.features import add_factored

        add_factored(*self._arrays, weights.reshape(self.shape), self.rows.plain, self._by_row(logits))

    def add_back(self, cells: Array, weights: Array) -> None:  # (cells,), (F,)
        from ...kernels.features import add_factored_back

        add_factored_back(*self._arrays, self.rows.plain, self._by_row(cells), weights.reshape(self.shape))

    @property
    def _arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.rows.starts, self.rows.ids, self.outcomes.starts, self.outcomes.ids

    def _by_row(self, cells: Array) -> Array:
        return cells.reshape(len(self.rows.starts) - 1, -1)


@dataclass(frozen=True, eq=False)
class Sparse:
    """The features of every cell: ``ids[starts[i] : starts[i + 1]]``; each cell has its own if there are no ids."""

    starts: Array | None
    ids: Array
    size: int

    def add(self, weights: Array, logits: Array) -> None:
        from ...kernels.features import add_sparse

        if self.starts is None:
            logits += weights
        else:
            add_sparse(self.starts, self.ids, weights, logits)

    def add_back(self, cells: Array, weights: Array) -> None:
        from ...kernels.features import add_sparse_back

        if self.starts is None:
            weights += cells
        else:
            add_sparse_back(self.starts, self.ids, cells, weights)


class Plan:
    """What a template comes to on a table, before its matrix is built: so that its size can be told.

    :raises TableError: for axes that the table does not have, and a template that fires nowhere.
    """

    def __init__(self, template: Template, declaration: Declaration, axes: tuple[Axis, ...]) -> None:
        self.template, self.declaration, self.axes = template, declaration, axes
        known = {axis.name: axis for axis in axes}
        if unknown := [name for name in template.axes if name not in known]:
            raise TableError(f"{template}: the table has no axis {unknown}, it has {list(known)}")
        decision = axes[-1].name
        if decision not in template.axes:
            raise TableError(
                f"{template}: it does not look at '{decision}', so it would add the same to every outcome of a row"
            )
        self.context = [name for name in template.axes if name != decision]
        layout = declaration.layout
        self.dense = layout.row_lengths is None
        self.cells = layout.shape.numel()
        if template.cells is None:
            self._factor(known, decision)

    def _factor(self, known: Mapping[str, Axis], decision: str) -> None:
        template = self.template
        parts = {name: along(template, name, known[name].labels, template.functions[name]) for name in template.axes}
        if not all(part.values for part in parts.values()):
            self._refuse()
        places = dict(zip([axis.name for axis in self.axes], places_of(self.declaration, self.axes), strict=False))
        rows = self.declaration.layout.rows.numel()
        if self.context:
            self.rows = crossed([parts[name] for name in self.context], [places[name] for name in self.context])
        else:
            self.rows = Incidence(np.arange(rows + 1), np.zeros(rows, np.int64), [()])
        self.outcomes = parts[decision]
        if self.dense:
            if not self._fires_in_support():
                self._refuse()
            return
        owners, columns = self._where()
        self.fired = self.rows.sizes[owners] * self.outcomes.sizes[columns]
        if not self.fired.any():
            self._refuse()

    def _fires_in_support(self) -> bool:
        support = self.declaration.layout.support
        if support is None:
            return True
        allowed = support.reshape(-1, support.shape[-1]).numpy()
        return bool(allowed[np.ix_(self.rows.sizes > 0, self.outcomes.sizes > 0)].any())

    @property
    def bytes(self) -> int:
        """About how much memory the matrix, its weights, and training will need; of a joint function, at most."""
        if self.template.cells is not None:  # every cell may turn out to have a feature of its own
            own = 0 if self.template.vectorised else OBJECT
            return self.cells * (8 * (len(self.template.axes) + 3 + VECTORS) + own)
        pairs = len(self.rows.values) * len(self.outcomes.values)
        if self.dense:
            return pairs * 8 * VECTORS
        fired = int(self.fired.sum())
        return fired * 24 + self.cells * 8 + min(pairs, fired) * 8 * VECTORS

    def build(self) -> tuple[Factored | Sparse, Family]:
        """The matrix, and what its features are called; where their weights are is yet to be said."""
        if self.template.cells is not None:
            return self._joint()
        if self.dense:
            return Factored(self.rows, self.outcomes), self._family(self.rows.values, self.outcomes.values, None)
        starts, ids, pairs = self._pairs()
        block = Sparse(starts, ids, len(pairs))
        return block, self._family(self.rows.values, self.outcomes.values, pairs)

    def _pairs(self) -> tuple[Array | None, Array, Array]:
        """On a ragged table: the features of each cell, and the pair of values that each feature is."""
        from ...kernels.features import number_pairs

        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.fired)])
        lengths = self.declaration.layout.row_lengths
        assert lengths is not None
        rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths.numpy())])
        codes, decisions = np.empty(starts[-1], np.int64), len(self.outcomes.values)
        inner = (self.rows.starts, self.rows.ids, self.outcomes.starts, self.outcomes.ids)
        number_pairs(rows, self._where()[1], *inner, decisions, starts, codes)
        if len(codes) == self.cells and bool((np.diff(codes) > 0).all()):  # a feature of its own for every cell
            return None, codes[:0], np.stack([codes // decisions, codes % decisions], 1)
        room = len(self.rows.values) * decisions
        if room <= max(4 * len(codes), 1 << 20):
            number = np.zeros(room, np.int64)
            number[codes] = 1
            kept = np.flatnonzero(number)
            number[kept] = np.arange(len(kept))
            ids = number[codes]
        else:
            kept, ids = np.unique(codes, return_inverse=True)
        small = ids.reshape(-1).astype(np.int32 if len(kept) < 2**31 else np.int64)
        return starts, small, np.stack([kept // decisions, kept % decisions], 1)

    def _joint(self) -> tuple[Sparse, Family]:
        rows, columns = self._where()
        support = self.declaration.layout.support
        allowed = np.arange(self.cells) if support is None else np.flatnonzero(support.reshape(-1).numpy())
        places = dict(zip([axis.name for axis in self.axes], places_of(self.declaration, self.axes), strict=False))
        where = {name: place[rows[allowed]] for name, place in places.items()} | {self.axes[-1].name: columns[allowed]}
        labels = {axis.name: axis.labels for axis in self.axes}
        names = self.template.axes
        found = jointly(self.template, {name: labels[name] for name in names}, [where[name] for name in names])
        if not found.values:
            self._refuse()
        sizes = np.zeros(self.cells, np.int64)
        sizes[allowed] = found.sizes
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        family = self._family([()], found.values, None)
        return Sparse(starts, found.ids.astype(np.int32), len(found.values)), family

    def _where(self) -> tuple[Array, Array]:  # (cells,), (cells,)
        """The row and the outcome of every cell."""
        layout = self.declaration.layout
        if layout.row_lengths is None:
            rows, columns = np.divmod(np.arange(self.cells), layout.shape[-1])
            return rows, columns
        cells = self.axes[-1].cells
        assert cells is not None
        return np.repeat(np.arange(len(layout.row_lengths)), layout.row_lengths.numpy()), cells.long().numpy()

    def _family(self, contexts: list[Any], decisions: list[Any], pairs: Array | None) -> Family:
        joint = self.template.cells is not None
        axes = ("value",) if joint else (*self.context, self.axes[-1].name)
        return Family(self.template.table, self.template.name, axes, contexts, decisions, pairs, 0)

    def _refuse(self) -> None:
        raise TableError(
            f"{self.template} fires nowhere: it returned nothing for every label that may occur. Check its functions"
        )
