"""The distributions behind the observations of a run, with posterior weights: what M steps by formula are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..distributions import Joint, Structure
from ..distributions.duration import whole_durations
from ..distributions.emission import observed_cells
from ..estimate.closed_forms import NoClosedForm, closed_form


@dataclass
class Leaf:
    """A distribution that is of a family, somewhere inside of a site.

    :param dist: the distribution.
    :param value: (*cells, *event) observations.
    :param weight: (*cells).
    """

    dist: Any
    value: Tensor
    weight: Tensor


def leaves_of(
    trace: Any, factors: Mapping[tuple[str, str], Tensor], points: Mapping[str, Any]
) -> tuple[list[Leaf], set[tuple[str, str]]]:
    """All distributions of families in a run, with their observations and posterior weights; and the factors that
    consist of nothing else.

    :param factors: by site and weight, the posterior probability of each cell.
    :param points: sites that are priors of parameters, and no data.
    """
    found: list[Leaf] = []
    known: set[tuple[str, str]] = set()
    for name, site in trace.nodes.items():
        if site["type"] != "sample" or name in points:
            continue
        if isinstance(site["fn"], Structure):
            groups = [*_emitted(name, site, factors), *_lasting(name, site, factors)]
        elif (name, "") in factors:
            groups = [(list(leaves_in(site["fn"], site["value"], factors[name, ""], None)), {(name, "")})]
        else:
            continue
        for here, keys in groups:
            if all(closed_form(type(leaf.dist)) is not None for leaf in here):
                found += here
                known |= keys
    return found, known


#: Leaves, and the factors that consist of nothing else.
Group = tuple[list[Leaf], set[tuple[str, str]]]


def _emitted(name: str, site: Any, factors: Mapping[tuple[str, str], Tensor]) -> Iterator[Group]:
    """The emission of a structure, with the posterior of the states of its observations."""
    density, weight = getattr(_inside(site["fn"]), "density", None), factors.get((name, "emission"))
    if density is not None and weight is not None and weight.dim() == 2:
        value = _flat(site["fn"], site["value"])
        observed = observed_cells(value, density.emission.event_shape, density.mask)
        yield observed_leaves(density.emission, value, weight, observed), {(name, "emission")}


def _lasting(name: str, site: Any, factors: Mapping[tuple[str, str], Tensor]) -> Iterator[Group]:
    """The durations of a structure whose states last, with how often each is expected."""
    duration, inside = getattr(_inside(site["fn"]), "lasting", None), factors.get((name, "duration"))
    if duration is None or inside is None or inside.dim() != 2:
        return
    found = whole_durations(duration, inside, factors.get((name, "last")))
    if found is not None:
        yield [Leaf(duration, *found)], {(name, "duration"), (name, "last")}


def _inside(fn: Any) -> Any:
    while hasattr(fn, "base") and isinstance(fn, Structure):
        fn = fn.base
    return fn


def _flat(fn: Any, value: Tensor) -> Tensor:
    """Observations, end to end."""
    with torch.no_grad():
        inside = _inside(fn)
        bound, _ = inside.laid_flat(torch.as_tensor(value))
    found: Tensor = bound.data[1]
    return found


def observed_leaves(emission: Any, value: Tensor, weight: Tensor, observed: Tensor | None) -> list[Leaf]:
    """The families that an emission is made of.

    :param value: (rows, *event).
    :param weight: (rows, K).
    :param observed: as value; None for all.
    """
    event = len(emission.event_shape)
    wide = None if observed is None else observed.unsqueeze(-1 - event)
    return list(leaves_in(emission, value.unsqueeze(-1 - event), weight, wide))


def leaves_in(fn: Any, value: Tensor, weight: Tensor, observed: Tensor | None) -> Iterator[Leaf]:
    """The families that a distribution is made of."""
    if observed is not None and not fn.event_shape:
        # What is missing has no weight; any number will do in its place.
        yield Leaf(fn, torch.where(observed, value, torch.ones_like(value)), torch.where(observed, weight, 0.0))
        return
    if isinstance(fn, torch.distributions.Independent):
        axes = fn.reinterpreted_batch_ndims
        inner = fn.base_dist.batch_shape[len(fn.base_dist.batch_shape) - axes :]
        wide = weight.reshape(*weight.shape, *(1,) * axes).expand(*weight.shape, *inner)  # a cell a coordinate
        yield from leaves_in(fn.base_dist, value, wide, observed)
        return
    if isinstance(fn, Joint):
        seen = [None] * len(fn.parts) if observed is None else fn.split(observed)
        for part, x, o in zip(fn.parts, fn.split(value), seen, strict=True):
            yield from leaves_in(part, x, weight, o)
        return
    if observed is not None:
        whole = observed.flatten(observed.dim() - len(fn.event_shape))
        if bool((whole.all(-1) != whole.any(-1)).any()):
            raise NoClosedForm
        weight = torch.where(whole.all(-1), weight, 0.0)
        value = torch.where(observed, value, torch.zeros_like(value))
    yield Leaf(fn, value, weight)
