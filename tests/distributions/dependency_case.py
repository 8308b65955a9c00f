"""Dependencies, for the contract suite: random instances, all trees by filtering, and a plain Pyro program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import Dependency, Structure
from pyro_unsup.testing import Case, Enumerated, Instance, Table

Heads = tuple[int, ...]


def ancestors(heads: Heads, word: int) -> list[int]:
    """The heads above a word, up to the root; or as many as there are words, if they go round in a cycle."""
    above = [heads[word - 1]]
    while above[-1] > 0 and len(above) <= len(heads):
        above.append(heads[above[-1] - 1])
    return above


@cache
def all_trees(n: int) -> list[Heads]:
    """Every projective tree with one root: of all ways to give each word a head, those that are one.

    Words between a head and its child are below that head.
    """
    trees = []
    for heads in itertools.product(range(n + 1), repeat=n):
        if heads.count(0) != 1 or any(head == word for word, head in enumerate(heads, 1)):
            continue
        above = [ancestors(heads, word) for word in range(1, n + 1)]
        if all(up[-1] == 0 for up in above):
            between = [(h, k) for c, h in enumerate(heads, 1) for k in range(min(h, c) + 1, max(h, c))]
            if all(h in above[k - 1] for h, k in between):
                trees.append(heads)
    return trees


def later(heads: Heads, child: int) -> bool:
    """Whether a word has a sister that is nearer to its head, on the same side."""
    head = heads[child - 1]
    between = range(min(head, child) + 1, max(head, child))
    return any(heads[word - 1] == head for word in between)


def uses(heads: Heads, tags: list[int], valence: int = 1) -> list[tuple[str, tuple[int, ...]]]:
    """The weights that a tree uses, by table and cell."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for child, head in enumerate(heads, 1):
        if head == 0:
            found.append(("root", (tags[child - 1],)))
        else:
            which = (int(later(heads, child)),) if valence > 1 else ()
            found.append(("attach", (tags[head - 1], int(head < child), *which, tags[child - 1])))
    for word, tag in enumerate(tags, 1):
        for side in range(2):
            children = sum(head == word and (child > word) == side for child, head in enumerate(heads, 1))
            found += [("stop", (tag, side, min(already, 1), 1)) for already in range(children)]
            found.append(("stop", (tag, side, min(children, 1), 0)))
    return found


def enumerate_trees(dist: Dependency, tags: list[int]) -> Enumerated:
    """Every tree, its weight and what it uses, from the definition alone."""
    shapes, n = {name: w.shape for name, w in dist.weights.items()}, len(tags)
    values = {name: w.detach().double().reshape(-1).tolist() for name, w in dist.weights.items()}
    trees = all_trees(n)
    counts = {name: torch.zeros(len(trees), shape.numel(), dtype=torch.float64) for name, shape in shapes.items()}
    found = Enumerated([], [], [], [])
    for t, heads in enumerate(trees):
        score = 0.0
        for name, cell in uses(heads, tags, dist.valence):
            place = 0
            for size, index in zip(shapes[name], cell, strict=True):
                place = place * size + index
            score += values[name][place]
            counts[name][t, place] += 1
        found.structures.append(heads)
        found.scores.append(score)
        found.parts.append([((child - 1) * (n + 1) + head,) for child, head in enumerate(heads, 1)])
    rows = {name: x.reshape(len(trees), *shapes[name]).unbind() for name, x in counts.items()}
    found.counts += [{name: x[t] for name, x in rows.items()} for t in range(len(trees))]
    return found


@st.composite
def dependency_instances(draw: Any, spreads: tuple[float, ...], valence: int = 1) -> Instance:
    K = draw(st.integers(1, 2))
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2) | st.sampled_from([[4], [2, 4], [1, 2, 3]]))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(*shape: int) -> Tensor:
        holes = torch.rand(shape, generator=g) < zeros
        return (spread * torch.randn(shape, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    value = torch.randint(K, (sum(lengths),), generator=g)
    attach = table(K, 2, K) if valence == 1 else table(K, 2, 2, K)
    dist = Dependency(table(K), attach, table(K, 2, 2, 2), torch.tensor(lengths), valence)
    return instance_of(dist, value)


def instance_of(dist: Dependency, value: Tensor) -> Instance:
    pieces, cells, items, at, corner = [], [], [], 0, 0
    for n in dist.lengths.tolist():
        pieces.append(slice(at, at + n))
        cells.append(slice(corner, corner + n * (n + 1)))
        items.append(enumerate_trees(dist, value[at : at + n].tolist()))
        at, corner = at + n, corner + n * (n + 1)
    return Instance(dist, value, items, pieces, cells)


def trace_enum(instance: Instance) -> float:
    """One enumerated variable a sentence that lists its trees; then tags given heads, and all decisions on one side."""
    w = instance.dist.weights
    valence = getattr(instance.dist, "valence", 1)
    rows = torch.cat([w["root"].unsqueeze(0), w["attach"].flatten(0, -2)])  # what a child is drawn from

    def model() -> None:
        for b, (item, piece) in enumerate(zip(instance.items, instance.pieces, strict=True)):
            tags = instance.value[piece]
            heads = torch.tensor(item.structures)  # (trees, n)
            tree = pyro.sample(f"tree_{b}", Categorical(torch.zeros(len(heads))), infer={"enumerate": "parallel"})
            for c, tag in enumerate(tags):
                head = heads[:, c]
                row = 2 * tags[head - 1] + (head < c + 1).long()
                if valence > 1:
                    row = 2 * row + torch.tensor([later(tree, c + 1) for tree in item.structures]).long()
                row = torch.where(head > 0, 1 + row, 0)
                pyro.sample(f"tag_{b}_{c}", Categorical(rows[row[tree]]), obs=tag)
                for side in range(2):
                    at = torch.arange(1, len(tags) + 1)
                    children = ((heads == c + 1) & ((at > c + 1) == bool(side))).sum(-1)
                    adjacent, beyond = w["stop"][tag, side]
                    on = torch.where(children > 1, (children - 1).clamp(min=1) * beyond[1], 0.0) + adjacent[1]
                    moves = torch.where(children > 0, on + beyond[0], adjacent[0])
                    pyro.sample(f"moves_{b}_{c}_{side}", Categorical(moves[tree].unsqueeze(-1)), obs=torch.tensor(0))

    return -float(TraceEnum_ELBO(max_plate_nesting=0).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, Dependency)
    w, order, value, K = dist.weights, list(range(len(instance.pieces))), instance.value, len(dist.weights["root"])
    tables, backwards = (w["root"], w["attach"], w["stop"]), order[::-1]
    yield (
        "shuffled",
        Dependency(*tables, dist.lengths.flip(0), dist.valence),
        torch.cat([value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    p = torch.arange(K).roll(1)
    renumbered = {"root": w["root"][p], "attach": w["attach"][p][..., p], "stop": w["stop"][p]}
    yield "renumbered", dist.with_weights(renumbered), (value + 1) % K, order
    more = torch.nn.functional.pad(w["attach"], (0, 2, *(0, 0) * dist.valence, 0, 2))
    wider = {"root": torch.cat([w["root"], torch.randn(2)]), "attach": more}
    wider["stop"] = torch.cat([w["stop"], torch.randn(2, 2, 2, 2)])
    yield "with unused tags", dist.with_weights(wider), value, order
    yield "in 32 bits", dist, value.int(), order
    # Left and right: sentences backwards, under weights in a mirror.
    mirror = {"attach": w["attach"].flip(1), "stop": w["stop"].flip(1)}
    turned = torch.cat([value[piece].flip(0) for piece in instance.pieces])
    yield "in a mirror", dist.with_weights(mirror), turned, order
    none = torch.zeros(instance.cells[-1].stop)
    yield "arcs spelled out", dist.with_potentials(arcs=none), value, order
    yield "every arc allowed", dist.with_potentials(arcs=none == 0), value, order


def long(copies: int, table: Table, kind: int, valence: int = 1) -> Instance:
    """Of four lengths."""
    K, n = 3, 9 + kind
    attach = table(K, 2, K) if valence == 1 else table(K, 2, 2, K)
    dist = Dependency(table(K), attach, table(K, 2, 2, 2), torch.full((copies,), n), valence)
    return Instance(dist, (torch.arange(n) * 5 % 7 % K).repeat(copies), [], [])


DEPENDENCY = Case(
    "dependency",
    dependency_instances((0.0, 1.0, 3.0, 10.0)),
    dependency_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)

VALENCE = Case(
    "dependency with two valences",
    dependency_instances((0.0, 1.0, 3.0, 10.0), valence=2),
    dependency_instances((100.0, 300.0), valence=2),
    trace_enum,
    variants,
    partial(long, valence=2),
)
