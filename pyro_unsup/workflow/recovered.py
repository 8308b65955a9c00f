"""What is recovered at one structured site of a model, draw by draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Structure
from ..distributions.alignment.agreement import Agreement
from ..errors import StructureError, UnsupError
from .co_assignment import CoAssignment
from .groups import check_room
from .running import Program

Array = np.ndarray[Any, Any]

STRUCTURES = ("sample", "mode", "mbr")
WAYS = (*STRUCTURES, "log_prob", "entropy", "marginals", "probabilities", "co_assignment")
#: By group of parts, what the places of a structure are called, and those of its parts.
PLACES = {
    "states": ("position", ["position", "state"]),
    "arcs": ("position", ["arc"]),
    "constituents": ("span", ["span"]),
    "pieces": ("position", ["position", "width"]),
    "links": ("link", ["link"]),
    "clusters": ("example", ["example", "cluster"]),
    "stretches": ("position", ["position", "duration", "state"]),
}
#: What is told of parts, beside their dimension.
TOLD = ("head", "child", "start", "end", "source", "target")
#: Units of which all pairs are compared, if nobody says which.
UNITS = 2000


class Site:
    """Structures of all draws, and sums over them.

    :param wanted: the words of ``how``.
    :param units: of co-assignments.
    :param start: of all names, if there are other sites.
    :param limit: bytes that a result may take.
    """

    def __init__(
        self, program: Program, name: str, wanted: Sequence[str], units: Any, start: str, limit: float
    ) -> None:
        self.name, self._wanted, self._start, self._limit = name, wanted, start, limit
        self._total = program.draws.total
        site = program.sites[name]
        fn: Structure = site["fn"]
        posterior = fn.posterior(site["value"])
        shape = tuple(posterior.mode().shape)
        parts = tuple(posterior.marginals.shape) if {"marginals", "probabilities", "mbr"} & set(wanted) else ()
        plates = [str(frame.name) for frame in site["cond_indep_stack"] if frame.vectorized]
        example = plates[-1] if plates else "example"
        place, kinds = PLACES.get(fn.part, ("place", ["part"]))
        before = [] if getattr(fn, "is_flat", True) else ["example"]  # padded data have an axis of examples
        own = self._named([*before, place], shape, example)
        every = self._named([*before, *kinds], parts, example)
        self.found: dict[str, Array] = {}
        self.dims: dict[str, list[str]] = {}
        largest = fn.sizes.get("K", 1) if fn.part in ("states", "clusters", "stretches") else int(fn.lengths.max())
        whole = np.min_scalar_type(-1 - largest)
        for way in wanted:
            if way in STRUCTURES:
                self._room(way, shape, whole, own)
                if "log_prob" in wanted:
                    self._room(f"{way}_log_prob", (len(fn.rows),), np.dtype(float), [example])
            elif way == "entropy":
                self._room(way, (len(fn.rows),), np.dtype(float), [example])
            elif way == "marginals":
                self._room(way, parts, np.dtype(float), every)
        if "log_prob" in wanted and not set(STRUCTURES) & set(wanted):
            raise UnsupError("log_prob is that of a sample, a mode or an mbr: name one of them in how too")
        self._sum = np.zeros(parts) if "probabilities" in wanted else None
        self.dims[f"{start}probabilities"] = every
        self.coords = _owners(fn, own[0], shape) | _told(fn, site["value"], every[:1], parts)
        self._same: CoAssignment | None = None
        if "co_assignment" in wanted:
            self._prepare_pairs(fn, int(np.prod(shape)), units, own[-1])
        #: Of results whose values are states, how many states there are.
        self.states = {}
        if fn.part in ("states", "clusters"):
            self.states = {f"{start}{way}": int(fn.sizes["K"]) for way in wanted if way in STRUCTURES}
        #: How many numbers are held for a draw.
        self.numbers = 4 * int(np.prod(shape)) + 3 * int(np.prod(parts))
        if {"log_prob", "entropy"} & set(wanted):  # which go by the potentials of all parts
            self.numbers += 6 * posterior.marginals.numel()

    def _named(self, places: list[str], shape: tuple[int, ...], example: str) -> list[str]:
        names = [example if place == "example" else f"{self._start}{place}" for place in places]
        more = len(shape) - len(names)
        return [*names, *(f"{names[0]}_{'direction' if places[0] == 'link' else f'axis_{i + 1}'}" for i in range(more))]

    def _room(self, way: str, shape: tuple[int, ...], kind: Any, dims: list[str]) -> None:
        key = self._start + way
        check_room(f"recovered (its '{key}')", self._total * int(np.prod(shape)), kind.itemsize, self._limit)
        self.found[key], self.dims[key] = np.empty((self._total, *shape), kind), dims

    def _prepare_pairs(self, fn: Structure, places: int, units: Any, dim: str) -> None:
        if fn.part not in ("states", "clusters"):
            raise UnsupError(f"co_assignment is of labels; {fn.part} are none: ask for probabilities")
        if units is None and places > UNITS:
            raise UnsupError(
                f"co_assignment of all {places} places would have {places**2} pairs: name up to {UNITS} or so by "
                "units=[...]"
            )
        chosen = np.arange(places) if units is None else np.asarray(units).reshape(-1)
        if chosen.dtype.kind not in "iu" or not chosen.size:
            raise UnsupError(f"units must be whole numbers, as in units=[0, 1, 5], actual {units!r:.80}")
        if not 0 <= chosen.min() <= chosen.max() < places:
            raise UnsupError(f"units are places 0 .. {places - 1}, actual {chosen.min()} .. {chosen.max()}")
        self._same = CoAssignment(fn, chosen, places)
        for name in ("co_assignment", "co_assignment_error"):
            self.dims[f"{self._start}{name}"] = [f"{dim}_1", f"{dim}_2"]
        self.coords |= {f"{dim}_1": chosen, f"{dim}_2": chosen}

    def add(self, site: Any, first: int, last: int, generator: torch.Generator) -> None:
        """What a run with the draws from ``first`` to ``last`` tells."""
        fn, value = site["fn"], site["value"]
        posterior = fn.posterior(value)
        lead = last - first > 1

        def keep(way: str, found: Tensor) -> None:
            self.found[self._start + way][first:last] = np.asarray(found if lead else found[None])

        drawn = {}
        if "sample" in self._wanted or (self._same is not None and not self._same.exact):
            drawn["sample"] = posterior.sample(generator=generator)
        for way in ("mode", "mbr"):
            if way in self._wanted:
                drawn[way] = getattr(posterior, way)()
        for way, structure in drawn.items():
            if way in self._wanted:
                keep(way, structure)
                if "log_prob" in self._wanted:
                    keep(f"{way}_log_prob", _log_prob(fn, value, structure, posterior.log_partition))
        if "entropy" in self._wanted:
            keep("entropy", posterior.entropy)
        if "marginals" in self._wanted:
            keep("marginals", posterior.marginals)
        if self._sum is not None:
            found = posterior.marginals.double()
            self._sum += np.asarray(found.sum(0) if lead else found)
        if self._same is not None:
            self._same.add(posterior, drawn.get("sample"), last - first)

    def means(self) -> dict[str, Array]:
        """What was found on average over all draws."""
        found = {}
        if self._sum is not None:
            found[f"{self._start}probabilities"] = self._sum / self._total
        if self._same is not None:
            found[f"{self._start}co_assignment"] = self._same.mean
            found[f"{self._start}co_assignment_error"] = self._same.error
        return found


def _log_prob(fn: Structure, value: Tensor, structure: Tensor, log_z: Tensor) -> Tensor:  # (*draws, B)
    """log p(structure | data). The structure is one that was just found, so that it need not be checked."""
    if isinstance(fn, Agreement):
        return fn.score(value, structure) - log_z
    dist, flat = fn.laid_flat(value)
    lead = len(dist.draws)
    each = [dist.flat_structure(one) for one in structure.reshape(-1, *structure.shape[lead:])]  # padded data are not
    lying = torch.stack(each).reshape(*dist.draws, *each[0].shape)
    only = dist.with_potentials(**{dist.part: dist.to_parts(lying)})
    found = only.by_example(only.log_partition(flat)) - log_z
    return torch.where(log_z > -torch.inf, found, -torch.inf)


def _owners(fn: Structure, dim: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The example of each place."""
    owner = np.asarray(fn.owner("structure"))
    return {f"{dim}_example": (dim, owner)} if len(shape) and len(owner) == shape[0] != len(fn.rows) else {}


def _told(fn: Structure, value: Tensor, dims: Sequence[str], shape: tuple[int, ...]) -> dict[str, Any]:
    """What is known of each part: the head and the child of an arc, the two words of a link."""
    if not shape:
        return {}
    try:
        parts = fn.parts(value)
    except StructureError:
        return {}
    known = {name: getattr(parts, name, None) for name in (*TOLD, "example")}
    flat = {name: x.reshape(-1) for name, x in known.items() if isinstance(x, Tensor) and x.numel() == shape[0]}
    return {f"{dims[0]}_{name}": (dims[0], np.asarray(x)) for name, x in flat.items()}
