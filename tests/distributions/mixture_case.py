"""The mixture, for the contract suite: random instances, all clusters by loops, and a plain Pyro program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical
from pyro_unsup.distributions import Mixture, Structure
from pyro_unsup.testing import Case, Enumerated, Instance, Table


def enumerate_clusters(dist: Mixture, bag: list[list[int]]) -> Enumerated:
    """Every cluster, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double().tolist() for name, x in dist.weights.items()}
    found = Enumerated([], [], [], [])
    for k in range(len(w["cluster"])):
        counts = {name: torch.zeros_like(x, dtype=torch.float64) for name, x in dist.weights.items()}
        score = w["cluster"][k]
        counts["cluster"][k] += 1
        for word, times in bag:
            for _ in range(times):
                score += w["words"][k][word]
                counts["words"][k, word] += 1
        found.structures.append((k,))
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(0, k)])
    return found


@st.composite
def mixture_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    K, V = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    seed = draw(st.integers(0, 2**31 - 1))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        holes = torch.rand(shape, generator=g) < zeros
        return (spread * torch.randn(shape, generator=g, dtype=torch.float64)).masked_fill(holes, -torch.inf)

    cells = sum(lengths)
    value = torch.stack([torch.randint(V, (cells,), generator=g), torch.randint(1, 3, (cells,), generator=g)], 1)
    dist = Mixture(table(K), table(K, V), torch.tensor(lengths))
    items = [enumerate_clusters(dist, bag.tolist()) for bag in value.split(lengths)]
    return Instance(dist, value, items, [slice(b, b + 1) for b in range(len(lengths))])


def trace_enum(instance: Instance) -> float:
    dist = instance.dist
    assert isinstance(dist, Mixture)

    def model() -> None:
        for b, bag in enumerate(instance.value.split(dist.lengths.tolist())):
            z = pyro.sample(f"z_{b}", Categorical(dist.weights["cluster"]), infer={"enumerate": "parallel"})
            for i, (word, times) in enumerate(bag):
                for j in range(int(times)):
                    pyro.sample(f"word_{b}_{i}_{j}", Categorical(dist.weights["words"][z]), obs=word)

    return -float(TraceEnum_ELBO(max_plate_nesting=0).loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist, value = instance.dist, instance.value
    assert isinstance(dist, Mixture)
    cluster, words = dist.weights["cluster"], dist.weights["words"]
    order = list(range(len(dist.lengths)))
    bags = value.split(dist.lengths.tolist())
    backwards = order[::-1]
    shuffled = torch.cat([bags[i] for i in backwards])
    yield (
        "documents shuffled",
        Mixture(cluster, words, dist.lengths.flip(0)),
        shuffled,
        backwards,
    )
    yield "words shuffled", dist, torch.cat([bag.flip(0) for bag in bags]), order
    spelled = torch.stack([value[:, 0].repeat_interleave(value[:, 1]), torch.ones(int(value[:, 1].sum())).long()], 1)
    tokens = torch.tensor([int(bag[:, 1].sum()) for bag in bags])
    yield "a cell for every word", Mixture(cluster, words, tokens), spelled, order
    p = torch.arange(len(cluster)).roll(1)
    yield (
        "clusters renumbered",
        Mixture(cluster[p], words[p], dist.lengths),
        value,
        order,
    )
    more = torch.cat([words, torch.randn(len(words), 3)], -1)
    yield "with unused words", Mixture(cluster, more, dist.lengths), value, order
    extra = Mixture(
        torch.cat([cluster, torch.tensor([-torch.inf])]),
        torch.cat([words, torch.zeros(1, words.shape[1])]),
        dist.lengths,
    )
    yield "with an impossible cluster", extra, value, order
    batched = Mixture(cluster.expand(len(order), -1), words.expand(len(order), -1, -1), dist.lengths)
    yield "a set of weights for each document", batched, value, order


def long(copies: int, table: Table, kind: int) -> Instance:
    K, V, n = 9, 12, 6 + kind
    bag = torch.stack([torch.arange(n) * 5 % V, 1 + torch.arange(n) % 3], 1)
    return Instance(Mixture(table(K), table(K, V), torch.full((copies,), n)), bag.repeat(copies, 1), [], [])


MIXTURE = Case(
    "mixture",
    mixture_instances((0.0, 1.0, 3.0, 10.0)),
    mixture_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
