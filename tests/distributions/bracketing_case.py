"""The bracketing, for the contract suite: random instances, all trees by loops, and a plain Pyro program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import Bracketing, Structure
from pyro_unsup.testing import Case, Enumerated, Instance, Table

Span = tuple[int, int]


def all_trees(i: int, j: int) -> list[set[Span]]:
    """Every binary tree over the words i .. j - 1, as the set of its spans."""
    if j - i == 1:
        return [{(i, j)}]
    return [{(i, j)} | a | b for k in range(i + 1, j) for a in all_trees(i, k) for b in all_trees(k, j)]


def all_spans(n: int) -> list[Span]:
    return [(i, i + w) for w in range(1, n + 1) for i in range(n - w + 1)]


def enumerate_trees(dist: Bracketing, n: int, spans: list[list[int]]) -> Enumerated:
    """Every tree, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double().tolist() for name, x in dist.weights.items()}
    order = all_spans(n)
    found = Enumerated([], [], [], [])
    for tree in all_trees(0, n):
        counts = {name: torch.zeros_like(x, dtype=torch.float64).tolist() for name, x in dist.weights.items()}
        score = 0.0
        if "tree" in w:
            counts["tree"][n] += 1
            score += w["tree"][n]
        for (i, j), (y, x) in zip(order, spans, strict=True):
            inside = int((i, j) in tree)
            counts["yields"][inside][y] += 1
            counts["contexts"][inside][x] += 1
            score += w["yields"][inside][y] + w["contexts"][inside][x]
            if inside and j - i > 1 and "node" in w:
                counts["node"][j - i] += 1
                score += w["node"][j - i]
        found.structures.append(tuple(int(span in tree) for span in order))
        found.scores.append(score)
        found.counts.append({name: torch.tensor(c, dtype=torch.float64) for name, c in counts.items()})
        found.parts.append([(s,) for s, span in enumerate(order) if span in tree])
    return found


@st.composite
def bracketing_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    Y, X = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    seed = draw(st.integers(0, 2**31 - 1))
    spread = draw(st.sampled_from(spreads))
    # Zeros among the distituents force spans into the tree, zeros among the constituents keep them out.
    zeros = [draw(st.sampled_from([0.0, 0.0, 0.2, 0.5])) for _ in range(2)]
    prior = draw(st.sampled_from([(), ("node",), ("tree",), ("node", "tree")]))
    g = torch.Generator().manual_seed(seed)

    def table(types: int) -> Tensor:
        holes = torch.rand(2, types, generator=g) < torch.tensor(zeros)[:, None]
        return (spread * torch.randn(2, types, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    extra = {name: spread * torch.randn(max(lengths) + 1, generator=g, dtype=torch.float64) for name in prior}
    sizes = [n * (n + 1) // 2 for n in lengths]
    value = torch.stack([torch.randint(k, (sum(sizes),), generator=g) for k in (Y, X)], 1)
    dist = Bracketing(table(Y), table(X), torch.tensor(lengths), **extra)
    pieces, items, at = [], [], 0
    for n, size in zip(lengths, sizes, strict=True):
        pieces.append(slice(at, at + size))
        items.append(enumerate_trees(dist, n, value[at : at + size].tolist()))
        at += size
    return Instance(dist, value, items, pieces)


def trace_enum(instance: Instance) -> float:
    """Trees as one enumerated variable a sentence, that lists them all; spans observed one by one."""
    dist = instance.dist
    assert isinstance(dist, Bracketing)
    w = dist.weights

    def model() -> None:
        for b, (item, piece) in enumerate(zip(instance.items, instance.pieces, strict=True)):
            n = int(dist.lengths[b])
            prior = torch.zeros(len(item.structures))
            if "tree" in w:
                prior = prior + w["tree"][n]
            if "node" in w:
                widths = torch.tensor([j - i for i, j in all_spans(n)])
                prior = prior + torch.tensor(item.structures).double() @ torch.where(widths > 1, w["node"][widths], 0.0)
            tree = pyro.sample(f"tree_{b}", Categorical(prior), infer={"enumerate": "parallel"})
            inside = torch.tensor(item.structures)[tree]  # (trees, spans)
            for s, (y, x) in enumerate(instance.value[piece]):
                pyro.sample(f"yield_{b}_{s}", Categorical(w["yields"][inside[..., s]]), obs=y)
                pyro.sample(f"context_{b}_{s}", Categorical(w["contexts"][inside[..., s]]), obs=x)

    return -float(TraceEnum_ELBO(max_plate_nesting=0).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, Bracketing)
    w, order = dist.weights, list(range(len(instance.pieces)))
    extra = {name: w[name] for name in ("node", "tree") if name in w}
    backwards = order[::-1]
    yield (
        "shuffled",
        Bracketing(w["yields"], w["contexts"], dist.lengths.flip(0), **extra),
        torch.cat([instance.value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    Y = w["yields"].shape[-1]
    p = torch.arange(Y).roll(1)
    renumbered = torch.stack([(instance.value[:, 0] + 1) % Y, instance.value[:, 1]], 1)
    yield "renumbered", Bracketing(w["yields"][:, p], w["contexts"], dist.lengths, **extra), renumbered, order
    more = torch.cat([w["contexts"], torch.randn(2, 3)], -1)
    yield "with unused contexts", Bracketing(w["yields"], more, dist.lengths, **extra), instance.value, order
    swapped = Bracketing(w["contexts"], w["yields"], dist.lengths, **extra)
    yield "yields and contexts swapped", swapped, instance.value.flip(1), order
    longer = {name: torch.cat([x, torch.randn(4)]) for name, x in extra.items()}
    yield (
        "weights for longer sentences",
        Bracketing(w["yields"], w["contexts"], dist.lengths, **longer),
        instance.value,
        order,
    )
    zeros = {name: extra.get(name, torch.zeros(int(dist.lengths.max()) + 1)) for name in ("node", "tree")}
    yield (
        "every prior spelled out",
        Bracketing(w["yields"], w["contexts"], dist.lengths, **zeros),
        instance.value,
        order,
    )


def long(copies: int, table: Table, kind: int) -> Instance:
    """With and without weights of nodes and trees."""
    n, Y, X = 11, 7, 5
    at = torch.arange(n * (n + 1) // 2)
    extra = {name: table(n + 1) for bit, name in ((1, "node"), (2, "tree")) if kind & bit}
    dist = Bracketing(table(2, Y), table(2, X), torch.full((copies,), n), **extra)
    return Instance(dist, torch.stack([at * 5 % Y, at * 3 % X], 1).repeat(copies, 1), [], [])


BRACKETING = Case(
    "bracketing",
    bracketing_instances((0.0, 1.0, 3.0, 10.0)),
    bracketing_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
