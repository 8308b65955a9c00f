"""What templates come to on tables: which tables they are for, and whether there is room for their matrices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ...errors import TableError
from ...tables import Axis, Declaration
from .blocks import Plan
from .template import Template, same


def plans_of(
    declarations: Mapping[str, Declaration], templates: Sequence[Template], max_gib: float | None
) -> list[Plan]:
    """The templates of each table, in the order of the tables; ready to be built.

    :raises TableError: for templates that are for no table, and matrices that would not fit.
    """
    for template in templates:
        if template.table not in declarations:
            raise TableError(f"{template}: there is no such table; the model has {sorted(declarations)}")
        if declarations[template.table].axes is None:
            raise TableError(f"{template}: the table was declared without axes, so templates have nothing to look at")
    plans = []
    for name, declaration in declarations.items():
        axes = axes_of(declaration)
        own = [template for template in templates if template.table == name]
        # Every table has basic features of its own: the name is not shared.
        each: dict[str, Any] = {axis.name: same for axis in axes}
        own = own or [Template(name, f"basic {name}", **each)]
        plans += [Plan(template, declaration, axes) for template in own]
    _refuse_large(plans, max_gib)
    return plans


def axes_of(declaration: Declaration) -> tuple[Axis, ...]:
    """A table's axes; numbers for those of a table that has not said.

    :raises TableError: for axes whose labels turn out to be too many or too few.
    """
    layout, axes = declaration.layout, declaration.axes
    if axes is None:
        if layout.row_lengths is None:
            return tuple(Axis(f"axis{i}", n) for i, n in enumerate(layout.shape))
        lengths = layout.row_lengths
        within = torch.arange(int(lengths.sum())) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
        return Axis("row", len(lengths)), Axis("cell", int(lengths.max()), within)
    sizes = [*layout.shape] if layout.row_lengths is None else [len(layout.row_lengths)] * (len(axes) - 1)
    for axis, size in zip(axes, sizes, strict=False):
        if len(axis.labels) != size:
            raise TableError(
                f"table '{declaration.name}': axis '{axis.name}' needs {size} labels, actual {len(axis.labels)}"
            )
    cells = axes[-1].cells
    if layout.row_lengths is not None and cells is not None:
        good = cells.shape == layout.shape and int(cells.min()) >= 0 and int(cells.max()) < len(axes[-1].labels)
        if not good:
            raise TableError(
                f"table '{declaration.name}': axis '{axes[-1].name}' needs {layout.shape[0]} cells that are numbers of "
                f"its {len(axes[-1].labels)} labels"
            )
    return axes


def _refuse_large(plans: Sequence[Plan], max_gib: float | None) -> None:
    need, limit = sum(plan.bytes for plan in plans), max_gib
    if limit is None:
        free = _free_bytes()
        limit = free / 2 / 2**30 if free is not None else float("inf")
    if need > limit * 2**30:
        most = max(plans, key=lambda plan: plan.bytes)
        raise TableError(
            f"the feature matrices and training with them would need about {need / 2**30:.3g} GiB, more than "
            f"{limit:.3g} GiB (half of what is free, or max_gib); most of it for {most.template}. Take coarser "
            "functions, fewer templates, or raise max_gib"
        )


def _free_bytes() -> int | None:
    """Memory that is free, where the system tells."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
