"""Draws of what a fit has learned, made block by block: all of them at once may be too large to keep."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import UnsupError
from ..handlers import bare
from ..tables import Declaration
from .guide import run
from .table_posterior import is_point, table_posterior, to_table

if TYPE_CHECKING:
    from .fit import Fit

#: How many draws there are if nobody says; fewer, where they would have more numbers than this.
DRAWS, ROOM = 1000, 2**27
#: Numbers that are drawn together, by one seed: the draws do not depend on how many are asked for at a time.
BLOCK = 2**22


class FitDraws:
    """Draws of the tables of a fit, as probabilities, and its points: one draw, if nothing is uncertain.

    :param args: the model's arguments, wanted for a model of one's own: they tell how its tables lie.
    :param draws: how many; None for as many as are of use and have room.
    :param seed: the same draws come from the same seed.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.results.fit_draws import FitDraws
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2), pu.DirichletVB()).run([[0, 1], [1, 1]], iterations=2)
    >>> drawn = FitDraws(fit, (), {}, draws=10, seed=0)
    >>> bool((drawn.take(3, 5)["start"] == drawn.take(0, 10)["start"][3:5]).all())
    True
    """

    def __init__(self, fit: Fit, args: Any, kwargs: Any, draws: int | None, seed: int) -> None:
        tables = _declarations(fit, args, kwargs)
        if draws is not None and tables is None:
            raise UnsupError(
                "give the data of a model of your own, to_arviz(data, draws=...): they tell the shapes of its tables"
            )
        self.fit, self.seed, self.tables = fit, seed, tables or {}
        self._parts = _parts(fit, self.tables)
        self._point = draws is None and len(self._parts) == 1 and all(is_point(q) for q in self._parts[0].values())
        numbers = sum(w.numel() for w in fit.weights.values())
        self.size = draws or (1 if self._point else min(DRAWS, max(1, ROOM // max(numbers, 1))))
        self._block = max(1, BLOCK // max(numbers, 1))
        self._last: tuple[int, dict[str, Tensor]] | None = None
        self.component: Tensor | None = None  # (size,) that each draw is of
        shares = fit.state.get("lambda")
        if shares is not None and not self._point:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.component = torch.multinomial(shares, self.size, replacement=True)

    @property
    def hyperparameters(self) -> dict[str, Tensor]:
        """The concentrations of priors that training has learned, by table: ``emission_concentration``."""
        ends = ".concentration"
        known = {key: x for key, x in self.fit.memory.items() if key.endswith(ends)}
        return {f"{key.removesuffix(ends).split('.')[-1]}_concentration": x for key, x in known.items()}

    def take(self, first: int, last: int) -> dict[str, Tensor]:  # (last - first, ...) each
        """Tables and points of some draws."""
        if self._point:
            tables = {name: w.exp()[None] for name, w in self.fit.weights.items()}
        else:
            numbers = range(first // self._block, -(-last // self._block))
            blocks = [(n * self._block, self._drawn(n)) for n in numbers]
            tables = {
                name: torch.cat([one[name][max(first - at, 0) : last - at] for at, one in blocks])
                for name in self.tables
            }
        return {**tables, **self.wide(self.fit.points, last - first)}

    def wide(self, values: Mapping[str, Tensor], size: int | None = None) -> dict[str, Tensor]:
        """What is the same in all draws, once for each."""
        n = self.size if size is None else size
        return {name: x.expand(n, *x.shape) for name, x in values.items()}

    def _drawn(self, block: int) -> dict[str, Tensor]:
        if self._last is not None and self._last[0] == block:
            return self._last[1]
        first, last = block * self._block, min((block + 1) * self._block, self.size)
        fit, parts = self.fit, self._parts
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed((self.seed + 1) * 1_000_003 + block)
            found = {n: fit.weights[n].new_zeros(last - first, *d.layout.shape) for n, d in self.tables.items()}
            for i, part in enumerate(parts):
                mine = torch.arange(last - first)
                if len(parts) > 1:
                    assert self.component is not None
                    mine = (self.component[first:last] == i).nonzero()[:, 0]
                for name, q in part.items():
                    found[name][mine] = to_table(self.tables[name].layout, q.sample((len(mine),)))
        self._last = (block, found)
        return found


def _declarations(fit: Fit, args: Any, kwargs: Any) -> dict[str, Declaration] | None:
    """The tables of the model; None if only a run could tell, and there is nothing to run it on."""
    model: Any = bare(fit.model)
    if hasattr(model, "declarations"):
        known: dict[str, Declaration] = model.declarations()
        return known
    if not args and not kwargs and inspect.signature(model).parameters:
        return None
    with torch.random.fork_rng(devices=[]):
        return run(fit, *args, **kwargs)[0]


def _parts(fit: Fit, tables: Mapping[str, Declaration]) -> list[dict[str, Any]]:
    """q(theta) by table; of every component, if each has its own."""
    size = len(fit.state.get("lambda", [0]))
    apart = size > 1 and fit.component(1) is not fit
    return [
        {name: table_posterior(part, d, part.weights[name].dtype) for name, d in tables.items()}
        for part in ([fit.component(i) for i in range(size)] if apart else [fit])
    ]
