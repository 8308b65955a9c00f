"""The labelled grammar, for the contract suite: random instances, and all trees by loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup.distributions import PCFG, Structure
from pyro_unsup.distributions.grammar import Grammar
from pyro_unsup.testing import Case, Enumerated, Instance, Table

Span = tuple[int, int]
Tree = dict[Span, int]  # the label of every constituent


def trees(i: int, j: int, N: int, P: int) -> Iterator[tuple[int, Tree]]:
    """Every labelled tree over the words from i to j, and its label."""
    if j - i == 1:
        for p in range(P):
            yield N + p, {(i, j): N + p}
        return
    for k in range(i + 1, j):
        for (_, left), (_, right) in itertools.product(trees(i, k, N, P), trees(k, j, N, P)):
            for a in range(N):
                yield a, {(i, j): a, **left, **right}


def all_spans(n: int) -> list[Span]:
    return [(i, i + w) for w in range(1, n + 1) for i in range(n - w + 1)]


def rules_used(dist: Grammar, a: int, b: int, c: int) -> list[tuple[str, tuple[int, ...]]]:
    """The cells that a node with these labels uses: of one table, or of two whose product a rule is."""
    return [("rules", (a, b, c))] if "rules" in dist.weights else [("left", (a, b)), ("right", (a, c))]


def enumerate_trees(dist: Grammar, words: list[int]) -> Enumerated:
    w = {name: x.detach().double() for name, x in dist.weights.items()}
    N, P, n = len(w["root"]), len(w["emission"]), len(words)
    found = Enumerated([], [], [], [])
    for top, labels in trees(0, n, N, P):
        used: list[tuple[str, tuple[int, ...]]] = [("root", (top,))] if top < N else []
        for (i, j), label in labels.items():
            if j - i == 1:
                used.append(("emission", (label - N, words[i])))
            else:
                k = next(k for k in range(i + 1, j) if (i, k) in labels and (k, j) in labels)
                used += rules_used(dist, label, labels[i, k], labels[k, j])
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0 if top < N else -torch.inf  # the root of one word would be a preterminal
        for name, cell in used:
            counts[name][cell] += 1
            score += float(w[name][cell])
        order = all_spans(n)
        found.structures.append(tuple(labels.get(span, -1) for span in order))
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(order.index(span), label) for span, label in labels.items()])
    return found


def instance_of(dist: Grammar, value: Tensor) -> Instance:
    pieces, items, at, edge = [], [], 0, 0
    for n in dist.lengths.tolist():
        pieces.append(slice(edge, edge + n * (n + 1) // 2))
        items.append(enumerate_trees(dist, value[at : at + n].tolist()))
        at, edge = at + n, edge + n * (n + 1) // 2
    return Instance(dist, value, items, pieces)


Make = Callable[[Table, int, int, int, Tensor], Grammar]  #: from tables, N, P, V and lengths


def make_pcfg(table: Table, N: int, P: int, V: int, lengths: Tensor) -> PCFG:
    return PCFG(table(N), table(N, N + P, N + P), table(P, V), lengths)


@st.composite
def instances(draw: Any, spreads: tuple[float, ...], make: Make = make_pcfg) -> Instance:
    N, P, V = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    lengths = draw(st.sampled_from([[2], [3], [2, 3], [1, 2], [3, 2]] if N * P > 2 else [[4], [2], [2, 4], [3, 2]]))
    spread, zeros = draw(st.sampled_from(spreads)), draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(*shape: int) -> Tensor:
        holes = torch.rand(shape, generator=g) < zeros
        return (spread * torch.randn(shape, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    dist = make(table, N, P, V, torch.tensor(lengths))
    return instance_of(dist, torch.randint(V, (sum(lengths),), generator=g))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    w, order, lengths = dist.weights, list(range(len(dist.lengths))), dist.lengths.tolist()
    backwards = order[::-1]
    words = instance.value.split(lengths)
    yield (
        "shuffled",
        PCFG(w["root"], w["rules"], w["emission"], dist.lengths.flip(0)),
        torch.cat([words[i] for i in backwards]),
        backwards,
    )
    N, P = len(w["root"]), len(w["emission"])
    p, q = torch.arange(N).roll(1), torch.arange(P).roll(1)
    both = torch.cat([p, N + q])
    moved = {"root": w["root"][p], "rules": w["rules"][p][:, both][:, :, both], "emission": w["emission"][q]}
    yield "renamed labels", dist.with_weights(moved), instance.value, order
    mirror = {"rules": w["rules"].mT}
    yield "in a mirror", dist.with_weights(mirror), torch.cat([x.flip(0) for x in words]), order


def long(copies: int, table: Table, kind: int, make: Make = make_pcfg) -> Instance:
    N, P, V, n = 2 + kind % 2, 3, 5, 7 + kind
    dist = make(table, N, P, V, torch.full((copies,), n))
    return Instance(dist, (torch.arange(n) * 3 % V).repeat(copies), [], [])


GRAMMAR = Case("pcfg", instances((0.0, 1.0, 3.0, 10.0)), instances((100.0, 300.0)), None, variants, long)
