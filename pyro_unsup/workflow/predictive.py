"""New data from draws of a posterior or of a prior, in the form of the data that were observed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Mixture, Structure
from ..errors import UnsupError
from ..handlers import bare
from .draws import Values
from .new_data import NewData, new_data_of
from .running import Program

Array = np.ndarray[Any, Any]


class Drawing:
    """Draws new data under draws of everything else.

    A model of the library that draws data of given lengths does so: it is called without data. Segmenters, aligners and
    constituent-context models have ways of their own (:mod:`.new_data`). Any other model is run on its data, and what
    it observes is drawn instead.

    :param program: the model and its draws, run on the data.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._own = new_data_of(program)
        if self._own is not None:
            self.names = list(self._own.observed)
            return
        args = lengths_only(program)
        self._by_length = args is not None
        self._free = Program(program.draws, args, known=args is not None)
        self.names = program.observed

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, *event) each
        """One data set a draw."""
        if self._own is not None:
            return self._own(values)
        if self._by_length and self._program.takes_at_once(values):
            trace = self._free.trace(values, alone=False)
            drawn = {name: trace.nodes[name]["value"] for name in self.names}
        else:
            n = len(next(iter(values.values()), [0]))
            runs = [self._free.trace({k: x[i : i + 1] for k, x in values.items()}, alone=True) for i in range(n)]
            drawn = {name: torch.stack([run.nodes[name]["value"] for run in runs]) for name in self.names}
        return {name: as_drawn(self._fn(name), x) if self._by_length else x for name, x in drawn.items()}

    def _fn(self, name: str) -> Any:
        return self._program.sites[name]["fn"]


def lengths_only(program: Program) -> tuple[Any, ...] | None:
    """Arguments by which a model of the library draws data of the same lengths; None for any other model.

    :raises UnsupError: if it is a structure that cannot draw data.
    """
    structured = program.structured
    if not structured:
        return None
    fn = program.sites[structured[0]]["fn"]
    wanted = list(inspect.signature(program.draws.model).parameters.values())
    free = len(wanted) == 2 and wanted[0].default is None and wanted[1].name == "lengths"
    if not free or type(fn).sample is Structure.sample:
        raise UnsupError(
            f"{bare(program.draws.model)!r:.120} cannot draw new data: leave posterior_predictive and prior_predictive "
            "out"
        )
    value = program.sites[structured[0]]["value"]
    if isinstance(fn, Mixture):  # a document of so many words, not of so many cells
        sizes = torch.zeros(len(fn.rows), dtype=torch.long).index_add(0, fn.rows.owner, value[:, 1].long())
        return None, sizes
    return None, fn.rows.lengths


def can_draw(program: Program) -> bool:
    """Whether the model can draw new data."""
    try:
        if new_data_of(program) is None:
            lengths_only(program)
    except UnsupError:
        return False
    return True


def as_drawn(fn: Any, value: Tensor) -> Tensor:  # (*lead, rows, ...) -> (*lead, rows, ...)
    """Data in the form that both observed and drawn ones have: bags of words are words, one by one."""
    return value[..., 0] if isinstance(fn, Mixture) else value


def observed_values(program: Program) -> dict[str, Array]:
    """What was observed, by site; of models that observe numbers of segments or pairs, the words and symbols."""
    if (own := _readable(program)) is not None:
        return {name: smallest(x) for name, x in own.observed.items()}
    found = {}
    for name in program.observed:
        site = program.sites[name]
        value = site["value"]
        if isinstance(site["fn"], Mixture):
            value = torch.repeat_interleave(value[:, 0], value[:, 1].long())
        found[name] = smallest(np.asarray(value.detach().cpu()))
    return found


def owners(program: Program) -> dict[str, Array]:
    """The example of every row of what was observed, by variable."""
    if (own := _readable(program)) is not None:
        return own.owners
    found = {}
    for name in program.structured:
        fn, value = program.sites[name]["fn"], program.sites[name]["value"]
        owner = np.asarray(fn.owner("value"))
        if isinstance(fn, Mixture):  # words, one by one
            owner = np.repeat(owner, np.asarray(value[:, 1]))
        if len(owner) == (int(value[:, 1].sum()) if isinstance(fn, Mixture) else len(value)):  # padded are two axes
            found[name] = owner
    return found


def _readable(program: Program) -> NewData | None:
    try:
        return new_data_of(program)
    except UnsupError:  # it cannot draw: what it observes is shown as it is
        return None


def smallest(values: Array) -> Array:
    """Whole numbers in the smallest type that holds them, as there may be many; others as they are."""
    if values.dtype.kind not in "iu" or not values.size:
        return values
    low, high = int(values.min()), int(values.max())
    kind = next(k for k in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(k).min <= low <= high <= np.iinfo(k).max)
    return values.astype(kind)
