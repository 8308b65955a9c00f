"""All groups of an ArviZ object under new names of the states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..results.arviz import group_of
from .states import STATE_NAMES, Axes, permuted

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]

#: The attribute of a variable whose values are numbers of states; it says how many states there are.
STATES = "states"
#: The groups that are of the prior: their draws are others.
OTHER_DRAWS = ("prior", "prior_predictive", "warmup_posterior", "warmup_sample_stats")


def groups_by_draw(data: Any) -> dict[str, xarray.Dataset]:
    """All groups of an ArviZ object of any version."""
    names = list(data.children) if hasattr(data, "children") else list(data.groups())
    found = {name: group_of(data, name) for name in names}
    return {name: group for name, group in found.items() if group is not None}


def named_axes(group: xarray.Dataset) -> dict[str, tuple[int, ...]]:
    """The axes of states of every variable, by the names of its dimensions: ``state``, or ``loc_state``."""
    found = {}
    for name, x in group.data_vars.items():
        own = [d for d in x.dims if d not in ("chain", "draw")]
        axes = tuple(i for i, dim in enumerate(own) if str(dim).rsplit("_", 1)[-1] in STATE_NAMES)
        if axes and {"chain", "draw"} <= set(x.dims):
            found[str(name)] = axes
    return found


def renamed_groups(groups: Mapping[str, xarray.Dataset], axes: Axes, order: Array) -> dict[str, xarray.Dataset]:
    """Every variable by draw with its states in another order, and states that are values under their new names.

    :param axes: of the posterior.
    :param order: (chains, draws, K) which old state each new state was.
    """
    name = np.argsort(order, -1)  # the new number of each old state
    found, turn = dict(groups), torch.from_numpy(order)
    for key, group in groups.items():
        by_draw = {"chain", "draw"} <= set(group.sizes) and key not in OTHER_DRAWS
        if not by_draw or (group.sizes["chain"], group.sizes["draw"]) != order.shape[:2]:
            continue
        own = axes if key == "posterior" else named_axes(group)
        new = group.copy()
        for variable, x in group.data_vars.items():
            wide = x.transpose("chain", "draw", ...)
            values = np.asarray(wide.values)
            if str(variable) in own:
                mine = {"x": own[str(variable)]}
                values = permuted({"x": torch.from_numpy(values.copy())}, mine, turn)["x"].numpy()
            if x.attrs.get(STATES) == order.shape[-1]:
                values = _renamed(values, name)
            new[variable] = wide.copy(data=values).transpose(*x.dims)
        found[key] = new
    return found


def _renamed(values: Array, name: Array) -> Array:  # (chains, draws, ...), (chains, draws, K)
    """Numbers of states by their new names; -1, no state, stays."""
    flat = values.reshape(*values.shape[:2], -1).astype(np.int64)
    new = np.take_along_axis(name, np.maximum(flat, 0), -1)
    return np.where(flat < 0, flat, new).reshape(values.shape).astype(values.dtype)
