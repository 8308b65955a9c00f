"""The same of word alignment with jumps. All but translations counts as in its own direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ..plumbing import OnePass
from .agreement import WAYS, merged_counts, merged_links, own_weights
from .cells import cells_of
from .hmm import other_counts, possible, sweep, weighed

Tables = dict[str, Tensor]

TAKES = ("links",)


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z of both directions together, and merged counts, from weights; and from log-potentials of links, (cells, 2),
    if there are any."""
    ways = (dist.forward, dist.backward)
    both = [weighed(one, own_weights(weights, k, len(value)), value) for k, one in enumerate(ways)]
    cells, where = cells_of(value), dist.grid.trellises
    sizes = (len(weights["forward.translation"]), len(weights["backward.translation"]))

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = [sweep(*one, where, way == 1, want, scale) for way, one in enumerate(both)]
        log_z = found[0].log_z + found[1].log_z
        if not want:
            return torch.from_numpy(log_z), {}
        given = np.ones(len(log_z)) if scale is None else scale
        if ((log_z == -np.inf) & (given != 0)).any():  # what is impossible one way does not count the other way either
            return run(possible(log_z, scale), want)
        p = (found[0].posterior, found[1].posterior)
        tables = merged_counts(p, cells, where.rows, dist.shared, given, sizes)
        counts: Tables = {}
        for way, (name, one, table) in enumerate(zip(WAYS, found, tables, strict=True)):
            others = other_counts(one, where, way == 1, given)
            counts |= {f"{name}.{key}": x for key, x in {"translation": torch.from_numpy(table), **others}.items()}
        if "links" in wanted:
            counts["links"] = merged_links(*p, where.rows, given)
        return torch.from_numpy(log_z), counts

    return OnePass(run, bool(wanted))
