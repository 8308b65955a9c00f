"""Draws with one naming of the states: what ``relabel`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..results import Samples
from ..results.arviz import as_arviz, dataset, named_dims
from ..results.table_posterior import to_table
from .parameters import Parameters

if TYPE_CHECKING:
    import pandas

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Relabelled:
    """Draws with one naming of the states.

    :param draws: parameters by name, (chains, draws, ...).
    :param order: (chains, draws, K) which old state each new state was, draw by draw.
    :param method: by which.
    :param rounds: until no name changed any more, the last look included.
    :param table: a row a parameter: R-hat (the largest of its numbers) and effective sample size (the smallest), before
        and after.
    :param samples: with new labels, if samples were relabelled.
    :param groups: of the ArviZ object that was relabelled, if it was one: all of them with the new names.
    :param model: that the draws are of, if it is known. It names dimensions.

    >>> import numpy as np, pyro_unsup as pu
    >>> rng = np.random.default_rng(0)
    >>> loc = np.array([-3.0, 3.0]) + rng.normal(size=(2, 50, 2))
    >>> loc[1] = loc[1, :, ::-1]  # the second chain has the other names
    >>> found = pu.relabel({"loc": loc}, "pivot", axes={"loc": 0})
    >>> type(found).__name__, found.order[0, 0].tolist() != found.order[1, 0].tolist()
    ('Relabelled', True)
    >>> found.to_arviz().posterior["loc"].shape
    (2, 50, 2)
    """

    draws: Parameters
    order: Array
    method: str
    rounds: int
    table: pandas.DataFrame
    samples: Samples | None = None
    groups: Mapping[str, Any] | None = None
    model: Any = None

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object with a group ``posterior``; of an ArviZ object, with all groups that it had."""
        if self.groups is not None:
            return as_arviz(self.groups)
        tables = self.model.declarations() if hasattr(self.model, "declarations") else {}
        whole = {n: to_table(tables[n].layout, x) if n in tables else x for n, x in self.draws.items()}
        arrays = {name: x.numpy() for name, x in whole.items()}
        dims, coords = named_dims(self.model, tables, arrays)
        if self.samples is not None:
            dims |= {name: ["tag"] for name in ("token_counts", "beta") if name in arrays and arrays[name].ndim == 3}
            coords["tag"] = self.samples.names
        return as_arviz({"posterior": dataset(arrays, dims, coords)})

    @property
    def renamed(self) -> float:
        """The share of draws whose states got other names than in the first draw."""
        return float((self.order != self.order[:1, :1]).any(-1).mean())

    def __repr__(self) -> str:
        chains, draws, K = self.order.shape
        return (
            f"Relabelled by {self.method}: {chains} chains of {draws} draws, {K} states, {self.renamed:.0%} renamed\n"
            f"{self.table.to_string()}"
        )
