"""What the contract suite needs to know about a structure. A new structure adds a file with a `Case` and a row here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup.distributions import Structure
from pyro_unsup.distributions.semiring import Sum

Table = Callable[..., Tensor]  # sizes -> log-weights


@dataclass
class Enumerated:
    """One item of the data with every structure that could explain it, found by plain loops."""

    structures: list[tuple[int, ...]]
    scores: list[float]  # log-weights
    counts: list[dict[str, Tensor]]  # uses of each weight, as shaped
    parts: list[list[tuple[int, ...]]]  # what a structure is made of: marginals[part] is a part's probability

    @property
    def log_z(self) -> float:
        top = max(self.scores)
        return top if top == -math.inf else top + math.log(math.fsum(math.exp(s - top) for s in self.scores))

    def probabilities(self) -> list[float]:
        z = self.log_z
        return [0.0 if s == -math.inf else math.exp(s - z) for s in self.scores]

    @property
    def entropy(self) -> float:
        return -math.fsum(p * math.log(p) for p in self.probabilities() if p > 0)


@dataclass
class Instance:
    """A small random case: a batch under one set of weights, and its enumeration item by item."""

    dist: Structure
    value: Tensor
    items: list[Enumerated]
    pieces: list[slice]  # where each item's structure lies in a structure of the whole batch
    cells: list[slice] = field(default_factory=list)  # and its marginals in those of the batch, if not as structures do

    def __post_init__(self) -> None:
        self.cells = self.cells or self.pieces


@dataclass
class Case:
    """A structure under test.

    :param instances: cases with weights of ordinary size, structural zeros included.
    :param extreme: cases with weights from 1e-300 and below to 1e300, which Pyro's own sums cannot hold.
    :param reference: log Z of each item by the readable definition, in a given semiring.
    :param trace_enum: log marginal of all items by Pyro's own enumeration, from a plain Pyro program.
    :param variants: the same case written otherwise: (what was done, distribution, value, items in their new order).
    :param long: so many copies of an item far too long to enumerate, its weights made by a function of their shapes;
        of the kind 0, 1, 2 or 3, as the structure has kinds.
    """

    name: str
    instances: st.SearchStrategy[Instance]
    extreme: st.SearchStrategy[Instance]
    reference: Callable[[Instance, Sum], Tensor]
    trace_enum: Callable[[Instance], float]
    variants: Callable[[Instance], Iterator[tuple[str, Structure, Tensor, list[int]]]]
    long: Callable[[int, Table, int], Instance]
