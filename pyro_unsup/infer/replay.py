"""Replay: an E step on data that were seen before, without running the model again.

Most models hand their tables to structured distributions as they are. Then a run of the model on the same data gives
the same distributions every time, but for the weights. Such a run is recorded once. Later E steps put new weights into
the recorded distributions, and call their kernels.

A model says that it may be recorded, by an attribute ``replayable = True``. It promises that a run depends on nothing
but the data, and settings that never change. All models of the library do. A run is recorded if besides

* all that it samples are observed structured distributions;
* every weight is a table, a view of a table, a constant, or computed by :func:`pyro_unsup.tables.derived`, perhaps at a
  temperature;
* it draws no random numbers, and does the same under other weights;
* no handler around the model looks at the weights (:attr:`.Handler.looks_at_weights`), and none is active around the
  engine.

A record holds for the very data that it was made of: tensors, or objects that never change, such as a corpus. It holds
as long as the model and its attributes stay as they are. After 4, 8, 16, ... uses the model is run again and compared
with its record, in case that a promise was broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from pyro import poutine
from pyro.poutine import runtime
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..distributions import Structure
from ..distributions.compiled import expected_counts
from ..distributions.emission import log_density, observed_cells, refused
from ..distributions.structure import heated
from ..handlers import Counting, Handled, Handler, bare
from ..handlers.given import part_of
from ..tables import Declaration, LazyTable
from ..tables.derived import Derivation, derivation_of
from .closed_form import Maker, Plan, fixed_arguments, maker
from .leaves import Leaf, observed_leaves
from .watch import Watch, alike

Weights = Mapping[str, Tensor | LazyTable]
#: Cells of a table of which no copy is made without need.
LARGE = 100_000
#: Size, stride and offset of a view.
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


class Slot(NamedTuple):  # whose hash costs little
    """A place for numbers.

    :param of: the name of a table, or the number of a step.
    :param output: which one of the step.
    """

    of: str | int
    output: int = 0


Values = dict[Slot, Tensor]


@dataclass(frozen=True)
class Step:
    """What a model computes from tables: ``function(*inputs)``, slots standing for their numbers."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]

    def run(self, values: Values) -> tuple[Tensor, ...]:
        found = self.function(*(values[x] if isinstance(x, Slot) else x for x in self.inputs))
        return found if isinstance(found, tuple) else (found,)


class Steps:
    """All that a run of a model computes from tables, in order.

    :param leaves: the tables, by name.
    """

    def __init__(self, leaves: Mapping[str, Tensor]) -> None:
        self.found: list[Step] = []
        self._tables = {id(leaf): Slot(name) for name, leaf in leaves.items()}
        self._known: dict[Derivation, int] = {}

    def slot(self, x: Tensor) -> Slot | None:
        """Where a tensor comes from, if it is a table or derived from tables."""
        if id(x) in self._tables:
            return self._tables[id(x)]
        if (derivation := derivation_of(x)) is None:
            return None
        how, output = derivation
        if how not in self._known:
            inputs = [self.slot(y) if isinstance(y, Tensor) and y.requires_grad else y for y in how.inputs]
            if any(slot is None and y is not None for slot, y in zip(inputs, how.inputs, strict=True)):
                return None
            self._known[how] = len(self.found)
            self.found.append(Step(how.function, tuple(inputs)))
        return Slot(self._known[how], output)


@dataclass(frozen=True)
class Source:
    """Where a weight of a distribution comes from.

    :param slot: what it is, or is a part of.
    :param view: of that; None for all of it.
    """

    slot: Slot
    view: Geometry | None

    @staticmethod
    def of(weight: Tensor, steps: Steps) -> Source | None:
        """The source of a weight, if it is a table, a view of one, or derived from some."""
        if (slot := steps.slot(weight)) is not None:
            return Source(slot, None)
        base = weight._base
        slot = None if base is None or not base.is_contiguous() else steps.slot(base)
        overlaps = any(size > 1 and step == 0 for size, step in zip(weight.shape, weight.stride(), strict=True))
        if slot is None or overlaps:  # a cell that is there many times has many counts
            return None
        return Source(slot, (tuple(weight.shape), weight.stride(), int(weight.storage_offset())))

    def look(self, values: Values) -> Tensor:
        """The weight."""
        found = values[self.slot].detach()
        return found if self.view is None else torch.as_strided(found.contiguous(), *self.view)

    def back(self, counts: Tensor, like: Tensor) -> Tensor:
        """Counts of the weight, as counts of what is in the slot."""
        if self.view is None:
            return counts
        found = like.new_zeros(like.shape)
        torch.as_strided(found, *self.view).add_(counts)
        return found


@dataclass
class Emitter:
    """An emission whose parameters all have a closed form: it can be made again from their values.

    :param make: from values of parameters to the emission.
    :param value: (rows, *event) observations.
    :param observed: which of them are not missing; None for all.
    """

    make: Maker
    value: Tensor
    observed: Tensor | None
    constants: list[Any]

    #: The families and constants of the emission stand for it.
    NOT_COMPARED = ("make",)

    @staticmethod
    def of(dist: Any, plan: Plan) -> Emitter | None:
        data = getattr(dist, "data", None)
        if data is None or dist.temperature != 1 or dist.heat != 1:
            return None
        density, value = data
        emission = density.emission
        if len(emission.batch_shape) != 1:
            return None
        value = value.detach() if value.is_floating_point() else value.to(torch.get_default_dtype())
        observed = observed_cells(value, emission.event_shape, density.mask)
        constants = fixed_arguments(emission, plan)
        return None if constants is None else Emitter(maker(emission, plan.at), value, observed, constants)

    def densities(self, parameters: Mapping[str, Tensor]) -> tuple[Any, Tensor]:  # (rows, K)
        """The emission under these values of parameters, and the log-density of every observation in every state."""
        emission = self.make(parameters)
        return emission, refused(log_density(emission, self.value, self.observed))


@dataclass
class Recorded:
    """One observed distribution.

    :param dist: lying flat.
    :param sources: of those of its weights that are not constant.
    :param scale: that Pyro multiplies its log-probability by.
    """

    name: str
    dist: Structure
    value: Tensor
    sources: dict[str, Source]
    scale: float
    emitter: Emitter | None = None

    @staticmethod
    def of(site: Any, steps: Steps, plan: Plan | None) -> Recorded | None:
        """The record of a site; None if it cannot be recorded."""
        fn, scale = site["fn"], site["scale"]
        plain = isinstance(fn, Structure) and type(fn).log_prob is Structure.log_prob
        if not plain or not site["is_observed"] or site["mask"] is not None or isinstance(scale, Tensor):
            return None
        dist, value = fn.laid_flat(site["value"])
        if dist.draws or not dist.one_set or any(x.requires_grad for x in dist.extra.values()):
            return None
        sources = {}
        emitter = None if plan is None else Emitter.of(dist, plan)
        for name, w in dist.unheated.items():
            if not w.requires_grad or (emitter is not None and name == "emission"):
                continue
            source = Source.of(w, steps)
            if source is None:
                return None
            sources[name] = source
        gone = {*sources, "emission"} if emitter is not None else set(sources)
        kept = {name: w.new_empty(0) if name in gone else w for name, w in dist.weights.items()}
        bare_dist = dist.with_tables(kept)
        if emitter is not None:
            bare_dist.data = None
        return Recorded(site["name"], bare_dist, value.detach(), sources, float(scale), emitter)

    def emitted(
        self, values: Values, parameters: Mapping[str, Tensor], counted: bool
    ) -> tuple[Tensor, Values, list[Leaf]]:
        """The same where states emit by a distribution, and its observations with the posterior of their states."""
        assert self.emitter is not None
        emission, density = self.emitter.densities(parameters)
        weights = {name: source.look(values) for name, source in self.sources.items()}
        dist = self.dist.with_tables({**weights, "emission": density.to(next(iter(weights.values()), density)).mT})
        log_z, found = expected_counts(dist, self.value, self.scale, (*self.sources, "emission") if counted else ())
        counts: Values = {}
        if not counted:
            return log_z * self.scale, counts, []
        for name, source in self.sources.items():
            _add(counts, source.slot, source.back(found[name], values[source.slot]))
        leaves = observed_leaves(emission, self.emitter.value, found["emission"].mT, self.emitter.observed)
        return log_z if self.scale == 1 else log_z * self.scale, counts, leaves

    def expect(self, values: Values, counted: bool) -> tuple[Tensor, Values]:
        """log Z of every example, scaled; and counts by slot."""
        dist, T = self.dist, self.dist.temperature
        weights = {name: source.look(values) for name, source in self.sources.items()}
        weights = weights if T == 1 else {name: heated(w, T) for name, w in weights.items()}
        log_z, found = expected_counts(
            dist.with_tables(weights), self.value, self.scale, self.sources if counted else ()
        )
        counts: Values = {}
        for name, source in self.sources.items() if counted else ():
            _add(counts, source.slot, source.back(found[name] if T == 1 else found[name] / T, values[source.slot]))
        return log_z if self.scale == 1 else log_z * self.scale, counts


def _add(counts: Values, slot: Slot, more: Tensor) -> None:
    counts[slot] = counts[slot] + more if slot in counts else more


class Replay:
    """The record of a model on some data.

    :param data: positional and named arguments.
    :param found: the tables that the model declares.
    :param steps: what it computes from them.
    """

    def __init__(
        self,
        model: Any,
        data: tuple[Any, Any],
        found: dict[str, Declaration],
        steps: list[Step],
        sites: list[Recorded],
        plan: Plan | None = None,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.data, self.found, self.steps, self.sites = data, found, steps, sites
        self.plan, self._around = plan, around
        self._model, self._watch = model, Watch(model)
        self._versions = _versions(data[0])
        self._uses, self._check = 0, 4

    @staticmethod
    def of(
        model: Any,
        data: tuple[Any, Any],
        trace: Any,
        counting: Counting,
        plan: Plan | None = None,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Replay | None:
        """The record of a run; None if it cannot be recorded.

        :param trace: of the run.
        :param counting: that answered its tables.
        :param plan: closed forms of all its parameters, if it has some.
        :param around: what a run of the model needs around it.
        """
        if _looks_at_weights(model):
            return None
        if plan is not None:  # the weights of that run had nodes of their own in its graph
            with around(), Counting(counting.weights) as counting:
                trace = poutine.trace(model).get_trace(*data[0], **data[1])
        run = run_of(trace, counting.leaves, plan)
        if run is None or not run[1]:
            return None
        record = Replay(model, data, dict(counting.found), *run, plan, around)
        return record if record._holds() else None

    def still(self, args: Any, kwargs: Any) -> bool:
        """Whether the record is of these data, and the model is still what it was."""
        before, named = self.data
        if not (_identical(args, before) and kwargs.keys() == named.keys()):
            return False
        if not _identical(kwargs.values(), named.values()) or self._versions != _versions(before):
            return False
        if not self._watch.unchanged():
            return False
        self._uses += 1
        if self._uses < self._check:
            return True
        self._check *= 2
        return self._holds()

    def expect(
        self, weights: Weights, counted: bool = True, parameters: Mapping[str, Tensor] | None = None
    ) -> tuple[float, dict[str, Tensor], list[Leaf]]:
        """The log marginal, and expected counts of the touched part of every table; and observations with the
        posterior of their states, for parameters.

        :param parameters: their values, constrained.
        """
        tables: dict[str, Tensor] = {}
        for name, declaration in self.found.items():
            given = weights[name]
            whole = isinstance(given, Tensor) and declaration.touched is None
            tables[name] = given if whole else part_of(declaration, given)  # type: ignore[assignment]
        values = values_of(tables, self.steps, counted)
        total: Tensor | None = None
        counts: Values = {}
        leaves: list[Leaf] = []
        for site in self.sites:
            if site.emitter is None:
                log_p, found = site.expect(values, counted)
            else:
                log_p, found, leaves = site.emitted(values, parameters or {}, counted)
            # By a dot product, as Pyro sums: then both ways agree to the last bit.
            one = log_p[0] if len(log_p) == 1 else torch.dot(torch.ones_like(log_p), log_p)
            total = one if total is None else total + one
            for slot, one in found.items():
                _add(counts, slot, one)
        assert total is not None
        if not counted:
            return float(total), {}, []
        self._back(values, counts)
        whole_counts = {
            name: counts[Slot(name)] if Slot(name) in counts else torch.zeros_like(x) for name, x in tables.items()
        }
        return float(total), whole_counts, leaves

    def _back(self, values: Values, counts: Values) -> None:
        """Turn counts of what was computed into counts of tables."""
        made = {slot: x for slot, x in counts.items() if isinstance(slot.of, int)}
        if not made:
            return
        slots = [Slot(name) for name in self.found]
        found = torch.autograd.grad(
            [values[slot] for slot in made], [values[slot] for slot in slots], list(made.values()), allow_unused=True
        )
        for slot, more in zip(slots, found, strict=True):
            if more is not None:
                _add(counts, slot, more)

    def _holds(self) -> bool:
        """Whether a run of the model under other weights is the same, and draws no random numbers."""
        other = {name: _any_weights(declaration) for name, declaration in self.found.items()}
        state = torch.random.get_rng_state()
        with torch.random.fork_rng(devices=[]), self._around(), Counting(other) as counting:
            trace = poutine.trace(self._model).get_trace(*self.data[0], **self.data[1])
            if not torch.equal(state, torch.random.get_rng_state()):
                return False
        again = run_of(trace, counting.leaves, self.plan)
        touched = {name: declaration.touched for name, declaration in self.found.items()}
        return (
            again is not None
            and alike(touched, {name: declaration.touched for name, declaration in counting.found.items()})
            and alike((self.steps, self.sites), again)
        )


class Recorder:
    """Keeps the record of a model, once the same data were seen twice in a row."""

    def __init__(
        self, model: Callable[..., Any], around: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> None:
        self._model, self._around = model, around
        self._replay: Replay | None = None
        self._last: tuple[Any, Any] | None = None
        self._refused = False

    def replay(self, args: Any, kwargs: Any) -> Replay | None:
        """A record that still holds for these data."""
        if self._replay is not None and not self._replay.still(args, kwargs):
            self._replay, self._last, self._refused = None, None, False
        return None if _handled() else self._replay

    def see(self, args: Any, kwargs: Any, trace: Any, counting: Counting, plan: Plan | None = None) -> None:
        """Note a run of the model. The second one on the same data is recorded, if it can be."""
        promised = getattr(bare(self._model), "replayable", False) is True
        if not promised or kwargs or _handled() or not all(map(_tells_changes, args)):
            return
        again = self._last is not None and _identical(args, self._last[0])
        if not again:
            self._last, self._refused = (args, kwargs), False
        elif not self._refused:
            self._replay = Replay.of(self._model, (args, kwargs), trace, counting, plan, self._around)
            self._refused = self._replay is None


def run_of(
    trace: Any, leaves: Mapping[str, Tensor], plan: Plan | None = None
) -> tuple[list[Step], list[Recorded]] | None:
    """What a run computes from its tables, and the records of all its sites; None if it cannot be recorded."""
    steps, found = Steps(leaves), []
    for site in trace.nodes.values():
        if site["type"] == "param":
            if plan is None or site["name"] not in plan.names:
                return None
            continue
        if site["type"] != "sample":
            continue
        if site_is_subsample(site):
            if site["fn"].subsample_size not in (None, site["fn"].size):
                return None
            continue
        one = Recorded.of(site, steps, plan)
        if one is None:
            return None
        found.append(one)
    if plan is not None and (len(found) != 1 or found[0].emitter is None):
        return None  # the leaves of the plan are those of one site
    return steps.found, found


def values_of(tables: Mapping[str, Tensor], steps: Sequence[Step], counted: bool) -> Values:
    """Tables, and what is computed from them; with a gradient, if counts are wanted."""
    values = {Slot(name): x for name, x in tables.items()}
    if not steps:
        return values
    values = {slot: x.detach().requires_grad_(counted) for slot, x in values.items()}
    with torch.set_grad_enabled(counted):
        for number, step in enumerate(steps):
            for output, x in enumerate(step.run(values)):
                values[Slot(number, output)] = x
    return values


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


def _handled() -> bool:
    """Whether a handler is active around the engine. Pyro's stack is private, and nothing public shows it."""
    return bool(runtime._PYRO_STACK)


def _tells_changes(data: Any) -> bool:
    """Whether data either never change, as those of a corpus, or tell that they did, as tensors do by their version.
    Lists and arrays may be changed unnoticed: then the model has to run again."""
    if isinstance(data, tuple):
        return all(map(_tells_changes, data))
    return not isinstance(data, list | dict | set | bytearray | np.ndarray)


def _versions(data: tuple[Any, ...]) -> list[int]:
    return [one._version for one in data if isinstance(one, Tensor)]


def _identical(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))
