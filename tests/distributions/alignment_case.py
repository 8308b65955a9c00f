"""The alignment, for the contract suite: random instances, all alignments by loops, and a plain Pyro program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import Alignment, Structure
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.testing import Case, Enumerated, Instance, Table


def options(turned: bool, height: int, width: int) -> list[list[tuple[int, int]]]:
    """For each word that chooses, the cells (row, column) it may choose, the null word first."""
    if turned:
        return [[(i, j) for j in range(width + 1)] for i in range(1, height + 1)]
    return [[(i, j) for i in range(height + 1)] for j in range(1, width + 1)]


def enumerate_alignments(dist: Alignment, pair: int, cells: list[int]) -> Enumerated:
    """Every alignment, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double() for name, x in dist.weights.items()}
    height, width = int(dist.grid.source_lengths[pair]), int(dist.grid.target_lengths[pair])
    found = Enumerated([], [], [], [])
    for chosen in itertools.product(*options(dist.turned, height, width)):
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0
        structure = [0] * len(cells)
        for i, j in chosen:
            place = i * (width + 1) + j
            structure[place] = 1
            used = [("translation", cells[place])]
            kind = "null" if (j if dist.turned else i) == 0 else "word"
            used += [(kind, pair)] if kind in w else []
            for name, cell in used:
                counts[name][cell] += 1
                score += float(w[name][cell])
        found.structures.append(tuple(structure))
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(place,) for place, one in enumerate(structure) if one])
    return found


@st.composite
def alignment_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    C = draw(st.integers(1, 6))
    shapes = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3))
    seed = draw(st.integers(0, 2**31 - 1))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    given = draw(st.sampled_from([(), ("null",), ("word",), ("null", "word")]))
    g = torch.Generator().manual_seed(seed)

    def table(size: int) -> Tensor:
        x = spread * torch.randn(size, generator=g, dtype=torch.float64)
        return x.masked_fill(torch.rand(size, generator=g) < zeros, -torch.inf)

    grid = Grid(*(torch.tensor(n) for n in zip(*shapes, strict=True)))
    value = torch.randint(C, (grid.cells,), generator=g)
    dist = Alignment(table(C), grid, **{name: table(len(shapes)) for name in given}, turned=draw(st.booleans()))
    pieces, items, at = [], [], 0
    for b, (height, width) in enumerate(shapes):
        size = (height + 1) * (width + 1)
        pieces.append(slice(at, at + size))
        items.append(enumerate_alignments(dist, b, value[at : at + size].tolist()))
        at += size
    return Instance(dist, value, items, pieces)


def trace_enum(instance: Instance) -> float:
    """One enumerated variable a word, the words of a pair in a plate."""
    dist = instance.dist
    assert isinstance(dist, Alignment)
    w = dist.weights

    def model() -> None:
        for b, piece in enumerate(instance.pieces):
            height, width = int(dist.grid.source_lengths[b]), int(dist.grid.target_lengths[b])
            places = [[i * (width + 1) + j for i, j in choices] for choices in options(dist.turned, height, width)]
            if not places:
                continue
            null, word = (w[name][b] if name in w else torch.zeros(()) for name in ("null", "word"))
            prior = torch.stack([null] + [word] * (len(places[0]) - 1))
            mine = w["translation"][instance.value[piece][torch.tensor(places)]]  # (words, choices)
            with pyro.plate(f"words_{b}", len(places)) as n:
                z = pyro.sample(f"z_{b}", Categorical(prior), infer={"enumerate": "parallel"})
                pyro.sample(f"x_{b}", Categorical(mine[n, z].unsqueeze(-1)), obs=torch.zeros(len(places)))

    return -float(TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, Alignment)
    grid, w, order = dist.grid, dist.weights, list(range(len(instance.pieces)))
    by_pair = {name: w[name] for name in ("null", "word") if name in w}
    backwards = order[::-1]
    yield (
        "shuffled",
        Alignment(
            w["translation"],
            Grid(grid.source_lengths.flip(0), grid.target_lengths.flip(0)),
            **{name: x.flip(0) for name, x in by_pair.items()},
            turned=dist.turned,
        ),
        torch.cat([instance.value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    C = len(w["translation"])
    renumbered = Alignment(w["translation"].roll(1), grid, **by_pair, turned=dist.turned)
    yield "renumbered", renumbered, (instance.value + 1) % C, order
    more = torch.cat([w["translation"], torch.randn(3)])
    yield "with unused cells", Alignment(more, grid, **by_pair, turned=dist.turned), instance.value, order
    blocks = [
        instance.value[piece].reshape(int(i) + 1, int(j) + 1)
        for piece, i, j in zip(instance.pieces, grid.source_lengths, grid.target_lengths, strict=True)
    ]
    other = Grid(grid.target_lengths, grid.source_lengths)
    yield (
        "turned round",
        Alignment(w["translation"], other, **by_pair, turned=not dist.turned),
        torch.cat([block.T.flatten() for block in blocks]),
        order,
    )
    p = torch.randperm(len(grid.pair))
    mixed = Grid(grid.source_lengths, grid.target_lengths, grid.pair[p], grid.place[p])
    rows = [instance.value[grid.starts[k] : grid.starts[k + 1]] for k in p.tolist()]
    yield "rows in any order", Alignment(w["translation"], mixed, **by_pair, turned=dist.turned), torch.cat(rows), order
    spare = instance.value.clone().int()
    row, column = grid.parts()
    spare[(grid.place[row] == 0) if dist.turned else (column == 0)] = -1
    yield "without the null word of the other direction", dist, spare, order
    zeros = {name: by_pair.get(name, torch.zeros(len(grid))) for name in ("null", "word")}
    yield (
        "every weight spelled out",
        Alignment(w["translation"], grid, **zeros, turned=dist.turned),
        instance.value,
        order,
    )


def long(copies: int, table: Table, kind: int) -> Instance:
    """In both directions, with and without weights by pair."""
    C, shape = 11, (7, 9)
    grid = Grid(*(torch.full((copies,), n) for n in shape))
    value = torch.arange((shape[0] + 1) * (shape[1] + 1)) * 7 % C
    by_pair = {name: table(1).repeat(copies) for name in ("null", "word") if kind >= 2}
    return Instance(Alignment(table(C), grid, **by_pair, turned=kind % 2 == 1), value.repeat(copies), [], [])


ALIGNMENT = Case(
    "alignment",
    alignment_instances((0.0, 1.0, 3.0, 10.0)),
    alignment_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
