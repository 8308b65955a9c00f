"""The groups of an ArviZ object, one function each, and how much room each would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Structure
from ..errors import UnsupError
from ..infer.progress import progress_bar
from ..results.arviz import dataset, named_dims
from .arguments import in_bytes
from .draws import Draws, Values
from .pointwise import Pointwise, Stepwise
from .predictive import Drawing, observed_values, owners, smallest
from .running import Program
from .seeds import stream

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]

#: Bytes of the tables, and of what is found with them, that are held at a time.
AT_A_TIME = 2**27


class Walk:
    """Goes through draws, some at a time, and shows how far it is.

    :param draws: what to go through.
    :param numbers: how many numbers are made for a draw, besides its own.
    :param what: is done, for the bar.
    """

    def __init__(self, draws: Draws, numbers: int, what: str, progress: bool) -> None:
        self._draws, self._what, self._progress = draws, what, progress
        self.at_a_time = max(1, AT_A_TIME // (8 * max(1, 2 * draws.numbers + numbers)))

    def __iter__(self) -> Iterator[tuple[int, int, Values]]:
        with progress_bar(
            total=self._draws.total, shown=self._progress, desc=self._what, unit="draw", leave=False
        ) as bar:
            for first, last in self._draws.pieces(self.at_a_time):
                yield first, last, self._draws.take(first, last)
                bar.update(last - first)


def check_room(group: str, numbers: int, size: int, limit: float) -> None:
    """Raise before a group is made that would take too many bytes.

    :param numbers: in the group.
    :param size: of each, in bytes.
    """
    if numbers * size > limit:
        raise UnsupError(
            f"the group {group} would take {in_bytes(numbers * size)}, more than the limit of {in_bytes(limit)}: leave "
            "it out, have fewer draws, or raise limit="
        )


def check_rooms(program: Program, wanted: Sequence[str], steps: bool, priors: int, limit: float) -> None:
    """The same for all groups that are wanted, before the first is made.

    :param priors: how many draws from the prior there would be.
    """
    total, cells = program.draws.total, program.draws.numbers
    seen = sum(x.size for x in observed_values(program).values())
    numbers = {
        "posterior": total * cells,
        "posterior_predictive": total * seen,
        "prior": priors * cells,
        "prior_predictive": priors * seen,
    }
    if "log_likelihood" in wanted:
        find: Any = Stepwise(program) if steps else Pointwise(program)
        numbers["log_likelihood"] = total * int(np.prod(find.shape))
    for name in wanted:
        check_room(name, numbers.get(name, 0), 8, limit)


def posterior(draws: Draws, extra: xarray.Dataset | None, limit: float) -> xarray.Dataset:
    """Tables as probabilities, and all other sites; what is known besides; parameters, the same in every draw."""
    check_room("posterior", draws.total * draws.numbers, 8, limit)
    params = {name: x.detach().expand(draws.total, *x.shape) for name, x in draws.params.items()}
    found = {name: draws.by_chain(x.detach()) for name, x in {**draws.take(0, draws.total), **params}.items()}
    own = dataset(found, *named_dims(draws.model, draws.tables, found))
    return own if extra is None else own.merge(extra.drop_vars([n for n in extra.data_vars if n in own]))


def log_likelihood(program: Program, steps: bool, progress: bool) -> xarray.Dataset:
    """One value an example, or a step, under each draw."""
    find: Any = Stepwise(program) if steps else Pointwise(program)
    draws, size = program.draws, int(np.prod(find.shape))
    found = np.empty((draws.total, *find.shape))
    walk = Walk(draws, size + hidden_numbers(program), "log likelihood", progress)
    for first, last, values in walk:
        found[first:last] = torch.as_tensor(find(values)).detach()
    return dataset({find.name: draws.by_chain(found)}, {find.name: find.dims}, _owners(program))


def predictive(program: Program, group: str, progress: bool, seed: int) -> xarray.Dataset:
    """New data, as much as was observed."""
    draw = Drawing(program)
    draws, seen = program.draws, observed_values(program)
    pieces: dict[str, list[Array]] = {name: [] for name in draw.names}
    rows = sum(x.size for x in seen.values()) + hidden_numbers(program)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, group))
        for _, _, values in Walk(draws, rows, group.replace("_", " "), progress):
            for name, x in draw(values).items():
                pieces[name].append(_like(x, seen[name]))
    found = {name: draws.by_chain(smallest(np.concatenate(each))) for name, each in pieces.items()}
    return dataset(found, _row_dims(program, seen), _owners(program))


def observed_data(program: Program) -> xarray.Dataset:
    """What the model was given."""
    seen = observed_values(program)
    return dataset(seen, _row_dims(program, seen), _owners(program), lead=())


def constant_data(program: Program) -> xarray.Dataset | None:
    """How long each example is; None if that is always the same."""
    found, dims = {}, {}
    for name in program.structured:
        fn, frames = program.sites[name]["fn"], program.sites[name]["cond_indep_stack"]
        key = "lengths" if len(program.structured) == 1 else f"{name}_lengths"
        found[key] = np.asarray(fn.rows.lengths)
        if plates := [frame.name for frame in frames if frame.vectorized]:
            dims[key] = plates[:1]
    return dataset(found, dims, lead=()) if found else None


def _like(drawn: Tensor, seen: Array) -> Array:  # (n, *seen.shape)
    array = np.asarray(drawn.detach().cpu())
    return smallest(array.reshape(len(array), *seen.shape))


def _row_dims(program: Program, seen: Mapping[str, Array]) -> dict[str, list[str]]:
    """Observations lie one after another, ``words_row``; a vector has coordinates."""
    found = {}
    for name, value in seen.items():
        site = program.sites.get(name)
        if site is None or isinstance(site["fn"], Structure):
            first = [f"{name}_row"]
        else:
            frames = [f for f in site["cond_indep_stack"] if f.vectorized]
            first = [f.name for f in sorted(frames, key=lambda f: f.dim)]
        rest = value.ndim - len(first)
        found[name] = [*first, *(f"{name}_coordinate{i or ''}" for i in range(rest))]
    return found


def _owners(program: Program) -> dict[str, Any]:
    """The example that each observation is of, beside the dimension of observations."""
    return {f"{name}_example": (f"{name}_row", owner) for name, owner in owners(program).items()}


def hidden_numbers(program: Program) -> int:
    """Numbers that a run makes for one draw, besides its tables: of series, the density of every observation."""
    total = 0
    for name in program.observed:
        fn, value = program.sites[name]["fn"], program.sites[name]["value"]
        total += int(value.numel())
        if getattr(fn, "density", None) is not None:
            total += 3 * len(fn.rows.owner) * fn.sizes["K"]
    return total
