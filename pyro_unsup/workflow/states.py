"""Which axes of the parameters of a model are axes of its hidden states, and what another naming of the states does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import UnsupError
from ..models import HMM, Clusterer, Tagger
from .arguments import check_mapping

#: By parameter, the axes that run over states, counted from 0 after (chain, draw).
Axes = Mapping[str, Sequence[int]]
#: What axes of states are called in the tables of the library's models.
STATE_NAMES = frozenset({"state", "next", "tag", "previous", "previous2", "cluster"})
#: What samples have besides tables, with a number for every label.
OF_LABELS = frozenset({"beta", "token_counts"})


def states_of(model: Any) -> int | None:
    """How many exchangeable states a model of the library has; None for other models.

    :raises UnsupError: if its states are not exchangeable: a dictionary or a support tells them apart.
    """
    if not isinstance(model, HMM | Tagger | Clusterer):
        return None
    told = [name for name, d in model.declarations().items() if d.layout.support is not None]
    if told:
        raise UnsupError(
            f"the states of {model!r} are not exchangeable: the support of '{told[0]}' tells them apart, so their "
            "names do not switch and nothing needs to be relabelled"
        )
    return int(model.states)


def state_axes(model: Any, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The axes of states of every parameter of a model of the library.

    :param shapes: by parameter, the shape of one value.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.workflow.states import state_axes
    >>> state_axes(pu.models.HMM(2, "poisson"), {"transition": (2, 2), "rate": (2,), "start": (2,)})
    {'transition': (0, 1), 'rate': (0,), 'start': (0,)}
    """
    K = states_of(model)
    if K is None:
        raise UnsupError(
            f"which axes of {', '.join(shapes)} run over states is not known of a model of your own: say it, as in "
            "axes={'loc': 0, 'transition': (0, 1)}"
        )
    declared = model.declarations()
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        if name in declared and declared[name].axes is not None:
            found[name] = tuple(i for i, axis in enumerate(declared[name].axes) if axis.name in STATE_NAMES)
        elif name == "transition":  # of an HMM with a stationary start, which is no table
            found[name] = (0, 1)
        elif tuple(shape[:1]) == (K,) and (isinstance(model, HMM) or name in OF_LABELS):
            found[name] = (0,)
    return {name: axes for name, axes in found.items() if axes}


def as_axes(axes: Mapping[str, int | Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Axes as they are kept: a tuple for every parameter."""
    check_mapping("axes", axes, "axes={'loc': 0, 'transition': (0, 1)}")
    found = {name: (one,) if isinstance(one, int) else tuple(one) for name, one in axes.items()}
    if wrong := [name for name, own in found.items() if not all(isinstance(axis, int) for axis in own)]:
        raise UnsupError(
            f"axes of '{wrong[0]}' must be whole numbers, as in axes={{'loc': 0, 'transition': (0, 1)}}, actual "
            f"{axes[wrong[0]]!r:.80}"
        )
    return found


def size_of_states(draws: Mapping[str, Tensor], axes: Axes) -> int:
    """How many states there are: the smallest of the sizes along these axes. A table may have one more outcome, the end
    of a sentence, that keeps its place."""
    sizes = []
    for name, own in axes.items():
        if name not in draws:
            raise UnsupError(f"axes name '{name}', which the draws do not have: they have {', '.join(draws)}")
        for axis in own:
            if not 0 <= axis < draws[name].dim() - 2:
                raise UnsupError(
                    f"axis {axis} of '{name}' is none of the {draws[name].dim() - 2} axes after (chain, draw) of shape "
                    f"{tuple(draws[name].shape)}"
                )
            sizes.append(draws[name].shape[axis + 2])
    if not sizes:
        raise UnsupError("no parameter has an axis of states: say which, as in axes={'loc': 0, 'transition': (0, 1)}")
    K = min(sizes)
    if max(sizes) > K + 1:
        raise UnsupError(f"all axes of states should have one size, actual sizes {sorted(set(sizes))}")
    return K


def permuted(draws: Mapping[str, Tensor], axes: Axes, order: Tensor) -> dict[str, Tensor]:
    """Every parameter with its states in another order: new state k is old state ``order[..., k]``.

    :param draws: (chains, draws, ...) each.
    :param order: (chains, draws, K).
    """
    found = dict(draws)
    K = order.shape[-1]
    for name, own in axes.items():
        x = found[name]
        for axis in own:
            place, extra = axis + 2, x.shape[axis + 2] - K
            stays = torch.arange(K, K + extra).expand(*order.shape[:2], extra)
            whole = torch.cat([order, stays], -1)
            shape = [1] * x.dim()
            shape[:2], shape[place] = list(order.shape[:2]), K + extra
            x = torch.take_along_dim(x, whole.reshape(shape), place)
        found[name] = x
    return found


def invariant(draws: Mapping[str, Tensor], axes: Axes) -> dict[str, Tensor]:
    """Numbers that no renaming of the states changes, for every parameter: sorted values.

    A parameter with one axis of states is sorted along it. One with two or more (transitions) is told apart into the
    diagonal, where all of them are the same state, and the rest; each is sorted.

    :param draws: (..., *shape) each, with two leading axes.
    """
    found: dict[str, Tensor] = {}
    K = size_of_states(draws, axes)
    for name, x in draws.items():
        own = axes.get(name, ())
        if not own:
            found[name] = x
            continue
        x = x.movedim([axis + 2 for axis in own], list(range(2, 2 + len(own))))
        if len(own) == 1:
            found[name] = x.sort(dim=2).values
            continue
        ends = x[(slice(None), slice(None), *(slice(0, K),) * (len(own) - 1), slice(K, None))]
        inner = x[(slice(None), slice(None), *(slice(0, K),) * len(own))]
        rest = inner.shape[2 + len(own) :]
        flat = inner.reshape(*x.shape[:2], K ** len(own), *rest)
        same = sum(torch.arange(K) * K**i for i in range(len(own)))
        other = torch.ones(K ** len(own), dtype=torch.bool)
        other[same] = False
        found[f"{name}.same"] = flat[:, :, same].sort(dim=2).values
        if bool(other.any()):
            found[f"{name}.other"] = flat[:, :, other].sort(dim=2).values
        if ends.numel():
            found[f"{name}.end"] = ends.reshape(*x.shape[:2], -1, *rest).sort(dim=2).values
    return found
