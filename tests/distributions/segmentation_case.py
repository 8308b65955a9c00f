"""The segmentation, for the contract suite: random instances, all segmentations by loops, and a plain Pyro program."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import Segmentation, Structure
from pyro_unsup.testing import Case, Enumerated, Instance, Table


def segments_in(ends: tuple[int, ...]) -> list[tuple[int, int]]:
    """The last symbol and the length of each segment."""
    found, begin = [], 0
    for t, end in enumerate(ends):
        if end:
            found.append((t, t + 1 - begin))
            begin = t + 1
    return found


def all_segmentations(n: int, longest: int) -> list[tuple[int, ...]]:
    """Every way to cut up n symbols into segments that are not too long."""
    ways = ((*cuts, 1) for cuts in product((0, 1), repeat=n - 1))
    return [ends for ends in ways if all(size <= longest for _, size in segments_in(ends))]


def enumerate_segmentations(dist: Segmentation, n: int, cells: list[list[int]]) -> Enumerated:
    """Every segmentation, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double().tolist() for name, x in dist.weights.items()}
    found = Enumerated([], [], [], [])
    for ends in all_segmentations(n, len(cells[0])):
        counts = {name: torch.zeros(x.shape, dtype=torch.float64) for name, x in dist.weights.items()}
        score = w["stop"][1]
        counts["stop"][1] += 1
        for last, size in segments_in(ends):
            number = cells[last][size - 1]
            if number < 0:
                score = -float("inf")
                continue
            counts["segments"][number] += 1
            counts["length"][size] += 1
            counts["stop"][0] += 1
            score += w["segments"][number] + w["length"][size] + w["stop"][0]
        found.structures.append(ends)
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(last, size - 1) for last, size in segments_in(ends)])
    return found


@st.composite
def segmentation_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    S, L = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(size: int, holes: float) -> Tensor:
        gone = torch.rand(size, generator=g) < holes
        return (spread * torch.randn(size, generator=g, dtype=torch.float64)).masked_fill(gone, -torch.inf)

    value = torch.randint(S, (sum(lengths), L), generator=g)
    start = torch.cat([torch.arange(n) for n in lengths])  # of each symbol, from the start of its sentence
    value[torch.arange(L) > start.unsqueeze(-1)] = -1
    dist = Segmentation(table(S, zeros), table(L + 1, zeros / 2), table(2, zeros / 10), torch.tensor(lengths))
    pieces, items, at = [], [], 0
    for n in lengths:
        pieces.append(slice(at, at + n))
        items.append(enumerate_segmentations(dist, n, value[at : at + n].tolist()))
        at += n
    return Instance(dist, value, items, pieces)


def trace_enum(instance: Instance) -> float:
    """One enumerated variable a sentence that lists its segmentations; what each of them uses, observed one by one."""
    w = instance.dist.weights
    rows = torch.stack([torch.zeros_like(w["segments"]), w["segments"]])  # not a segment, a segment

    def model() -> None:
        for b, (item, piece) in enumerate(zip(instance.items, instance.pieces, strict=True)):
            used = torch.zeros(len(item.structures), *instance.value[piece].shape)  # (ways, n, L)
            for way, parts in enumerate(item.parts):
                for part in parts:
                    used[(way, *part)] = 1
            by_length = torch.where(used > 0, w["length"][1:] + w["stop"][0], 0.0).sum((1, 2))
            way = pyro.sample(f"way_{b}", Categorical(by_length), infer={"enumerate": "parallel"})
            pyro.sample(f"stop_{b}", Categorical(w["stop"]), obs=torch.tensor(1))
            for (t, size), number in _numbered(instance.value[piece]):
                inside = used[..., t, size][way].long()
                pyro.sample(f"segment_{b}_{t}_{size}", Categorical(rows[inside]), obs=torch.tensor(number))

    return -float(TraceEnum_ELBO(max_plate_nesting=0).loss(model, lambda: None))


def _numbered(cells: Tensor) -> Iterator[tuple[tuple[int, int], int]]:
    for t, row in enumerate(cells.tolist()):
        yield from (((t, size), number) for size, number in enumerate(row) if number >= 0)


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, Segmentation)
    w, order, value = dist.weights, list(range(len(instance.pieces))), instance.value
    backwards = order[::-1]
    yield (
        "shuffled",
        Segmentation(w["segments"], w["length"], w["stop"], dist.lengths.flip(0)),
        torch.cat([value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    S = len(w["segments"])
    renumbered = torch.where(value < 0, -1, (value + 1) % S)
    yield "renumbered", dist.with_weights({"segments": w["segments"].roll(1)}), renumbered, order
    more = torch.cat([w["segments"], torch.randn(3)])
    yield "with unused types", dist.with_weights({"segments": more}), value, order
    # Longer segments are allowed, but have no weight.
    longer = torch.cat([w["length"], torch.full((2,), -torch.inf)])
    wider = torch.cat([value, torch.zeros(len(value), 2, dtype=torch.long)], 1)
    start = torch.cat([torch.arange(int(n)) for n in dist.lengths]).unsqueeze(-1)
    wider[torch.arange(wider.shape[1]) > start] = -1
    yield "with longer segments", Segmentation(w["segments"], longer, w["stop"], dist.lengths), wider, order
    yield "in 32 bits", dist, value.int(), order
    # Going on can as well be part of every length.
    moved = {"length": w["length"] + w["stop"][0], "stop": torch.stack([torch.zeros(()), w["stop"][1]])}
    yield "going on with the length", dist.with_weights(moved), value, order


def long(copies: int, table: Table, kind: int) -> Instance:
    n, S, L = 19, 8, 3 + kind
    value = (torch.arange(n).unsqueeze(-1) * 5 + torch.arange(L) * 3) % S
    value[torch.arange(L) > torch.arange(n).unsqueeze(-1)] = -1
    dist = Segmentation(table(S), table(L + 1), table(2), torch.full((copies,), n))
    return Instance(dist, value.repeat(copies, 1), [], [])


SEGMENTATION = Case(
    "segmentation",
    segmentation_instances((0.0, 1.0, 3.0, 10.0)),
    segmentation_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
