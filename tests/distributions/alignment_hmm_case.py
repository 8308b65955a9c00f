"""The alignment by jumps, for the contract suite: instances, all alignments by loops, and a plain Pyro program."""

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
from pyro_unsup.distributions import AlignmentHMM, Structure
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.distributions.alignment.jumps import rooms
from pyro_unsup.testing import Case, Enumerated, Instance, Table

from .alignment_case import options

Use = tuple[str, tuple[int, ...]]


def used_by_jump(old: int, new: int, size: int, W: int) -> list[Use]:
    """The weights of a jump between two places of a sentence; 0 is before it, size + 1 its end."""
    end = new == size + 1
    kind = 2 if end else 0 if old == 0 else 1
    offset = max(-W, min(W, new - old))
    if end:
        room = (W + 1) ** 2 + W + min(size + 1, W) - 1
        among = [i for i in range(size + 1) if new - i >= W]
    elif old == 0:
        room = (W + 1) ** 2 + min(size, W) - 1
        among = [m for m in range(1, size + 1) if m >= W]
    else:
        room = min(old - 1, W) * (W + 1) + min(size - old, W)
        among = [m for m in range(1, size + 1) if (m - old >= W if offset > 0 else old - m >= W)]
    many = len(among) if abs(new - old) >= W else 1
    return [("jump", (kind, W + offset)), ("room", (room,)), ("share", (many - 1,))]


def enumerate_alignments(dist: AlignmentHMM, pair: int, cells: list[int]) -> Enumerated:
    """Every alignment, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double() for name, x in dist.weights.items()}
    W = (w["jump"].shape[-1] - 1) // 2
    height, width = int(dist.grid.source_lengths[pair]), int(dist.grid.target_lengths[pair])
    size = width if dist.turned else height
    found = Enumerated([], [], [], [])
    for chosen in itertools.product(*options(dist.turned, height, width)):
        structure, at = [0] * len(cells), 0
        uses: list[Use] = []
        for i, j in chosen:
            place = i * (width + 1) + j
            structure[place] = 1
            uses.append(("translation", (cells[place],)))
            other = j if dist.turned else i
            uses.append(("word" if other else "null", (pair,)))
            if other:
                uses += used_by_jump(at, other, size, W)
                at = other
        if chosen:
            uses += used_by_jump(at, size + 1, size, W)
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0
        for name, cell in uses:
            if name in w:
                counts[name][cell] += 1
                score += float(w[name][cell])
        found.structures.append(tuple(structure))
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(place,) for place, one in enumerate(structure) if one])
    return found


@st.composite
def instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    C = draw(st.integers(1, 4))
    shapes = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=2)
        | st.sampled_from([[(2, 4)], [(4, 2)], [(5, 1)], [(1, 5)]])
    )
    W = draw(st.sampled_from([1, 1, 1, 2]))
    seed = draw(st.integers(0, 2**31 - 1))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    given = draw(st.sampled_from([(), ("null",), ("word", "room"), ("null", "word", "room", "share")]))
    turned = draw(st.booleans())
    g = torch.Generator().manual_seed(seed)

    def table(*size: int) -> Tensor:
        x = spread * torch.randn(size, generator=g, dtype=torch.float64)
        return x.masked_fill(torch.rand(size, generator=g) < zeros, -torch.inf)

    grid = Grid(*(torch.tensor(n) for n in zip(*shapes, strict=True)))
    value = torch.randint(C, (grid.cells,), generator=g)
    sizes = {"null": len(shapes), "word": len(shapes), "room": rooms(W), "share": max(map(max, shapes)) + 1}
    others: Any = {name: table(sizes[name]) for name in given}
    dist = AlignmentHMM(table(C), grid, table(3, 2 * W + 1), **others, turned=turned)
    pieces, items, at = [], [], 0
    for b, (height, width) in enumerate(shapes):
        size = (height + 1) * (width + 1)
        pieces.append(slice(at, at + size))
        items.append(enumerate_alignments(dist, b, value[at : at + size].tolist()))
        at += size
    return Instance(dist, value, items, pieces)


def trace_enum(instance: Instance) -> float:
    """An enumerated state a word: the place of the last link, and whether this word has it."""
    dist = instance.dist
    assert isinstance(dist, AlignmentHMM)
    w = dist.weights
    W = (w["jump"].shape[-1] - 1) // 2

    def weigh(uses: list[Use]) -> Tensor:
        return sum((w[name][cell] for name, cell in uses if name in w), torch.zeros(()))

    def model() -> None:
        for b, piece in enumerate(instance.pieces):
            height, width = int(dist.grid.source_lengths[b]), int(dist.grid.target_lengths[b])
            words, size = options(dist.turned, height, width), width if dist.turned else height
            if not words:
                continue
            # State i is a link to place i; state size + 1 + i is none, the last having been to place i.
            n = 2 * (size + 1)
            table = torch.full((n, n), -torch.inf)
            for old in range(n):
                at = old % (size + 1)
                table[old, size + 1 + at] = weigh([("null", (b,))])
                for new in range(1, size + 1):
                    table[old, new] = weigh([("word", (b,)), *used_by_jump(at, new, size, W)])
            end = torch.stack([weigh(used_by_jump(s % (size + 1), size + 1, size, W)) for s in range(n)])
            state: Any = size + 1  # before the sentence, without a link
            for t, choices in enumerate(words):
                cells = instance.value[piece][torch.tensor([i * (width + 1) + j for i, j in choices])]
                weights = w["translation"][cells]
                emitted = torch.cat([weights, weights[:1].expand(size + 1)])
                state = pyro.sample(f"z_{b}_{t}", Categorical(table[state]), infer={"enumerate": "parallel"})
                pyro.sample(f"x_{b}_{t}", Categorical(emitted[state].unsqueeze(-1)), obs=torch.tensor(0))
            pyro.sample(f"end_{b}", Categorical(end[state].unsqueeze(-1)), obs=torch.tensor(0))

    return -float(TraceEnum_ELBO(max_plate_nesting=0, strict_enumeration_warning=False).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, AlignmentHMM)
    grid, w, order = dist.grid, dist.weights, list(range(len(instance.pieces)))
    by_pair: dict[str, Any] = {name: w[name] for name in ("null", "word") if name in w}
    jumps: dict[str, Any] = {name: w[name] for name in ("jump", "room", "share") if name in w}
    W = (w["jump"].shape[-1] - 1) // 2
    backwards = order[::-1]
    yield (
        "shuffled",
        AlignmentHMM(
            w["translation"],
            Grid(grid.source_lengths.flip(0), grid.target_lengths.flip(0)),
            **jumps,
            **{name: x.flip(0) for name, x in by_pair.items()},
            turned=dist.turned,
        ),
        torch.cat([instance.value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    C = len(w["translation"])
    renumbered = dist.with_weights({"translation": w["translation"].roll(1)})
    yield "renumbered", renumbered, (instance.value + 1) % C, order
    more = {
        "translation": torch.cat([w["translation"], torch.randn(3)]),
        "share": torch.cat([w["share"], torch.ones(2)]),
    }
    yield "with unused weights", dist.with_weights(more), instance.value, order
    blocks = [
        instance.value[piece].reshape(int(i) + 1, int(j) + 1)
        for piece, i, j in zip(instance.pieces, grid.source_lengths, grid.target_lengths, strict=True)
    ]
    other = Grid(grid.target_lengths, grid.source_lengths)
    yield (
        "turned round",
        AlignmentHMM(w["translation"], other, **jumps, **by_pair, turned=not dist.turned),
        torch.cat([block.T.flatten() for block in blocks]),
        order,
    )
    p = torch.randperm(len(grid.pair))
    mixed = Grid(grid.source_lengths, grid.target_lengths, grid.pair[p], grid.place[p])
    rows = [instance.value[grid.starts[k] : grid.starts[k + 1]] for k in p.tolist()]
    turned = AlignmentHMM(w["translation"], mixed, **jumps, **by_pair, turned=dist.turned)
    yield "rows in any order", turned, torch.cat(rows), order
    spare = instance.value.clone().int()
    row, column = grid.parts()
    spare[(grid.place[row] == 0) if dist.turned else (column == 0)] = -1
    yield "without the null word of the other direction", dist, spare, order
    if "room" not in w and int(other.source_lengths.max() + other.target_lengths.max()) < W:  # nothing is far
        far = dist.with_weights({"jump": torch.nn.functional.pad(w["jump"], (1, 1), value=-torch.inf)})
        yield "of longer reach", far, instance.value, order


def long(copies: int, table: Table, kind: int) -> Instance:
    """In both directions, with jumps of both reaches and all their weights, or few."""
    C, shape, W = 11, (7, 9), 2 + kind
    grid = Grid(*(torch.full((copies,), n) for n in shape))
    value = torch.arange((shape[0] + 1) * (shape[1] + 1)) * 7 % C
    others: Any = {"null": table(1).repeat(copies), "word": table(1).repeat(copies)}
    others |= {"room": table(rooms(W)), "share": table(max(shape) + 1)} if kind >= 2 else {}
    dist = AlignmentHMM(table(C), grid, table(3, 2 * W + 1), **others, turned=kind % 2 == 1)
    return Instance(dist, value.repeat(copies), [], [])


ALIGNMENT_HMM = Case(
    "alignment by jumps",
    instances((0.0, 1.0, 3.0, 10.0)),
    instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
