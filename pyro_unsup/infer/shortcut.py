"""Long stretches of stepwise EM in compiled code, for models that are one structured distribution and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample

from ..array import Array
from ..distributions.structure import Stretch
from ..handlers import Counting, Handled, TemperMessenger
from ..kernels.running import RunningCounts
from ..kernels.threads import map_threads
from ..tables import LazyTable

#: Mini-batches between two chances to interrupt.
STRETCH = 1000


@dataclass
class Shortcut:
    """Compiled mini-batches (:meth:`.Structure.stepwise`), which change tables in place.

    :param names: of the tables, by the names that the structured distribution has for them.
    """

    stretch: Stretch
    names: dict[str, str]
    beta: float
    batch_size: int

    @staticmethod
    def of(
        model: Callable[..., Any], tables: Mapping[str, LazyTable], args: Any, kwargs: Any, size: int, batch_size: int
    ) -> Shortcut | None:
        """A shortcut, if there is one.

        The model must be one observed structured distribution, whose weights are its tables just as it declared them.
        ``temper`` may be around it, and nothing else.
        """
        if any(_running(table) is None for table in tables.values()):
            return None
        beta = 1.0
        while isinstance(model, Handled) and type(model.handler) is TemperMessenger:
            beta *= model.handler.beta
            model = model.model
        with Counting(tables) as counting:
            trace = poutine.trace(model).get_trace(*args, **kwargs)
        sites = [s for s in trace.nodes.values() if s["type"] == "sample" and not site_is_subsample(s)]
        if len(sites) != 1 or not _plain(sites[0], size) or not hasattr(sites[0]["fn"], "stepwise"):
            return None
        fn, names = sites[0]["fn"], {id(leaf): name for name, leaf in counting.leaves.items()}
        found = {own: names.get(id(w), "") for own, w in fn.weights.items()}
        if sorted(found.values()) != sorted(tables):
            return None
        touched = {own: counting.found[name].touched for own, name in found.items()}
        stretch = fn.stepwise(sites[0]["value"].detach(), touched, batch_size)
        return stretch and Shortcut(stretch, found, beta, batch_size)

    def advance(
        self, tables: Mapping[str, LazyTable], order: Array, step_size: Callable[[int], float], updates: int
    ) -> tuple[float, int]:
        """Run as many mini-batches as compiled code can. Returns their log-likelihood and their number."""
        m, total, done = self.batch_size, 0.0, 0
        mine = {own: tables[name] for own, name in self.names.items()}
        running = {own: counts for own, table in mine.items() if (counts := _running(table)) is not None}
        first = next(iter(mine.values()))
        batches = -(-len(order) // m)
        while done < batches:
            last = min(done + STRETCH, batches)
            steps = np.array([step_size(updates + k) for k in range(done, last)])

            def run(part: Array, steps: Array = steps) -> tuple[Array, float]:
                return self.stretch(running, self.beta, part, m, steps, first.scale, first.floor)

            found, scale = map_threads(run, [order[done * m : last * m]])[0]
            for table in mine.values():
                table.scale = scale
            total += float(found.sum())
            done += len(found)
            if len(found) < len(steps):
                break
        return total, done


def _plain(site: Any, size: int) -> bool:
    """Whether a site is observed data with one item an example, neither scaled nor masked."""
    scale = site["scale"]
    return bool(
        site["is_observed"]
        and site["mask"] is None
        and not isinstance(scale, torch.Tensor)
        and scale == 1
        and site["fn"].batch_shape == (size,)
    )


def _running(table: LazyTable) -> RunningCounts | None:
    """Views of a table's counts, if its weights are relative frequencies with one pseudo-count for all cells."""
    extra = table.extra
    constant = extra is None or (not any(extra.stride()) and table.layout.support is None)
    if table.link is not torch.log or not constant or table.unscaled.dtype != torch.float64:
        return None
    amount = 0.0 if extra is None else float(extra.flatten()[0]) / table.unit
    return RunningCounts(table.unscaled.movedim(-1, 0).numpy(), table.row_sums.numpy(), amount)
