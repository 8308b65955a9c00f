"""The chain, for the contract suite: random instances, enumeration by loops, and a plain Pyro program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyro
import torch
from hypothesis import strategies as st
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

from pyro_unsup import Categorical, Chain
from pyro_unsup.distributions import Structure
from pyro_unsup.distributions.ragged import pad
from pyro_unsup.testing import Case, Enumerated, Instance, Table


def enumerate_chain(chain: Chain, words: list[int]) -> Enumerated:
    """Every path, its weight and what it uses, from the definition alone."""
    w = {name: x.detach().double() for name, x in chain.weights.items()}
    K, n = w["start"].shape[0], len(words)
    second, stop = "second" in w, w["transition"].shape[-1] > K
    found = Enumerated([], [], [], [])
    for path in itertools.product(range(K), repeat=n):
        used: list[tuple[str, tuple[int, ...]]] = [("start", (path[0],))]
        used += [("emission", (z, x)) for z, x in zip(path, words, strict=True)]
        for t in range(1, n + stop):
            new = path[t] if t < n else K
            if not second:
                used.append(("transition", (path[t - 1], new)))
            elif t == 1:
                used.append(("second", (path[0], new)))
            else:
                used.append(("transition", (path[t - 2], path[t - 1], new)))
        counts = {name: torch.zeros_like(x) for name, x in w.items()}
        score = 0.0
        for name, cell in used:
            counts[name][cell] += 1
            score += float(w[name][cell])
        found.structures.append(path)
        found.scores.append(score)
        found.counts.append(counts)
        found.parts.append([(t, z) for t, z in enumerate(path)])
    return found


@st.composite
def chain_instances(draw: Any, spreads: tuple[float, ...]) -> Instance:
    K, V = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    second, stop = draw(st.booleans()), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    seed = draw(st.integers(0, 2**31 - 1))
    spread = draw(st.sampled_from(spreads))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    dictionary = draw(st.booleans())
    dtype = torch.float64
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int, holes: float = 0.0) -> Tensor:
        x = spread * torch.randn(shape, generator=g, dtype=dtype)
        return x.masked_fill(torch.rand(shape, generator=g) < holes, -torch.inf)

    emission = table(K, V, holes=zeros)
    if dictionary:  # every word keeps at least one state
        keep = torch.randint(K, (V,), generator=g)
        mask = torch.rand(K, V, generator=g) < 0.5
        mask[keep, torch.arange(V)] = True
        emission = emission.masked_fill(~mask, -torch.inf)
    start = table(K, holes=zeros)
    transition = table(*[K] * (2 if second else 1), K + stop, holes=zeros)
    into = table(K, K + stop, holes=zeros) if second else None
    words = torch.randint(V, (sum(lengths),), generator=g)
    chain = Chain(start, transition, emission, torch.tensor(lengths), into, flat=True)
    pieces, items, at = [], [], 0
    for n in lengths:
        pieces.append(slice(at, at + n))
        items.append(enumerate_chain(chain, words[at : at + n].tolist()))
        at += n
    return Instance(chain, words, items, pieces)


def trace_enum(instance: Instance) -> float:
    """The chain as anyone would write it in Pyro: a markov loop of enumerated states, sentence by sentence."""
    w = instance.dist.weights
    K = w["start"].shape[0]
    second, stop = w.get("second"), w["transition"].shape[-1] > K

    def model() -> None:
        for i, piece in enumerate(instance.pieces):
            older = old = None
            for t in pyro.markov(range(piece.stop - piece.start), history=1 if second is None else 2):
                if old is None:
                    logits = w["start"]
                elif second is None:
                    logits = w["transition"][old][..., :K]
                else:
                    logits = (second[old] if older is None else w["transition"][older, old])[..., :K]
                new = pyro.sample(f"z_{i}_{t}", Categorical(logits), infer={"enumerate": "parallel"})
                pyro.sample(f"x_{i}_{t}", Categorical(w["emission"][new]), obs=instance.value[piece][t])
                older, old = old, new
                if stop and t == piece.stop - piece.start - 1:
                    if second is None:
                        leave = w["transition"][old]
                    else:
                        leave = second[old] if older is None else w["transition"][older, old]
                    pyro.sample(f"stop_{i}", Categorical(leave), obs=torch.tensor(K))

    elbo = TraceEnum_ELBO(max_plate_nesting=0)
    return -float(elbo.loss(model, lambda: None))


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    chain = instance.dist
    assert isinstance(chain, Chain)
    w, lengths, pieces = chain.weights, chain.lengths, instance.pieces
    K, order = len(w["start"]), list(range(len(pieces)))
    backwards = order[::-1]
    yield (
        "shuffled",
        Chain(w["start"], w["transition"], w["emission"], lengths.flip(0), w.get("second"), flat=True),
        torch.cat([instance.value[pieces[i]] for i in backwards]),
        backwards,
    )
    for extra in (0, 3):
        padded = pad(instance.value, lengths, time=int(lengths.max()) + extra)
        yield f"padded by {extra}", Chain(*list(w.values())[:3], lengths, w.get("second")), padded, order
    p = torch.arange(K).roll(1)
    out = torch.cat([p, torch.arange(K, w["transition"].shape[-1])])  # the stop event keeps its place
    moved = w["transition"][p][..., out] if "second" not in w else w["transition"][p][:, p][..., out]
    second = w["second"][p][:, out] if "second" in w else None
    yield "relabelled", Chain(w["start"][p], moved, w["emission"][p], lengths, second, flat=True), instance.value, order
    more = torch.cat([w["emission"], torch.randn(K, 2)], -1)
    yield (
        "with unused words",
        Chain(w["start"], w["transition"], more, lengths, w.get("second"), flat=True),
        instance.value,
        order,
    )


def long(copies: int, table: Table, kind: int) -> Instance:
    """Of either order, with or without a dictionary, in which a word has two states or all."""
    K, V, n, second = 8, 7, 13, kind % 2 == 1
    emission = table(K, V)
    if kind >= 2:
        emission[torch.arange(K).unsqueeze(-1) % 4 != torch.arange(V) % 4] = -torch.inf
        emission[:, 0] = 0.5
    words = torch.arange(n) * 5 % V
    transition, into = table(*[K] * (1 + second), K + 1), table(K, K + 1) if second else None
    chain = Chain(table(K), transition, emission, torch.full((copies,), n), into, flat=True)
    return Instance(chain, words.repeat(copies), [], [])


CHAIN = Case(
    "chain",
    chain_instances((0.0, 1.0, 3.0, 10.0)),
    chain_instances((100.0, 300.0)),
    trace_enum,
    variants,
    long,
)
