"""Which values of a template fire where: sparse incidence matrices, built once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...array import Array
from ...errors import TableError
from ...tables import Axis, Declaration
from .template import Function, Template


@dataclass(frozen=True, eq=False)
class Incidence:
    """For each of some items the values that fire: ``ids[starts[i] : starts[i + 1]]``, numbers of ``values``.

    :param starts: (n + 1,) int64.
    :param ids: (fired,).
    :param values: tuples.
    """

    starts: Array
    ids: Array
    values: list[Any]

    @property
    def sizes(self) -> Array:  # (n,)
        """How many values fire for each item."""
        return np.diff(self.starts)

    @cached_property
    def plain(self) -> bool:
        """Whether each item has one value, its own."""
        n = len(self.starts) - 1
        return len(self.values) == n == len(self.ids) and bool((self.ids == np.arange(n)).all())


def along(template: Template, axis: str, labels: Iterable[Any], function: Function) -> Incidence:
    """The values of a function of one axis, label by label."""
    return _gathered(template.values(function, **{axis: label}) for label in labels)


def crossed(parts: Sequence[Incidence], places: Sequence[Array]) -> Incidence:
    """Every combination of the values of several axes; ``places`` tell each item's place along each.

    A combination that occurs nowhere gets no number.
    """
    n = len(places[0])
    sizes = np.ones(n, np.int64)
    for part, place in zip(parts, places, strict=True):
        sizes *= part.sizes[place]
    starts = _starts(sizes)
    owner = np.repeat(np.arange(n), sizes)
    rest, codes = np.arange(starts[-1]) - starts[owner], np.zeros(starts[-1], np.int64)
    for part, place in zip(parts, places, strict=True):
        at = place[owner]
        size = part.sizes[at]
        codes = codes * len(part.values) + part.ids[part.starts[at] + rest % np.maximum(size, 1)]
        rest //= np.maximum(size, 1)
    kept, ids = np.unique(codes, return_inverse=True)
    values = []
    for code in kept.tolist():
        one: list[Any] = []
        for part in reversed(parts):
            code, digit = divmod(code, len(part.values))
            one.append(part.values[digit])
        values.append(tuple(reversed(one)))
    return Incidence(starts, ids.reshape(-1), values)


def jointly(template: Template, labels: Mapping[str, Sequence[Any]], places: Sequence[Array]) -> Incidence:
    """The values of a joint function, cell by cell."""
    assert template.cells is not None
    names = list(labels)
    columns = [_pick(labels[name], place) for name, place in zip(names, places, strict=True)]
    if not template.vectorised:
        cells = zip(*columns, strict=True)
        return _gathered(template.values(template.cells, **dict(zip(names, cell, strict=True))) for cell in cells)
    try:
        found = template.cells(*columns)
    except Exception as error:
        raise TableError(f"{template}: its function failed: {type(error).__name__}: {error}") from error
    if np.ndim(found) != 1 or len(found) != len(columns[0]):
        raise TableError(f"{template}: expected {len(columns[0])} values, one a cell, actual {found!r:.80}")
    if isinstance(found, np.ndarray) and found.dtype != object:
        kept, ids = np.unique(found, return_inverse=True)
        return Incidence(np.arange(len(found) + 1), ids.reshape(-1), [template.plain(value) for value in kept])
    return _gathered([] if value is None else [template.plain(value)] for value in found)


def places_of(declaration: Declaration, axes: Sequence[Axis]) -> list[Array]:
    """The place of every row along each of its context axes: numbers (rows,)."""
    layout = declaration.layout
    if layout.row_lengths is not None:
        return [np.arange(len(layout.row_lengths))] * (len(axes) - 1)
    if len(layout.shape) == 1:
        return []
    return [x.reshape(-1) for x in np.indices(tuple(layout.rows))]


def _pick(labels: Sequence[Any], place: Array) -> Array:
    known = np.empty(len(labels), object)  # labels may be tuples, which are no rows of numbers
    for i, label in enumerate(labels):
        known[i] = label
    found: Array = known[place]
    return found


def _gathered(items: Iterable[list[Any]]) -> Incidence:
    known: dict[tuple[type, Any], int] = {}  # True is not 1 here
    sizes, ids = [], []
    for values in items:
        sizes.append(len(values))
        ids += [known.setdefault((type(value), value), len(known)) for value in values]
    return Incidence(_starts(np.array(sizes, np.int64)), np.array(ids, np.int64), [value for _, value in known])


def _starts(sizes: Array) -> Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
