"""Where the weights of a recorded distribution lie in tables of running counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..kernels.running import Place
from ..tables import Declaration, LazyTable, take
from .replay import Recorded, Slot, Source, Step, values_of

#: The lowest of the numbers that stand for cells.
LOWEST = -8.0


def places_of(
    site: Recorded, steps: Sequence[Step], found: Mapping[str, Declaration], tables: Mapping[str, LazyTable]
) -> dict[str, tuple[str, Place]] | None:
    """The table that each weight consists of, and where it lies there; None if one does not consist of cells of one
    table.

    :param steps: what the model computes from tables.
    :param found: the tables that it declared.
    """
    numbers = {name: _cells(declaration, tables[name]) for name, declaration in found.items()}
    places = {}
    for own, source in site.sources.items():
        names = _used(source.slot, steps)
        if len(names) != 1:
            return None
        (name,) = names
        cells, table = _found(source, name, numbers, steps), tables[name]
        if cells is None:
            return None
        lengths = table.layout.row_lengths
        ends = None if lengths is None else lengths.cumsum(0).numpy()
        places[own] = name, Place(cells.numpy(), table.row_sums.numel(), ends)
    return places


def _found(source: Source, name: str, numbers: Mapping[str, Tensor], steps: Sequence[Step]) -> Tensor | None:
    """The numbers of the cells that a weight consists of, -1 for one that is impossible.

    What is computed may only put cells elsewhere. Numbered cells show where; others show if it is always so.
    """
    mine = numbers[name]
    if isinstance(source.slot.of, str) and source.view is None:
        return mine
    tries = [{other: how(cells) for other, cells in numbers.items()} for how in (_numbered, _any)]
    looks = [source.look(values_of(tried, steps, False)) for tried in tries]
    size, nothing = mine.numel(), looks[0] == -torch.inf
    which = (looks[0] / LOWEST * size).round().nan_to_num(-1).clamp(-1, size + 1).long() - 1
    which = which.masked_fill(nothing, 0)
    if not bool(((which >= 0) & (which < size)).all()):
        return None
    for tried, look in zip(tries, looks, strict=True):
        if not torch.equal(tried[name].flatten()[which].masked_fill(nothing, -torch.inf), look):
            return None
    return mine.flatten()[which].masked_fill(nothing, -1)


def _used(slot: Slot, steps: Sequence[Step]) -> set[str]:
    """The tables that something is computed from."""
    if isinstance(slot.of, str):
        return {slot.of}
    return {name for x in steps[slot.of].inputs if isinstance(x, Slot) for name in _used(x, steps)}


def _cells(declaration: Declaration, table: LazyTable) -> Tensor:
    """The numbers of the cells that were declared, as counts lie in memory."""
    shape = table.layout.shape
    if table.layout.row_lengths is not None:
        return take(torch.arange(shape.numel()), declaration.touched)
    outcomes = torch.arange(shape.numel()).reshape(shape[-1], *shape[:-1])  # one outcome of all rows after the other
    return take(outcomes.movedim(0, -1), declaration.touched)


def _numbered(cells: Tensor) -> Tensor:
    """Log-weights that tell cells apart."""
    size = cells.numel()
    return (LOWEST * torch.arange(1, size + 1, dtype=torch.float64) / size).reshape(cells.shape)


def _any(cells: Tensor) -> Tensor:
    """Log-weights of all sizes."""
    generator = torch.Generator().manual_seed(cells.numel())
    return -(10 ** (8 * torch.rand(cells.shape, generator=generator, dtype=torch.float64) - 4))
