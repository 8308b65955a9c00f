"""The same of word alignment with jumps. All but translations counts as in its own direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..plumbing import OnePass
from .agreement import WAYS, merged_counts, own_weights
from .hmm import HMMWeights, other_counts, possible, sweep

Array = np.ndarray[Any, Any]
Tables = dict[str, Tensor]

#: Added potentials are not taken beside the weights.
TAKES: tuple[str, ...] = ()


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z of both directions together, and merged counts, from weights."""
    both = [HMMWeights.of(one, own_weights(weights, k)) for k, one in enumerate((dist.forward, dist.backward))]
    cells, where = value.contiguous().numpy(), dist.grid.trellises

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = [sweep(logs, cells, where, way == 1, want, scale) for way, logs in enumerate(both)]
        log_z = found[0].log_z + found[1].log_z
        if not want:
            return torch.from_numpy(log_z), {}
        given = np.ones(len(log_z)) if scale is None else scale
        if ((log_z == -np.inf) & (given != 0)).any():  # what is impossible one way does not count the other way either
            return run(possible(log_z, scale), want)
        p, sizes = (found[0].posterior, found[1].posterior), (len(both[0].table), len(both[1].table))
        tables = merged_counts(p, cells, where.rows, dist.shared, given, sizes)
        counts: Tables = {}
        for way, (name, one, table) in enumerate(zip(WAYS, found, tables, strict=True)):
            others = other_counts(one, where, way == 1, given)
            counts |= {f"{name}.{key}": x for key, x in {"translation": torch.from_numpy(table), **others}.items()}
        return torch.from_numpy(log_z), counts

    return OnePass(run, bool(wanted))
