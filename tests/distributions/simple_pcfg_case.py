"""The factored grammar, for the contract suite: random instances, and all trees by loops."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from pyro_unsup.distributions import SimplePCFG, Structure
from pyro_unsup.testing import Case, Instance, Table

from .pcfg_case import instances, long


def make_simple(table: Table, N: int, P: int, V: int, lengths: Tensor) -> SimplePCFG:
    return SimplePCFG(table(N), table(N, N + P), table(N, N + P), table(P, V), lengths)


def variants(instance: Instance) -> Iterator[tuple[str, Structure, Tensor, list[int]]]:
    dist = instance.dist
    w, order, lengths = dist.weights, list(range(len(dist.lengths))), dist.lengths.tolist()
    words = instance.value.split(lengths)
    yield (
        "shuffled",
        SimplePCFG(**w, lengths=dist.lengths.flip(0)),
        torch.cat([words[i] for i in order[::-1]]),
        order[::-1],
    )
    N, P = len(w["root"]), len(w["emission"])
    p, q = torch.arange(N).roll(1), torch.arange(P).roll(1)
    both = torch.cat([p, N + q])
    sides = {name: w[name][p][:, both] for name in ("left", "right")}
    moved = {"root": w["root"][p], "emission": w["emission"][q], **sides}
    yield "renamed labels", dist.with_weights(moved), instance.value, order
    mirror = {"left": w["right"], "right": w["left"]}
    yield "in a mirror", dist.with_weights(mirror), torch.cat([x.flip(0) for x in words]), order
    scaled = {"left": w["left"] + 7.0, "right": w["right"] - 7.0}
    yield "one side heavier", dist.with_weights(scaled), instance.value, order


SIMPLE_GRAMMAR = Case(
    "simple_pcfg",
    instances((0.0, 1.0, 3.0, 10.0), make_simple),
    instances((100.0, 300.0), make_simple),
    None,
    variants,
    partial(long, make=make_simple),
)
