"""The headed bracketing, for the contract suite: random instances, all trees by filtering and what they are built from,
and a plain Pyro program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from operator import getitem
from typing import Any

import numpy as np
import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import HeadedBracketing, Structure
from pyro_unsup.testing import Case, Enumerated, Instance, Table

from .bracketing_case import Span, all_spans
from .dependency_case import Heads, all_trees, uses


def build(heads: Heads, head: int, order: str, spans: list[Span]) -> Span:
    """Let a word (from 1) take its children one by one; gives its span, and adds every span on the way to the list."""
    i, j = head - 1, head
    spans.append((i, j))
    children = [child for child, above in enumerate(heads, 1) if above == head]
    sides = {"right": sorted(c for c in children if c > head), "left": sorted(c for c in children if c < head)[::-1]}
    for side in (order, "left" if order == "right" else "right"):
        for child in sides[side]:
            a, b = build(heads, child, order, spans)
            assert b == i or a == j
            i, j = min(i, a), max(j, b)
            spans.append((i, j))
    return i, j


@cache
def spans_in(heads: Heads, order: str) -> frozenset[Span]:
    """The constituents of a tree."""
    found: list[Span] = []
    assert build(heads, heads.index(0) + 1, order, found) == (0, len(heads))
    assert len(set(found)) == len(found) == 2 * len(heads) - 1
    return frozenset(found)


def enumerate_trees(dist: HeadedBracketing, sentence: int, tags: list[int]) -> Enumerated:
    """Every tree, its weight and what it uses, from the definition alone."""
    before, n = dist.lengths[:sentence], len(tags)
    edge = int((before * (before + 1) // 2).sum())
    shapes = {name: w.shape for name, w in dist.weights.items()}
    values = {name: w.detach().double().reshape(-1).tolist() for name, w in dist.weights.items()}
    cells = list(zip(all_spans(n), dist.spans[edge:].tolist(), strict=False))
    trees = all_trees(n)
    counts = {name: np.zeros((len(trees), shape.numel())) for name, shape in shapes.items()}
    found = Enumerated([], [], [], [])
    for t, heads in enumerate(trees):
        inside, used = spans_in(heads, dist.order), uses(heads, tags)
        for span, (y, x) in cells:
            used += [("yields", (int(span in inside), y)), ("contexts", (int(span in inside), x))]
            if span in inside and span[1] - span[0] > 1:
                used.append(("node", (span[1] - span[0],)))
        score = 0.0
        for name, cell in used:
            if name in values:
                place = 0
                for size, index in zip(shapes[name], cell, strict=True):
                    place = place * size + index
                score += values[name][place]
                counts[name][t, place] += 1
        found.structures.append(heads)
        found.scores.append(score)
        found.parts.append([((child - 1) * (n + 1) + head,) for child, head in enumerate(heads, 1)])
    rows = {name: torch.from_numpy(x).reshape(len(trees), *shapes[name]).unbind() for name, x in counts.items()}
    found.counts += [{name: x[t] for name, x in rows.items()} for t in range(len(trees))]
    return found


@st.composite
def headed_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    K, Y, X = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    lengths = draw(st.sampled_from([[3], [1], [2], [3], [2, 1], [1, 3], [2, 2], [4]]))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    extra = draw(st.sampled_from([(), (), ("node",)]))
    order = draw(st.sampled_from(["right", "left"]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(*shape: int) -> Tensor:
        holes = torch.rand(shape, generator=g) < zeros
        return (spread * torch.randn(shape, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    sizes = {"node": max(lengths) + 1}
    value = torch.randint(K, (sum(lengths),), generator=g)
    spans = torch.stack([torch.randint(k, (sum(n * (n + 1) // 2 for n in lengths),), generator=g) for k in (Y, X)], 1)
    tables = table(K), table(K, 2, K), table(K, 2, 2, 2), table(2, Y), table(2, X)
    more = {name: table(sizes[name]) for name in extra}
    return instance_of(HeadedBracketing(*tables, spans, torch.tensor(lengths), order=order, **more), value)


def instance_of(dist: HeadedBracketing, value: Tensor) -> Instance:
    pieces, cells, items, at, corner = [], [], [], 0, 0
    for b, n in enumerate(dist.lengths.tolist()):
        pieces.append(slice(at, at + n))
        cells.append(slice(corner, corner + n * (n + 1)))
        items.append(enumerate_trees(dist, b, value[at : at + n].tolist()))
        at, corner = at + n, corner + n * (n + 1)
    return Instance(dist, value, items, pieces, cells)


def trace_enum(instance: Instance) -> float:
    """One enumerated variable a sentence that lists its trees, weighed by their arcs and decisions; then all spans."""
    dist = instance.dist
    assert isinstance(dist, HeadedBracketing)
    w = dist.weights
    lists: Any = {name: x.tolist() for name, x in w.items()}

    def weight(heads: Heads, tags: list[int]) -> float:
        """Of a tree, without its spans."""
        total = sum(reduce(getitem, cell, lists[name]) for name, cell in uses(heads, tags))
        if "node" in w:
            total += sum(lists["node"][j - i] for i, j in spans_in(heads, dist.order) if j - i > 1)
        return total

    def model() -> None:
        edge = 0
        for b, (item, piece) in enumerate(zip(instance.items, instance.pieces, strict=True)):
            tags, order = instance.value[piece].tolist(), all_spans(int(dist.lengths[b]))
            prior = torch.tensor([weight(heads, tags) for heads in item.structures], dtype=torch.float64)
            tree = pyro.sample(f"tree_{b}", Categorical(prior), infer={"enumerate": "parallel"})
            trees = [spans_in(heads, dist.order) for heads in item.structures]
            inside = torch.tensor([[int(span in found) for span in order] for found in trees])[tree]
            y, x = dist.spans[edge : edge + len(order)].unbind(1)
            pyro.sample(f"yields_{b}", Categorical(w["yields"][inside]).to_event(1), obs=y)
            pyro.sample(f"contexts_{b}", Categorical(w["contexts"][inside]).to_event(1), obs=x)
            edge += len(order)

    return -float(TraceEnum_ELBO(max_plate_nesting=0).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, HeadedBracketing)
    w, value, sizes = dist.weights, instance.value, dist.lengths.tolist()
    names, order = ("root", "attach", "stop", "yields", "contexts"), list(range(len(sizes)))
    node, backwards = w.get("node"), order[::-1]
    rows = dist.spans.split([n * (n + 1) // 2 for n in sizes])
    yield (
        "shuffled",
        HeadedBracketing(
            *(w[name] for name in names),
            torch.cat([rows[i] for i in backwards]),
            dist.lengths.flip(0),
            node,
            dist.order,
        ),
        torch.cat([value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    K, Y = len(w["root"]), w["yields"].shape[-1]
    p = torch.arange(K).roll(1)
    renumbered = {"root": w["root"][p], "attach": w["attach"][p][..., p], "stop": w["stop"][p]}
    yield "renumbered tags", dist.with_weights(renumbered), (value + 1) % K, order
    wider = {"yields": torch.cat([w["yields"], torch.randn(2, 3)], -1)}
    yield "with unused yields", dist.with_weights(wider), value, order
    moved = torch.stack([(dist.spans[:, 0] + 1) % Y, dist.spans[:, 1]], 1)
    tables = {**w, "yields": w["yields"][:, torch.arange(Y).roll(1)]}
    yield (
        "renumbered yields",
        HeadedBracketing(*(tables[name] for name in names), moved, dist.lengths, node, dist.order),
        value,
        order,
    )
    yield "in 32 bits", dist, value.int(), order
    # Left and right: sentences backwards, under weights in a mirror, with children on the other side first.
    flips = [[all_spans(n).index((n - j, n - i)) for i, j in all_spans(n)] for n in sizes]
    turned = torch.cat([piece[flip] for piece, flip in zip(rows, flips, strict=True)])
    yield (
        "in a mirror",
        HeadedBracketing(
            *(w["root"], w["attach"].flip(1), w["stop"].flip(1), w["yields"], w["contexts"]),
            turned,
            dist.lengths,
            node,
            "left" if dist.order == "right" else "right",
        ),
        torch.cat([value[piece].flip(0) for piece in instance.pieces]),
        order,
    )
    none = torch.zeros(instance.cells[-1].stop)
    yield "arcs spelled out", dist.with_potentials(arcs=none), value, order


def long(copies: int, table: Table, kind: int) -> Instance:
    """Children on either side first, with and without weights of nodes."""
    K, Y, X, n = 3, 7, 5, 8
    at = torch.arange(n * (n + 1) // 2)
    spans = torch.stack([at * 5 % Y, at * 3 % X], 1).repeat(copies, 1)
    more: Any = {"node": table(n + 1)} if kind >= 2 else {}
    tables = table(K), table(K, 2, K), table(K, 2, 2, 2), table(2, Y), table(2, X)
    order = "left" if kind % 2 else "right"
    dist = HeadedBracketing(*tables, spans, torch.full((copies,), n), order=order, **more)
    return Instance(dist, (torch.arange(n) * 5 % 7 % K).repeat(copies), [], [])


HEADED_BRACKETING = Case(
    "headed_bracketing",
    headed_instances((0.0, 1.0, 3.0, 10.0)),
    headed_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
