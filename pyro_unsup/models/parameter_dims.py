"""What the axes of parameters are called that are no tables: states, and coordinates of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .hmm import HMM


def parameter_dims(model: Any, shapes: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
    """By parameter of a model of the library, names of its axes; those that are not known are left out.

    An axis of one cell that stands for several states or coordinates has a name of its own: ``scale_coordinate`` of a
    spherical covariance is one number for all coordinates.

    :param shapes: by parameter, the shape of one value.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.models.parameter_dims import parameter_dims
    >>> parameter_dims(pu.models.HMM(3, dim=2), {"loc": (3, 2), "scale": (3, 2)})
    {'loc': ['state', 'coordinate'], 'scale': ['state', 'coordinate']}
    >>> parameter_dims(pu.models.HMM(3, start="stationary"), {"transition": (3, 3), "loc": (3,)})
    {'transition': ['transition_state', 'transition_next'], 'loc': ['state']}
    """
    if not isinstance(model, HMM):
        return {}
    found = {}
    for name, shape in shapes.items():
        if name in model.declarations():
            continue
        if name == "transition":  # as it is called where it is a table
            found[name] = ["transition_state", "transition_next"]
            continue
        own = isinstance(model.emission, str)
        if not shape or (not own and shape[0] != model.states):
            continue
        wanted = [model.states, *([model.dim or 1] * (len(shape) - 1))] if own else [model.states]
        names = ["state", "coordinate", "coordinate_2"][: len(wanted)]
        dims = [d if n == size else f"{name}_{d}" for d, n, size in zip(names, shape, wanted, strict=False)]
        found[name] = [*dims, *(f"{name}_dim_{i}" for i in range(len(dims), len(shape)))]
    return found
