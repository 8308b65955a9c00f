"""Long stretches of stepwise EM in compiled code, for models that are structured distributions and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pyro import poutine

from .. import kernels
from ..array import Array
from ..distributions.structure import Stretch
from ..handlers import Counting, Handled, TemperMessenger
from ..kernels.running import RunningCounts
from ..kernels.threads import map_threads
from ..tables import Declaration, LazyTable
from .places import places_of
from .replay import Recorded, Step, run_of

#: Mini-batches between two chances to interrupt.
STRETCH = 1000
#: Cells of a table, above which no list is made of where they lie.
MOST = 2**26


@dataclass
class Part:
    """The mini-batches of one distribution.

    :param names: of the tables, by the names that the distribution has for them.
    """

    stretch: Stretch
    names: dict[str, str]


@dataclass
class Shortcut:
    """Compiled mini-batches (:meth:`.Structure.stepwise`), which change tables in place.

    :param parts: which have no table in common.
    """

    parts: list[Part]
    beta: float
    batch_size: int

    @staticmethod
    def of(
        model: Callable[..., Any], tables: Mapping[str, LazyTable], args: Any, kwargs: Any, size: int, batch_size: int
    ) -> Shortcut | None:
        """A shortcut, if there is one.

        What the model observes must be structured distributions, whose weights are constant or cells of its tables.
        ``temper`` may be around it, and nothing else.
        """
        if not kernels.enabled() or any(
            _running(table) is None or table.layout.shape.numel() > MOST for table in tables.values()
        ):
            return None
        beta = 1.0
        while isinstance(model, Handled) and type(model.handler) is TemperMessenger:
            beta *= model.handler.beta
            model = model.model
        with Counting(tables) as counting:
            trace = poutine.trace(model).get_trace(*args, **kwargs)
        run = run_of(trace, counting.leaves)
        if run is None or not all(_plain(trace.nodes[site.name], site, size) for site in run[1]):
            return None
        parts: list[Part] = []
        seen: set[str] = set()
        for site in run[1]:
            part = _part(site, run[0], counting.found, tables, batch_size)
            if part is None or seen & set(part.names.values()):
                return None
            seen |= set(part.names.values())
            parts.append(part)
        return Shortcut(parts, beta, batch_size) if parts else None

    def advance(
        self, tables: Mapping[str, LazyTable], order: Array, step_sizes: Callable[[int, int], Array], updates: int
    ) -> tuple[float, int]:
        """Run as many mini-batches as compiled code can. Returns their log-likelihood and their number."""
        m, total, done = self.batch_size, 0.0, 0
        running = {name: counts for name, table in tables.items() if (counts := _running(table)) is not None}
        if not all(counts.possible for counts in running.values()):
            return total, done
        first = next(iter(tables.values()))
        batches = -(-len(order) // m)
        while done < batches:
            last = min(done + STRETCH, batches)
            steps = step_sizes(updates + done, updates + last)
            found, scale = self._stretch(running, order[done * m : last * m], steps, first.scale, first.floor)
            for table in tables.values():
                table.scale = scale
            total += sum(float(one.sum()) for one in found)
            done += len(found[0])
            if len(found[0]) < len(steps):
                break
        return total, done

    def _stretch(
        self, running: Mapping[str, RunningCounts], order: Array, steps: Array, scale: float, floor: float
    ) -> tuple[list[Array], float]:
        """The log-likelihoods of mini-batches by part, as many as all parts can do; and the last scale."""
        found: list[Array] = []
        before = [self._kept(part, running) for part in self.parts] if len(self.parts) > 1 else []
        size, last = len(steps), scale
        for k, part in enumerate(self.parts):
            one, last = self._run(part, running, order, steps[:size], scale, floor)
            found.append(one)
            if len(one) == size:
                continue
            size = len(one)
            for n, other in enumerate(self.parts[:k]):  # which went too far: once more, up to there
                for array, kept in before[n]:
                    array[...] = kept
                found[n], last = self._run(other, running, order, steps[:size], scale, floor)
        return found, last

    def _run(
        self, part: Part, running: Mapping[str, RunningCounts], order: Array, steps: Array, scale: float, floor: float
    ) -> tuple[Array, float]:
        own, m = {own: running[name] for own, name in part.names.items()}, self.batch_size

        def run(some: Array) -> tuple[Array, float]:
            return part.stretch(own, self.beta, some, m, steps, scale, floor)

        return map_threads(run, [order[: len(steps) * m]])[0]

    def _kept(self, part: Part, running: Mapping[str, RunningCounts]) -> list[tuple[Array, Array]]:
        arrays = [x for name in part.names.values() for x in (running[name].cells, running[name].row_sums)]
        return [(x, x.copy()) for x in arrays]


def _plain(site: Any, recorded: Recorded, size: int) -> bool:
    """Whether a site has one item an example, neither scaled nor changed by a handler."""
    return recorded.scale == 1 and site["fn"].batch_shape == (size,) and not recorded.dist.extra


def _part(
    site: Recorded,
    steps: Sequence[Step],
    found: Mapping[str, Declaration],
    tables: Mapping[str, LazyTable],
    batch_size: int,
) -> Part | None:
    places = places_of(site, steps, found, tables)
    if places is None:
        return None
    stretch = site.dist.stepwise(site.value, {own: place for own, (_, place) in places.items()}, batch_size)
    return None if stretch is None else Part(stretch, {own: name for own, (name, _) in places.items()})


def _running(table: LazyTable) -> RunningCounts | None:
    """Views of a table's counts, if its weights are relative frequencies with one pseudo-count for all cells."""
    extra = table.extra
    constant = extra is None or (not any(extra.stride()) and table.layout.support is None)
    if table.link is not torch.log or not constant or table.unscaled.dtype != torch.float64:
        return None
    amount, sums = 0.0 if extra is None else float(extra.flatten()[0]) / table.unit, table.row_sums.numpy()
    of_rows = np.zeros_like(sums) if extra is None else table.extra_rows.numpy() / table.unit
    return RunningCounts(table.unscaled.movedim(-1, 0).numpy(), sums, amount, of_rows)
