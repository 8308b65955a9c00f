"""What the contract suite has to know about a structure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st
from torch import Tensor

from ..distributions import Structure

Table = Callable[..., Tensor]  #: from sizes to log-weights


@dataclass
class Enumerated:
    """One example of the data with every structure that could explain it, found by plain loops.

    :param structures: each as its piece of a structure of the whole batch, flattened.
    :param scores: the log-weight of each.
    :param counts: how often each uses every weight, shaped as the weights.
    :param parts: what each is made of: places in the example's piece of the marginals.

    >>> from pyro_unsup.testing import Enumerated
    >>> two = Enumerated([(0,), (1,)], [0.0, 0.0], [{}, {}], [[(0,)], [(1,)]])
    >>> two.probabilities(), round(two.entropy, 4)
    ([0.5, 0.5], 0.6931)
    """

    structures: list[tuple[int, ...]]
    scores: list[float]
    counts: list[dict[str, Tensor]]
    parts: list[list[tuple[int, ...]]]

    @property
    def log_z(self) -> float:
        """The log of the sum of all weights."""
        return log_sum(self.scores)

    def probabilities(self) -> list[float]:
        """Of each structure, given the data; zeros if none is possible."""
        z = self.log_z
        return [0.0 if s == -math.inf else math.exp(s - z) for s in self.scores]

    @property
    def entropy(self) -> float:
        """Of the posterior, in nats."""
        return -math.fsum(p * math.log(p) for p in self.probabilities() if p > 0)


@dataclass
class Instance:
    """A small random case: a batch of examples under one set of weights, each of them enumerated.

    :param pieces: where each example's structure lies in a structure of the whole batch.
    :param cells: where its marginals lie in those of the batch, if not as structures do.

    >>> from pyro_unsup.testing import Instance
    >>> Instance.__dataclass_fields__.keys() >= {"dist", "value", "items", "pieces"}
    True
    """

    dist: Structure
    value: Tensor
    items: list[Enumerated]
    pieces: list[slice]
    cells: list[slice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = self.cells or self.pieces


@dataclass
class Case:
    """A structure under test.

    :param name: shown by pytest.
    :param instances: a strategy of cases with weights of ordinary size, some of them -inf.
    :param extreme: the same with weights from 1e-300 and below to 1e300; left out if there is none.
    :param trace_enum: log marginal of all examples by Pyro's own enumeration, from a plain Pyro program.
    :param variants: the same case written otherwise: what was done, distribution, value, examples in their new order.
    :param long: ``long(copies, table, kind)`` makes identical examples that are too long to enumerate. ``table`` makes
        log-weights of given sizes, and the kind, from 0 to 3, chooses a variant of the structure, if it has some.
    :param on_device: the same distribution with all that it holds besides weights put on a device, if it holds any.

    >>> from hypothesis import strategies as st
    >>> from pyro_unsup.testing import Case
    >>> Case("nothing", st.nothing()).long is None
    True
    """

    name: str
    instances: st.SearchStrategy[Instance]
    extreme: st.SearchStrategy[Instance] | None = None
    trace_enum: Callable[[Instance], float] | None = None
    variants: Callable[[Instance], Iterator[tuple[str, Structure, Tensor, list[int]]]] | None = None
    long: Callable[[int, Table, int], Instance] | None = None
    on_device: Callable[[Structure, str], Structure] | None = None


def log_sum(logs: list[float]) -> float:
    """log of the sum of exponentials."""
    top = max(logs)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(s - top) for s in logs))
