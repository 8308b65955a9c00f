"""The semi-Markov chain, for the contract suite: random instances of words, and all stretches by loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup.distributions import SemiMarkov, Structure
from pyro_unsup.distributions.ragged import pad
from pyro_unsup.testing import Case, Enumerated, Instance, Table


def stretches(n: int, K: int, D: int) -> Iterator[list[tuple[int, int]]]:
    """Every sequence of states with durations that add up to n."""
    if n == 0:
        yield []
    for d in range(1, min(n, D) + 1):
        for rest in stretches(n - d, K, D):
            for z in range(K):
                yield [(z, d), *rest]


def enumerate_stretches(dist: SemiMarkov, words: list[int]) -> Enumerated:
    w = {name: x.detach().double() for name, x in dist.weights.items()}
    K, D = w["duration"].shape
    found = Enumerated([], [], [], [])
    for some in stretches(len(words), K, D):
        used: list[tuple[str, tuple[int, ...]]] = [("start", (some[0][0],))]
        used += [("transition", (a, b)) for (a, _), (b, _) in itertools.pairwise(some)]
        structure, parts, at = [], [], 0
        for z, d in some:
            used += [("emission", (z, x)) for x in words[at : at + d]]
            structure += [v for t in range(d) for v in (z, int(t == d - 1))]
            at += d
            parts.append((at - 1, d - 1, z))
            used.append(("last" if at == len(words) and "last" in w else "duration", (z, d - 1)))
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0
        for name, cell in used:
            counts[name][cell] += 1
            score += float(w[name][cell])
        found.structures.append(tuple(structure))
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append(parts)
    return found


def enumerated(dist: SemiMarkov, value: Tensor) -> Instance:
    """An instance of a distribution whose values lie flat."""
    pieces, items, at = [], [], 0
    for n in dist.rows.lengths.tolist():
        pieces.append(slice(at, at + n))
        items.append(enumerate_stretches(dist, value[at : at + n].tolist()))
        at += n
    return Instance(dist, value, items, pieces)


LENGTHS = st.sampled_from([[1], [3], [4], [2, 3], [4, 1, 2]])


@st.composite
def instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    K, D, V = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    lengths, censored = draw(LENGTHS), draw(st.booleans())
    spread, zeros = draw(st.sampled_from(spreads)), draw(st.sampled_from([0.0, 0.0, 0.2, 0.4]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))

    def table(*shape: int) -> Tensor:
        holes = torch.rand(shape, generator=g) < zeros
        return (spread * torch.randn(shape, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    tables = (table(K), table(K, K), table(K, D), table(K, V))
    dist = SemiMarkov(*tables, torch.tensor(lengths), censored=censored)
    return enumerated(dist, torch.randint(V, (sum(lengths),), generator=g))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    assert isinstance(dist, SemiMarkov)
    w, order = dist.weights, list(range(len(dist.lengths)))
    backwards = order[::-1]
    tables = [w[name] for name in ("start", "transition", "duration", "emission")]
    yield (
        "shuffled",
        SemiMarkov(*tables, dist.lengths.flip(0), censored=dist.censored),
        torch.cat([instance.value[instance.pieces[i]] for i in backwards]),
        backwards,
    )
    for extra in (0, 2):
        rectangle = SemiMarkov(*tables, dist.lengths, flat=False, censored=dist.censored)
        yield f"padded by {extra}", rectangle, pad(instance.value, dist.lengths, time=longest(dist) + extra), order
    K = len(w["start"])
    p = torch.arange(K).roll(1)
    moved = {name: x[p] for name, x in w.items()}
    yield "relabelled", dist.with_weights({**moved, "transition": moved["transition"][:, p]}), instance.value, order
    none = torch.full((K, 2), -torch.inf)
    longer = {name: torch.cat([w[name], none], -1) for name in ("duration", "last") if name in w}
    yield "with durations that are impossible", dist.with_weights(longer), instance.value, order


def longest(dist: SemiMarkov) -> int:
    return int(dist.lengths.max())


def long(copies: int, table: Table, kind: int) -> Instance:
    """With a last stretch that is cut off, or not; and states that follow themselves, or do not."""
    K, D, V, n = 3, 4, 5, 11 + kind
    steps = table(K, K) if kind < 2 else table(K, K).masked_fill(torch.eye(K, dtype=torch.bool), -torch.inf)
    lengths = torch.full((copies,), n)
    dist = SemiMarkov(table(K), steps, table(K, D), table(K, V), lengths, censored=kind % 2 == 1)
    return Instance(dist, (torch.arange(n) * 3 % V).repeat(copies), [], [])


SEMIMARKOV = Case("semimarkov", instances((0.0, 1.0, 3.0, 10.0)), instances((100.0, 300.0)), None, variants, long)
