"""What the rows and columns of the tables of spans are called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..tables import Axis
from .inventory import Inventory

Array = np.ndarray[Any, Any]

#: What rows are for, and what stands for yields and contexts that are not known.
KINDS, UNKNOWN = ("distituent", "constituent"), ("<unknown>",)


def span_axes(
    inventory: Inventory,
    vocab: Any,
    ends: Array | None,  # (widths + 1,) where the yields of each width begin in a row; None for one row of them all
    empty_yield: bool,
) -> dict[str, tuple[Axis, ...]]:
    """The axes of the tables ``yield`` and ``context``. Yields and contexts are tuples of symbols."""
    names = range(vocab) if isinstance(vocab, int) else vocab
    yields, kind = partial(_yields, inventory, names, empty_yield), Axis("kind", KINDS)
    contexts = (kind, Axis("context", partial(_contexts, inventory, names)))
    if ends is None:
        return {"yield": (kind, Axis("yield", yields)), "context": contexts}
    widths = range(1, len(ends))
    kinds = Axis("kind", [kind for kind in KINDS for _ in widths])
    cells = partial(_cells, len(inventory.yields), ends)
    return {"yield": (kinds, Axis("width", [*widths] * 2), Axis("yield", yields, cells)), "context": contexts}


def _yields(inventory: Inventory, names: Sequence[Any], empty: bool) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for narrower, last in inventory.yields.tolist():
        found.append((*(found[narrower] if narrower >= 0 else ()), names[last]))
    return [*found, UNKNOWN, *([()] if empty else [])]


def _contexts(inventory: Inventory, names: Sequence[Any]) -> list[tuple[Any, ...]]:
    left, right = [*names, "<start>"], [*names, "<end>"]
    return [*((left[a], right[b]) for a, b in inventory.contexts.tolist()), UNKNOWN]


def _cells(known: int, ends: Array) -> Tensor:  # (cells,)
    """Which yield each cell is: those of a width in order, and the unknown one after them; for both kinds."""
    cells = torch.full((int(ends[-1]),), known)
    last = torch.zeros(len(cells), dtype=torch.bool)
    last[torch.from_numpy(ends[1:]) - 1] = True
    cells[~last] = torch.arange(known)
    return cells.repeat(2)
