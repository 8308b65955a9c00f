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


def used_by_jump(old: int, new: int, size: int, W: int, kind: int = 0, inner: int = 1) -> list[Use]:
    """The weights of a jump between two places of a sentence; 0 is before it, size + 1 its end.

    :param kind: of a jump from link to link, one of ``inner``.
    """
    end = new == size + 1
    row = 1 + inner if end else 0 if old == 0 else 1 + kind
    offset = max(-W, min(W, new - old))
    if end:
        room = inner * (W + 1) ** 2 + W + min(size + 1, W) - 1
        among = [i for i in range(size + 1) if new - i >= W]
    elif old == 0:
        room = inner * (W + 1) ** 2 + min(size, W) - 1
        among = [m for m in range(1, size + 1) if m >= W]
    else:
        room = kind * (W + 1) ** 2 + min(old - 1, W) * (W + 1) + min(size - old, W)
        among = [m for m in range(1, size + 1) if (m - old >= W if offset > 0 else old - m >= W)]
    many = len(among) if abs(new - old) >= W else 1
    return [("jump", (row, W + offset)), ("room", (room,)), ("share", (many - 1,))]


def direction(old: int, new: int, W: int) -> int:
    """Back, to the same word, to the next, or further ahead, as far as jumps of W and more can be told apart."""
    return [-1, 0, 1, 2].index(max(-1, min(2, W, new - old)))


class Kinds:
    """Which kind each jump of a pair is of: by the class of the word that it leaves, and by the jump before."""

    def __init__(self, dist: AlignmentHMM, pair: int) -> None:
        self.W, self.inner = (dist.weights["jump"].shape[-1] - 1) // 2, dist.weights["jump"].shape[-2] - 2
        self.size = int(dist.grid.chosen(dist.turned)[pair])
        before = int(dist.grid.chosen(dist.turned)[:pair].sum())
        given = [0] * self.size if dist.classes is None else dist.classes.tolist()[before : before + self.size]
        self.classes, self.directions = given, 1 if dist.directions == 1 else 4

    def uses(self, old: int, new: int, way: int) -> list[Use]:
        kind = (way * self.inner // self.directions + self.classes[old - 1]) if old else 0
        return used_by_jump(old, new, self.size, self.W, kind, self.inner)

    def way(self, old: int, new: int) -> int:
        return 0 if self.directions == 1 else direction(old, new, self.W)


def enumerate_alignments(dist: AlignmentHMM, pair: int, cells: list[int]) -> Enumerated:
    """Every alignment, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double() for name, x in dist.weights.items()}
    height, width = int(dist.grid.source_lengths[pair]), int(dist.grid.target_lengths[pair])
    kinds = Kinds(dist, pair)
    found = Enumerated([], [], [], [])
    for chosen in itertools.product(*options(dist.turned, height, width)):
        structure, at, way = [0] * len(cells), 0, 0
        uses: list[Use] = []
        for i, j in chosen:
            place = i * (width + 1) + j
            structure[place] = 1
            uses.append(("translation", (cells[place],)))
            other = j if dist.turned else i
            uses.append(("word" if other else "null", (pair,)))
            if other:
                uses += kinds.uses(at, other, way)
                at, way = other, kinds.way(at, other)
        if chosen:
            uses += kinds.uses(at, kinds.size + 1, way)
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
    order, many = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1), (2, 3)]))
    g = torch.Generator().manual_seed(seed)

    def table(*size: int) -> Tensor:
        x = spread * torch.randn(size, generator=g, dtype=torch.float64)
        return x.masked_fill(torch.rand(size, generator=g) < zeros, -torch.inf)

    grid = Grid(*(torch.tensor(n) for n in zip(*shapes, strict=True)))
    value = torch.randint(C, (grid.cells,), generator=g)
    inner = many * (4 if order == 2 else 1)
    sizes = {"null": len(shapes), "word": len(shapes), "room": rooms(W, inner), "share": max(map(max, shapes)) + 1}
    others: Any = {name: table(sizes[name]) for name in given}
    words = int(grid.chosen(turned).sum())
    others |= {"classes": torch.randint(many, (words,), generator=g)} if many > 1 else {}
    dist = AlignmentHMM(table(C), grid, table(inner + 2, 2 * W + 1), **others, turned=turned, order=order)
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

    def weigh(uses: list[Use]) -> Tensor:
        return sum((w[name][cell] for name, cell in uses if name in w), torch.zeros(()))

    def model() -> None:
        for b, piece in enumerate(instance.pieces):
            height, width = int(dist.grid.source_lengths[b]), int(dist.grid.target_lengths[b])
            words, kinds = options(dist.turned, height, width), Kinds(dist, b)
            if not words:
                continue
            # A state is a place, the direction of the jump that led there, and whether this word has the link.
            places = range(kinds.size + 1)
            states = [(at, way, link) for at in places for way in range(kinds.directions) for link in (False, True)]
            number = {one: k for k, one in enumerate(states)}
            table = torch.full((len(states), len(states)), -torch.inf)
            for (at, way, _), old in number.items():
                table[old, number[at, way, False]] = weigh([("null", (b,))])
                for new in range(1, kinds.size + 1):
                    step = weigh([("word", (b,)), *kinds.uses(at, new, way)])
                    table[old, number[new, kinds.way(at, new), True]] = step
            end = torch.stack([weigh(kinds.uses(at, kinds.size + 1, way)) for at, way, _ in states])
            state: Any = number[0, 0, False]  # before the sentence, without a link
            chooses = torch.tensor([at if link else 0 for at, _, link in states])
            for t, choices in enumerate(words):
                cells = instance.value[piece][torch.tensor([i * (width + 1) + j for i, j in choices])]
                emitted = w["translation"][cells][chooses]
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
    kinds: dict[str, Any] = {"order": 1 if dist.directions == 1 else 2}
    by_class = [] if dist.classes is None else dist.classes.split(grid.chosen(dist.turned).tolist())
    given = {"classes": dist.classes} if by_class else {}
    yield (
        "shuffled",
        AlignmentHMM(
            w["translation"],
            Grid(grid.source_lengths.flip(0), grid.target_lengths.flip(0)),
            **jumps,
            **{name: x.flip(0) for name, x in by_pair.items()},
            **({"classes": torch.cat(by_class[::-1])} if by_class else {}),
            **kinds,
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
        AlignmentHMM(w["translation"], other, **jumps, **by_pair, **given, **kinds, turned=not dist.turned),
        torch.cat([block.T.flatten() for block in blocks]),
        order,
    )
    p = torch.randperm(len(grid.pair))
    mixed = Grid(grid.source_lengths, grid.target_lengths, grid.pair[p], grid.place[p])
    rows = [instance.value[grid.starts[k] : grid.starts[k + 1]] for k in p.tolist()]
    turned = AlignmentHMM(w["translation"], mixed, **jumps, **by_pair, **given, **kinds, turned=dist.turned)
    yield "rows in any order", turned, torch.cat(rows), order
    spare = instance.value.clone().int()
    row, column = grid.parts()
    spare[(grid.place[row] == 0) if dist.turned else (column == 0)] = -1
    yield "without the null word of the other direction", dist, spare, order
    widest = int(other.source_lengths.max() + other.target_lengths.max())
    if "room" not in w and dist.directions == 1 and widest < W:  # nothing is far
        far = dist.with_weights({"jump": torch.nn.functional.pad(w["jump"], (1, 1), value=-torch.inf)})
        yield "of longer reach", far, instance.value, order


def long(copies: int, table: Table, kind: int) -> Instance:
    """In both directions, with jumps of both reaches, some kinds of them, and all their weights, or few."""
    C, shape, W = 11, (7, 9), 2 + kind
    grid = Grid(*(torch.full((copies,), n) for n in shape))
    value = torch.arange((shape[0] + 1) * (shape[1] + 1)) * 7 % C
    turned, many, order = kind % 2 == 1, 1 + kind % 2, 1 + kind // 2 % 2
    inner, words = many * (4 if order == 2 else 1), int(grid.chosen(turned).sum())
    others: Any = {"null": table(1).repeat(copies), "word": table(1).repeat(copies), "order": order}
    others |= {"room": table(rooms(W, inner)), "share": table(max(shape) + 1)} if kind >= 2 else {}
    others |= {"classes": torch.arange(words) % (words // copies) % many} if many > 1 else {}
    dist = AlignmentHMM(table(C), grid, table(inner + 2, 2 * W + 1), **others, turned=turned)
    return Instance(dist, value.repeat(copies), [], [])


ALIGNMENT_HMM = Case(
    "alignment by jumps",
    instances((0.0, 1.0, 3.0, 10.0)),
    instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
