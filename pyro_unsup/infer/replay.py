"""Replay: an E step on data that were seen before, without running the model again.

Most models hand their tables to structured distributions as they are. Then a run of the model on the same data gives
the same distributions every time, but for the weights. Such a run is recorded once. Later E steps put new weights into
the recorded distributions, and call their kernels.

Whether a run can be recorded is decided by what it does, not by the name of the model:

* all that it samples are observed structured distributions;
* every weight is a table, a view of a table, or a constant, perhaps at a temperature;
* it draws no random numbers;
* it does the same under other weights, so that nothing was computed from the weights;
* no handler around the model looks at the weights (:attr:`.Handler.looks_at_weights`).

A record holds for the very data that it was made of, and as long as the model, its attributes, and the variables that
it refers to stay as they are. After 4, 8, 16, ... uses the model is run again and compared with its record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..distributions import Structure
from ..distributions.compiled import expected_counts
from ..distributions.structure import heated
from ..handlers import Counting, Handled, Handler
from ..handlers.given import part_of
from ..tables import Declaration, LazyTable

Weights = Mapping[str, Tensor | LazyTable]
#: Cells of a table of which no copy is made without need.
LARGE = 100_000
#: Size, stride and offset of a view.
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True)
class Source:
    """Where a weight of a distribution comes from.

    :param table: its name.
    :param view: of the table; None for the table itself.
    """

    table: str
    view: Geometry | None

    @staticmethod
    def of(weight: Tensor, leaves: Mapping[str, Tensor]) -> Source | None:
        """The source of a weight, if it is a table or a view of one."""
        for name, leaf in leaves.items():
            if weight is leaf:
                return Source(name, None)
            if weight._base is leaf and leaf.is_contiguous():
                return Source(name, (tuple(weight.shape), weight.stride(), int(weight.storage_offset())))
        return None

    def look(self, table: Tensor) -> Tensor:
        """The weight, as a part of the table."""
        return table if self.view is None else torch.as_strided(table.contiguous(), *self.view)

    def back(self, counts: Tensor, like: Tensor) -> Tensor:
        """Counts of the weight, as counts of the table."""
        if self.view is None:
            return counts
        found = like.new_zeros(like.shape)
        torch.as_strided(found, *self.view).add_(counts)
        return found


@dataclass
class Recorded:
    """One observed distribution.

    :param dist: lying flat.
    :param sources: of those of its weights that are tables.
    :param scale: that Pyro multiplies its log-probability by.
    """

    name: str
    dist: Structure
    value: Tensor
    sources: dict[str, Source]
    scale: float

    @staticmethod
    def of(site: Any, leaves: Mapping[str, Tensor]) -> Recorded | None:
        """The record of a site; None if it cannot be recorded."""
        fn, scale = site["fn"], site["scale"]
        plain = isinstance(fn, Structure) and type(fn).log_prob is Structure.log_prob
        if not plain or not site["is_observed"] or site["mask"] is not None or isinstance(scale, Tensor):
            return None
        dist, value = fn.laid_flat(site["value"])
        if dist.draws or not dist.one_set or any(x.requires_grad for x in dist.extra.values()):
            return None
        sources = {}
        for name, w in dist.unheated.items():
            if not w.requires_grad:
                continue
            source = Source.of(w, leaves)
            if source is None:
                return None
            sources[name] = source
        kept = {name: w.new_empty(0) if name in sources else w for name, w in dist.weights.items()}
        return Recorded(site["name"], dist.with_tables(kept), value.detach(), sources, float(scale))

    def expect(self, tables: Mapping[str, Tensor], counted: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """log Z of every example, scaled; and counts by table."""
        dist, T = self.dist, self.dist.temperature
        weights = {name: source.look(tables[source.table]) for name, source in self.sources.items()}
        weights = weights if T == 1 else {name: heated(w, T) for name, w in weights.items()}
        log_z, found = expected_counts(
            dist.with_tables(weights), self.value, self.scale, self.sources if counted else ()
        )
        counts: dict[str, Tensor] = {}
        for name, source in self.sources.items() if counted else ():
            one = source.back(found[name] if T == 1 else found[name] / T, tables[source.table])
            counts[source.table] = counts[source.table] + one if source.table in counts else one
        return log_z if self.scale == 1 else log_z * self.scale, counts


class Replay:
    """The record of a model on some data.

    :param data: positional and named arguments.
    :param found: the tables that the model declares.
    """

    def __init__(self, model: Any, data: tuple[Any, Any], found: dict[str, Declaration], sites: list[Recorded]) -> None:
        self.data, self.found, self.sites = data, found, sites
        self._model, self._marks = model, list(_marks(model))
        self._uses, self._check = 0, 4

    @staticmethod
    def of(model: Any, data: tuple[Any, Any], trace: Any, counting: Counting) -> Replay | None:
        """The record of a run; None if it cannot be recorded.

        :param trace: of the run.
        :param counting: that answered its tables.
        """
        if _looks_at_weights(model):
            return None
        sites = _sites(trace, counting.leaves)
        if sites is None or not sites:
            return None
        record = Replay(model, data, dict(counting.found), sites)
        return record if record._holds() else None

    def still(self, args: Any, kwargs: Any) -> bool:
        """Whether the record is of these data, and the model is still what it was."""
        before, named = self.data
        if not (_identical(args, before) and kwargs.keys() == named.keys()):
            return False
        if not _identical(kwargs.values(), named.values()) or not _unchanged(self._marks, list(_marks(self._model))):
            return False
        self._uses += 1
        if self._uses < self._check:
            return True
        self._check *= 2
        return self._holds()

    def expect(self, weights: Weights, counted: bool = True) -> tuple[float, dict[str, Tensor]]:
        """The log marginal, and expected counts of the touched part of every table."""
        tables: dict[str, Tensor] = {}
        for name, declaration in self.found.items():
            given = weights[name]
            whole = isinstance(given, Tensor) and declaration.touched is None
            tables[name] = given if whole else part_of(declaration, given)  # type: ignore[assignment]
        total: Tensor | float = 0.0
        counts: dict[str, Tensor] = {}
        for site in self.sites:
            log_p, found = site.expect(tables, counted)
            # By a dot product, as Pyro sums: then both ways agree to the last bit.
            total = total + torch.dot(torch.ones_like(log_p), log_p)
            for name, one in found.items():
                counts[name] = counts[name] + one if name in counts else one
        missing = (name for name in tables if name not in counts) if counted else ()
        return float(total), {**counts, **{name: torch.zeros_like(tables[name]) for name in missing}}

    def _holds(self) -> bool:
        """Whether a run of the model under other weights is the same, and draws no random numbers."""
        other = {name: _any_weights(declaration) for name, declaration in self.found.items()}
        state = torch.random.get_rng_state()
        with torch.random.fork_rng(devices=[]), Counting(other) as counting:
            trace = poutine.trace(self._model).get_trace(*self.data[0], **self.data[1])
            if not torch.equal(state, torch.random.get_rng_state()):
                return False
        again = _sites(trace, counting.leaves)
        touched = {name: declaration.touched for name, declaration in self.found.items()}
        return (
            again is not None
            and alike(touched, {name: declaration.touched for name, declaration in counting.found.items()})
            and alike(self.sites, again)
        )


class Recorder:
    """Keeps the record of a model, once the same data were seen twice in a row."""

    def __init__(self, model: Callable[..., Any]) -> None:
        self._model = model
        self._replay: Replay | None = None
        self._last: tuple[Any, Any] | None = None
        self._refused = False

    def replay(self, args: Any, kwargs: Any) -> Replay | None:
        """A record that still holds for these data."""
        if self._replay is not None and not self._replay.still(args, kwargs):
            self._replay, self._last, self._refused = None, None, False
        return self._replay

    def see(self, args: Any, kwargs: Any, trace: Any, counting: Counting) -> None:
        """Note a run of the model. The second one on the same data is recorded, if it can be."""
        again = self._last is not None and _identical(args, self._last[0]) and kwargs == self._last[1] == {}
        if not again:
            self._last, self._refused = (args, kwargs), False
        elif not self._refused:
            self._replay = Replay.of(self._model, (args, kwargs), trace, counting)
            self._refused = self._replay is None


def _sites(trace: Any, leaves: Mapping[str, Tensor]) -> list[Recorded] | None:
    """The records of all sites of a run; None if some site cannot be recorded."""
    found = []
    for site in trace.nodes.values():
        if site["type"] == "param":
            return None
        if site["type"] != "sample":
            continue
        if site_is_subsample(site):
            if site["fn"].subsample_size not in (None, site["fn"].size):
                return None
            continue
        one = Recorded.of(site, leaves)
        if one is None:
            return None
        found.append(one)
    return found


def _any_weights(declaration: Declaration) -> Tensor:
    """Weights unlike those of any run. In a large table, all of a row are the same: that takes no memory."""
    layout = declaration.layout
    rows = layout.shape if layout.shape.numel() <= LARGE else (*layout.shape[:-1], 1)
    generator = torch.Generator().manual_seed(layout.shape.numel())
    return layout.mask(-8 * torch.rand(rows, generator=generator, dtype=torch.float64).expand(layout.shape))


def _looks_at_weights(model: Any) -> bool:
    while isinstance(model, Handled):
        if not isinstance(model.handler, Handler) or model.handler.looks_at_weights:
            return True
        model = model.model
    return False


def _marks(model: Any, depth: int = 2) -> Iterator[tuple[Any, Any]]:
    """What a run of a model can depend on besides its data, each with the version of a tensor: the attributes of an
    object; the closure, the defaults and the global variables of a function."""
    if isinstance(model, Handled):
        yield from _marks(vars(model.handler), depth)
        yield from _marks(model.model, depth)
    elif isinstance(model, functools.partial):
        yield from _marks([*model.args, *model.keywords.values()], depth)
        yield from _marks(model.func, depth)
    elif isinstance(model, MethodType):
        yield from _marks(model.__self__, depth)
        yield from _marks(model.__func__, depth)
    elif isinstance(model, FunctionType):
        cells = [cell.cell_contents for cell in model.__closure__ or ()]
        globals_ = [model.__globals__.get(name) for name in model.__code__.co_names]
        yield from _marks([*cells, *globals_, *(model.__defaults__ or ())], depth)
    elif isinstance(model, dict):
        yield len(model), None
        for value in model.values() if depth else ():
            yield from _marks(value, depth - 1)
    elif isinstance(model, list | tuple | set) and len(model) <= 64:
        yield len(model), None
        for value in model if depth else ():
            yield from _marks(value, depth - 1)
    elif isinstance(model, Tensor):
        yield model, model._version
    elif depth == 2 and hasattr(model, "__dict__") and not isinstance(model, type | ModuleType):
        yield from _marks(vars(model), depth)
    else:
        yield model, None


def _unchanged(before: list[tuple[Any, Any]], now: list[tuple[Any, Any]]) -> bool:
    plain = int | float | str | bool | None
    return len(before) == len(now) and all(
        (a is b or (isinstance(a, plain) and type(a) is type(b) and a == b)) and v == w
        for (a, v), (b, w) in zip(before, now, strict=True)
    )


def _identical(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def alike(a: Any, b: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether two objects hold the same numbers.

    :param seen: objects around these, which may refer to each other.
    """
    if a is b or (id(a), id(b)) in seen:
        return True
    if type(a) is not type(b) or isinstance(a, FunctionType | MethodType | ModuleType | type):
        return False
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    seen = seen | {(id(a), id(b))}
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(alike(x, b[name], seen) for name, x in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(alike(x, y, seen) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__"):
        return alike(_own(a), _own(b), seen)
    return bool(a == b)


def _own(x: Any) -> dict[str, Any]:
    """The attributes of an object, without those that are computed from others when they are first asked for."""
    kind = type(x)
    return {k: v for k, v in vars(x).items() if not isinstance(getattr(kind, k, None), functools.cached_property)}
