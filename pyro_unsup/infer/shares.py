"""Data in parts: what one process looks at, some at a time. An E step is a sum over examples, so parts add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import torch
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..array import Array
from ..errors import FitError, SplitError
from ..handlers import Handled, RegulariseMessenger
from ..kernels.room import zeros
from ..tables import Declaration
from .examples import Examples, taken
from .expectation import Expectation
from .processes import add_up, fail_together, gathered, rank_and_size

#: Tokens at a time of a corpus on disk, if nobody says how many.
CHUNK = 1 << 20

#: Numbers of an array, or items of a list, that tell data from other data.
GLIMPSE = 4096

#: A model's arguments.
Data = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Share:
    """The data of this process, in parts.

    :param data: all of what it was given.
    :param examples: these, one by one; None if they are looked at as they are, all at once.
    :param bounds: the first example of each part, and the one after its last.
    """

    data: Data
    examples: Examples | None = None
    bounds: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(model: Callable[..., Any], data: Data, chunk: int | None = None, sharded: bool = False) -> Share:
        """The share of this process.

        :param chunk: tokens in a part; examples where these do not tell their length. By default all are one part, or
            about a million tokens if they lie on disk.
        :param sharded: whether each process was given data of its own; otherwise all were given the same, of which
            each takes a run of about as many tokens.
        """
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise FitError(f"chunk must be a whole number of tokens, 1 or more, actual {chunk!r:.80}")
        data = taken(model, data[0]), data[1]
        rank, size = rank_and_size()
        if chunk is None and any(getattr(one, "on_disk", False) for one in data[0]):
            chunk = CHUNK
        if chunk is None and size == 1:
            return Share(data)
        examples = Examples.of(model, *data)
        offsets = examples.offsets()
        runs = [(0, examples.size)] * size if sharded else cut(offsets, size)
        first, last = runs[rank] if rank < len(runs) else (0, 0)
        own = offsets[first : last + 1]
        parts = [] if first == last else cut(own, 1 if chunk is None else math.ceil((own[-1] - own[0]) / chunk))
        return Share(data, examples, tuple((first + a, first + b) for a, b in parts))

    @property
    def whole(self) -> bool:
        """Whether one process looks at all data at once."""
        return self.examples is None and rank_and_size()[1] == 1

    @property
    def size(self) -> int | None:
        """How many examples were given, if that is known."""
        return None if self.examples is None else self.examples.size

    def sample(self) -> tuple[Data, int | None]:
        """Some data, to see what a model does with them, and how many examples they are if they are a part."""
        if self.examples is None:
            return self.data, None
        first, last = self.bounds[0] if self.bounds else (0, 1)
        return self._only if len(self.bounds) == 1 else self._select(first, last), last - first

    def __iter__(self) -> Iterator[tuple[int, Data]]:
        """The parts, each with the number of its first example."""
        if self.examples is None:
            yield 0, self.data
        elif len(self.bounds) == 1:
            yield self.bounds[0][0], self._only
        else:
            for first, last in self.bounds:
                yield first, self._select(first, last)

    @cached_property
    def _only(self) -> Data:
        """The one part, which is kept; several are made when they are needed."""
        return self._select(*self.bounds[0])

    def _select(self, first: int, last: int) -> Data:
        assert self.examples is not None
        if (first, last) == (0, self.examples.size):
            return self.data
        return self.examples.select(np.arange(first, last)), {}


def cut(offsets: Array, parts: int) -> list[tuple[int, int]]:  # (n + 1,)
    """Cut examples into parts of about the same size. No part is empty, so there may be fewer than asked for.

    :param offsets: where each example begins, and where the last one ends.

    >>> import numpy as np
    >>> from pyro_unsup.infer.shares import cut
    >>> cut(np.array([0, 3, 5, 7, 8, 8]), 2), cut(np.array([0, 9, 10, 11, 11]), 3)
    ([(0, 2), (2, 5)], [(0, 1), (1, 4)])
    """
    first, last = int(offsets[0]), int(offsets[-1])
    targets = first + (last - first) * np.arange(1, parts) / max(parts, 1)
    inner = [int(at) for at in np.unique(np.searchsorted(offsets, targets)) if first < offsets[at] < last]
    return list(zip([0, *inner], [*inner, len(offsets) - 1], strict=True))


def same_data(one: Data, other: Data) -> bool:
    """Whether these are the same objects."""
    mine, theirs = ((*args, *kwargs.values()) for args, kwargs in (one, other))
    return len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs, strict=True))


def glimpse(value: Any) -> int:
    """A checksum of some numbers of the data, evenly spaced. Different data almost never have the same one.

    Only some, so that a corpus on disk is not read for it.

    >>> from pyro_unsup.infer.shares import glimpse
    >>> glimpse([[0, 1], [2]]) == glimpse([[0, 1], [2]]), glimpse([[0, 1], [2]]) == glimpse([[2], [0, 1]])
    (True, False)
    """
    if isinstance(value, Tensor | np.ndarray):
        flat = value.reshape(-1)
        places = np.linspace(0, len(flat) - 1, min(len(flat), GLIMPSE)).astype(np.int64)
        some = flat[places] if isinstance(value, np.ndarray) else flat[torch.from_numpy(places)].detach().cpu().numpy()
        return crc32(np.ascontiguousarray(some).tobytes(), len(flat) & 0xFFFFFFFF)
    if is_dataclass(value):
        value = [getattr(value, one.name) for one in fields(value)]
    if isinstance(value, Mapping):
        value = [*value.values()]
    if not isinstance(value, list | tuple):
        return crc32(repr(value).encode()) if isinstance(value, int | float | str) else 0
    places = np.linspace(0, len(value) - 1, min(len(value), GLIMPSE)).astype(np.int64).tolist()
    return crc32(repr([len(value), *(glimpse(value[k]) for k in places)]).encode())


class Total:
    """The sum of what E steps on parts of the data find, in one run of numbers: processes add theirs up in one go."""

    #: What the first numbers are: log marginal, parts that failed, examples that fell back (:class:`.MixtureEM`).
    HEAD = 3

    def __init__(self, declarations: Mapping[str, Declaration], dtype: torch.dtype) -> None:
        shapes = {name: d.layout.shape for name, d in declarations.items()}
        self._dtype, self._trouble = dtype, ""
        self._numbers = torch.from_numpy(zeros(self.HEAD + sum(map(math.prod, shapes.values()))))
        runs = self._numbers[self.HEAD :].split([math.prod(shape) for shape in shapes.values()])
        self._counts = {  # cells of one outcome side by side: a part of the data touches some outcomes of every row
            name: run.view(shape[-1:] + shape[:-1]).movedim(0, -1)
            for (name, shape), run in zip(shapes.items(), runs, strict=True)
        }

    def add(self, part: Expectation) -> None:
        """Add what one part has found."""
        self._numbers[0] += part.log_marginal
        self._numbers[2] += part.fallbacks
        self._trouble = self._trouble or part.trouble
        for name, counts in part.counts.items():
            touched = part.touched.get(name)
            if touched is None:
                self._counts[name] += counts
            else:
                self._counts[name].index_add_(-1, touched, counts.double())

    def gather(self, parts: Iterable[Expectation]) -> Expectation:
        """The sum of these parts, and of those of all other processes. If one of them fails, all do."""
        failure: Exception | None = None
        try:
            for part in parts:
                self.add(part)
        except Exception as error:
            failure, self._numbers[1] = error, 1.0
        add_up(self._numbers)
        if self._numbers[1]:
            fail_together(failure)
        log_marginal = float(self._numbers[0])
        if not math.isfinite(log_marginal):
            self._trouble = next((one for one in gathered(self._trouble) if one), "")
        counts = {name: one.to(self._dtype) for name, one in self._counts.items()}
        return Expectation(log_marginal, counts, {}, {}, self._trouble, int(self._numbers[2]))


def check_splits(model: Callable[..., Any], trace: Any, examples: int, others: Iterable[str]) -> None:
    """Raise unless the log marginal is a sum over examples: what the model does with some of them tells.

    :param examples: how many the trace is of.
    :param others: what there is to learn besides tables.
    """
    remedy = "run it in one process, without chunk"
    if names := ", ".join(f"'{name}'" for name in others):
        raise SplitError(
            f"the data cannot be looked at in parts: the M step of {names}, besides the tables, needs all at once: "
            f"{remedy}"
        )
    while isinstance(model, Handled):
        if isinstance(model.handler, RegulariseMessenger) and not model.handler.each:
            raise SplitError(
                f"the data cannot be looked at in parts: the bounds of {model.handler!r} hold for the average of all "
                f"examples: {remedy}, or let each example keep them (each=True)"
            )
        model = model.model
    for name, site in trace.nodes.items():
        if site["type"] != "sample" or site_is_subsample(site):
            continue
        plates = [f for f in site["cond_indep_stack"] if f.size == examples and f.full_size in (None, examples)]
        if not plates:
            raise SplitError(
                f"the data cannot be looked at in parts: site '{name}' is in no plate of one item an example "
                f"({examples} here), so its examples may depend on each other: {remedy}"
            )


def summed(share: Share, log_marginal: Callable[[Data], float]) -> float:
    """A log marginal without counts, of the data of all processes."""
    found = torch.tensor([sum(log_marginal(data) for _, data in share)], dtype=torch.float64)
    add_up(found)
    return float(found)


def same_start(what: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise unless all processes begin at the same place, with the same data.

    :param what: numbers and names that must be the same.
    """
    sums = {f"table '{name}'": float(w.double().clamp(min=-1e3).sum()) for name, w in weights.items()}
    mine = {**what, **sums}
    for rank, theirs in enumerate(gathered(mine)):
        for name in mine:
            if theirs.get(name) != mine[name]:
                raise FitError(
                    f"the processes do not begin at the same place: {name} is {theirs.get(name)} in process {rank} and "
                    f"{mine[name]} here. Give all the same model, seed and checkpoint, and the same data (sharded=True "
                    "if each has its own)"
                )
