"""What the rows and outcomes of a table are called, for those who look at more than their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cached_property
from typing import Any, cast

from torch import Tensor

from ..errors import TableError
from .layout import Layout

#: Labels along an axis; a number n stands for 0 .. n - 1, and a function is called when they are first needed.
Labels = int | Sized | Callable[[], Sized]


class Axis:
    """One axis of a table: its name, and a label for every place along it.

    A dense table has an axis for each of its dimensions; the last one is the decision, the others its context. A ragged
    table has one or more axes with a label for each row, and a last one for the decision, whose ``cells`` tell which of
    its labels each cell has.

    :param name: by which features look at it.
    :param labels: see :data:`Labels`.
    :param cells: (cells,) of the decision in a ragged table, or a function that makes them.

    >>> from pyro_unsup.tables import Axis
    >>> Axis("tag", 3).labels, Axis("word", ["the", "dog"]).labels
    (range(0, 3), ['the', 'dog'])
    """

    def __init__(self, name: str, labels: Labels, cells: Tensor | Callable[[], Tensor] | None = None) -> None:
        self.name, self._labels, self._cells = name, labels, cells

    @cached_property
    def labels(self) -> Sequence[Any]:
        """A label for every place."""
        found = self._labels() if callable(self._labels) else self._labels
        return range(found) if isinstance(found, int) else cast(Sequence[Any], found)

    @cached_property
    def cells(self) -> Tensor | None:  # (cells,)
        """Of the decision in a ragged table: which label each cell has."""
        return self._cells() if callable(self._cells) else self._cells

    @property
    def size(self) -> int | None:
        """How many labels there are, as far as that is known without making them."""
        return None if callable(self._labels) else len(self.labels)

    @property
    def has_cells(self) -> bool:
        """Whether it is the decision of a ragged table."""
        return self._cells is not None

    def __getstate__(self) -> dict[str, Any]:
        # What functions made can be made again.
        return {key: self.__dict__[key] for key in ("name", "_labels", "_cells")}

    def __repr__(self) -> str:
        return f"Axis({self.name!r}{'' if self.size is None else f', {self.size} labels'})"


def as_axes(axes: Mapping[str, Labels] | Sequence[Axis] | None) -> tuple[Axis, ...] | None:
    """Axes as they are kept, from labels by name or from a list of them."""
    if axes is None:
        return None
    if isinstance(axes, Mapping):
        return tuple(Axis(name, labels) for name, labels in axes.items())
    return tuple(axes)


def check_axes(table: str, layout: Layout, axes: Sequence[Axis]) -> None:
    """Raise unless the axes fit the layout. Labels that are made later are not checked.

    :raises TableError: naming the table.
    """
    names = [axis.name for axis in axes]
    if len(set(names)) != len(names):
        raise TableError(f"table '{table}': axes need different names, actual {names}")
    if layout.row_lengths is None:
        if len(axes) != len(layout.shape):
            raise TableError(
                f"table '{table}': expected {len(layout.shape)} axes, one a dimension of the shape "
                f"{tuple(layout.shape)}, actual {names}"
            )
        sizes = list(layout.shape)
    else:
        if len(axes) < 2 or not axes[-1].has_cells:
            raise TableError(
                f"table '{table}': a ragged table has at least one axis for its rows, and a last one that says by "
                f"its cells which outcome each cell is, actual {names}"
            )
        sizes = [len(layout.row_lengths)] * (len(axes) - 1)
    for axis, size in zip(axes, sizes, strict=False):
        if axis.size is not None and axis.size != size:
            raise TableError(f"table '{table}': axis '{axis.name}' needs {size} labels, actual {axis.size}")
