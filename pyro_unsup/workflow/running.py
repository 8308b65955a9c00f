"""A model run with draws of all that was inferred: many draws in one run where it allows that, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.infer import config_enumerate
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..distributions import Structure
from ..errors import UnsupError
from ..kernels.threads import in_parts
from ..results.fit import _Known
from ..tables import Declaration, take
from .draws import Draws, Values

#: The plate of the draws, to the left of those of the model.
PLATE = "_draws"
#: What a model may raise that cannot take many draws at once.
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, NotImplementedError, UnsupError)


class Answers(Messenger):
    """Answers tables with the log-weights of one draw, or of many: those have an axis of draws, and one for each plate
    of the model."""

    def __init__(self, values: Values, plates: int | None) -> None:
        super().__init__()
        self._values, self._plates = values, plates

    def _pyro_table(self, msg: Any) -> None:
        declaration: Declaration = msg["args"][0]
        if declaration.name not in self._values:
            return
        weights = _logs(take(self._values[declaration.name], declaration.touched))
        if self._plates is not None:
            weights = weights.reshape(len(weights), *(1,) * self._plates, *weights.shape[1:])
        msg["value"] = weights
        msg["done"] = msg["stop"] = True


class Program:
    """A model that is run with draws.

    :param draws: what to run.
    :param args: in the place of the arguments of the draws, if they are given.
    :param known: whether the sites that observe data keep them. If not, new data are drawn.
    """

    def __init__(self, draws: Draws, args: tuple[Any, ...] | None = None, known: bool = True) -> None:
        self.draws, self.known = draws, known
        self.args = draws.args if args is None else args
        model: Callable[..., Any] = _Known(draws.params)(draws.model)
        self._model = model if known else poutine.uncondition(model)
        self.sites = {
            name: site
            for name, site in self.trace(draws.take(0, 1), alone=True).nodes.items()
            if site["type"] == "sample" and not site_is_subsample(site)
        }
        frames = [frame for site in self.sites.values() for frame in site["cond_indep_stack"]]
        self.plates = max((-frame.dim for frame in frames if frame.vectorized), default=0)
        given = set(draws.take(0, 1))
        self.observed = [n for n, s in self.sites.items() if s["is_observed"] and n not in given]
        self.hidden = [n for n, s in self.sites.items() if not s["is_observed"]]

    @property
    def structured(self) -> list[str]:
        """The sites with hidden structure."""
        return [name for name in self.observed if isinstance(self.sites[name]["fn"], Structure)]

    def trace(self, values: Values, alone: bool) -> Any:
        """A run with one draw, whose values have a first axis of size 1, or with many at once."""
        model = self._answered(values, alone)
        if not alone:
            model = pyro.plate(PLATE, len(next(iter(values.values()))), dim=-1 - self.plates)(model)
        with torch.no_grad(), poutine.block():
            return poutine.trace(model).get_trace(*self.args)

    def enumerated(self, values: Values) -> Any:
        """A run with one draw, in which hidden variables take all their values. Log-probabilities are computed."""
        model = poutine.enum(self.enumerable(values), first_available_dim=-1 - self.plates)
        with torch.no_grad(), poutine.block():
            trace = poutine.trace(model).get_trace(*self.args)
            trace.compute_log_prob()
            trace.pack_tensors()
        return trace

    def enumerable(self, values: Values) -> Callable[..., Any]:
        """The model with one draw put in, its hidden variables marked for enumeration."""
        marked: Callable[..., Any] = config_enumerate(self._answered(values, alone=True))
        return marked

    def _answered(self, values: Values, alone: bool) -> Callable[..., Any]:
        tables = {name: x[0] if alone else x for name, x in values.items() if name in self.draws.tables}
        others = {name: self._wide(name, x, alone) for name, x in values.items() if name not in self.draws.tables}
        answered: Callable[..., Any] = Answers(tables, None if alone else self.plates)(
            poutine.condition(self._model, others)
        )
        return answered

    def _wide(self, name: str, value: Tensor, alone: bool) -> Tensor:
        """Draws of a site, with an axis for every plate of the model between them and what the site has itself."""
        if alone:
            return value[0]
        missing = self.plates - len(self.sites[name]["fn"].batch_shape) if name in self.sites else 0
        return value.reshape(len(value), *(1,) * missing, *value.shape[1:])

    def runs(self, values: Values) -> Iterator[tuple[int, int, Any]]:
        """Runs with these draws: the first and the last draw of each, and its trace."""
        n = len(next(iter(values.values()), [0]))
        if self.takes_at_once(values):
            yield 0, n, self.trace(values, alone=False)
            return
        for i in range(n):
            yield i, i + 1, self.trace({name: x[i : i + 1] for name, x in values.items()}, alone=True)

    def each(self, values: Values, find: Callable[[Any], Tensor]) -> Tensor:
        """What is found in a run, for every draw: (draws, ...)."""
        found = [find(trace) if last - first > 1 else find(trace)[None] for first, last, trace in self.runs(values)]
        return found[0] if len(found) == 1 else torch.cat(found)

    _at_once: bool | None = None

    def takes_at_once(self, values: Values) -> bool:
        """Whether one run can take all of these draws; with a single draw there is nothing to take at once."""
        if len(next(iter(values.values()), [0])) < 2:
            return False
        if self._at_once is None:
            self._at_once = self._agrees(values)
        return self._at_once

    def _agrees(self, values: Values) -> bool:
        """Whether the log-probabilities of many draws at once are those of one by one.

        A model that was not written for it may fail, or mix up draws and examples without a word.
        """
        few = {name: torch.cat([x[:1], x[-1:]]) for name, x in values.items()}
        alone = [self.trace({name: x[i : i + 1] for name, x in few.items()}, alone=True) for i in range(2)]
        try:
            both = self.trace(few, alone=False)
            for name in self.observed:
                expected = torch.stack([_log_prob(trace.nodes[name]) for trace in alone])
                found = _log_prob(both.nodes[name])
                if found.numel() != expected.numel() or not torch.allclose(found.reshape(expected.shape), expected):
                    return False
        except REFUSALS:
            return False
        return True


def _logs(theta: Tensor) -> Tensor:
    """Logs of probabilities in double precision, on all cores: of many draws they take a good part of the time."""
    from ..kernels.exp_log import logs  # numba loads when it is first needed

    flat = theta.detach().cpu().contiguous().numpy().reshape(-1)
    found = np.empty(len(flat))
    in_parts(lambda first, last: logs(flat[first:last], found[first:last]), len(flat))
    return torch.from_numpy(found).reshape(theta.shape)


def _log_prob(site: Any) -> Tensor:
    found: Tensor = site["fn"].log_prob(site["value"]).double()
    return found
