"""Chains that emit numbers, for the contract suite: bound to their data, each observation is a word of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pyro.distributions as dist
import torch
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup import Chain
from pyro_unsup.testing import Case, Enumerated, Instance


def enumerate_series(chain: Chain, begin: int, n: int) -> Enumerated:
    """Every path of the series at these rows, its weight and what it uses."""
    w = {name: x.detach() for name, x in chain.weights.items()}
    K, found = w["start"].shape[0], Enumerated([], [], [], [])
    for path in itertools.product(range(K), repeat=n):
        used: list[tuple[str, tuple[int, ...]]] = [("start", (path[0],))]
        used += [("emission", (z, begin + t)) for t, z in enumerate(path)]
        for t in range(1, n):
            row = (begin + t,) if chain.by_step else ()
            used.append(("transition", (*row, path[t - 1], path[t])))
        if w["transition"].shape[-1] > K:
            used.append(("transition", (path[-1], K)))
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0
        for name, cell in used:
            counts[name][cell] += 1
            score += float(w[name][cell])
        found.structures.append(path)
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(t, z) for t, z in enumerate(path)])
    return found


@st.composite
def series_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    K, poisson, by_step = draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())
    stop = not by_step and draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    seed, spread = draw(st.integers(0, 2**31 - 1)), draw(st.sampled_from(spreads))
    holes, gaps = draw(st.sampled_from([0.0, 0.2, 0.5])), draw(st.booleans())
    g, rows = torch.Generator().manual_seed(seed), sum(lengths)

    def table(*shape: int) -> Tensor:
        x = spread * torch.randn(shape, generator=g, dtype=torch.float64)
        return x.masked_fill(torch.rand(shape, generator=g) < holes, -torch.inf)

    centre = torch.randn(K, generator=g, dtype=torch.float64)
    x = torch.randn(rows, generator=g, dtype=torch.float64)
    if poisson:
        emission, x = dist.Poisson(centre.exp()), (3 * x).abs().round()
    else:
        emission = dist.Normal(centre, 1 / (1 + spread))
    if gaps:
        x[torch.rand(rows, generator=g) < 0.3] = torch.nan
    transition = table(rows, K, K) if by_step else table(K, K + stop)
    # A state that nothing can follow is an error.
    transition[..., 0] = torch.where((transition == -torch.inf).all(-1), 0.0, transition[..., 0])
    chain = Chain(table(K), transition, emission, torch.tensor(lengths), flat=True, by_step=by_step)
    bound, value = chain.laid_flat(x)
    begins = [sum(lengths[:i]) for i in range(len(lengths))]
    pieces = [slice(begin, begin + n) for begin, n in zip(begins, lengths, strict=True)]
    items = [enumerate_series(bound, begin, n) for begin, n in zip(begins, lengths, strict=True)]
    return Instance(bound, value, items, pieces)


SERIES = Case("series", series_instances((0.0, 1.0, 3.0, 10.0)), series_instances((100.0, 300.0)))
