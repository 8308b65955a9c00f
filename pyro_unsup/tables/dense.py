"""The tables of a model whose rows all have one size, from plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

import torch
from torch import Tensor

from ..errors import StructureError
from .axes import as_axes
from .layout import Layout
from .op import Declaration


def dense_tables(
    model: str,
    axes: Mapping[str, Mapping[str, int | Sized]],
    prior: float | Mapping[str, float],
    keep: Collection[str] = (),
    supports: Mapping[str, Tensor] | None = None,
) -> dict[str, Declaration]:
    """The dense tables of a model, by name.

    :param model: what to call it in errors.
    :param axes: of each table, the labels of each axis (or how many there are), the outcomes last.
    :param prior: Dirichlet concentration, one for all tables or by name.
    :param keep: tables whose rows stay as they were if no data reach them.
    :param supports: by table, which cells may have weight.
    :raises StructureError: if ``prior`` names other tables.

    >>> from pyro_unsup.tables import dense_tables
    >>> tables = dense_tables("a coin", {"sides": {"coin": 3, "side": ("heads", "tails")}}, prior=0.5)
    >>> tables["sides"].layout.shape, tables["sides"].axes
    (torch.Size([3, 2]), (Axis('coin', 3 labels), Axis('side', 2 labels)))
    """
    given = prior if isinstance(prior, Mapping) else dict.fromkeys(axes, prior)
    if unknown := given.keys() - axes.keys():
        raise StructureError(f"prior names tables that {model} does not have: {sorted(unknown)}")
    found = {}
    for name, labels in axes.items():
        shape = [one if isinstance(one, int) else len(one) for one in labels.values()]
        found[name] = Declaration(
            name,
            Layout.dense(*shape, support=(supports or {}).get(name)),
            torch.tensor(given.get(name, 1.0), dtype=torch.float64),
            "keep" if name in keep else "error",
            axes=as_axes(labels),
        )
    return found
