"""Parameters and data that a model draws itself, and the arguments with which it then sees these data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from ..distributions.ragged import check_lengths
from ..errors import UnsupError
from ..models import Clusterer
from ..models.clusterer import Bags
from .priors import NoParameters


def simulate(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Tensor], tuple[Any, ...], dict[str, Any]]:
    """One draw of everything by the global generator: the latent variables, and the arguments that have the data.

    The model is called as for a prior predictive check, with None for the data, and returns the data that it drew.

    :param args: with which it draws, such as ``(None, lengths)``.
    :param kwargs: likewise.
    """
    with torch.no_grad():
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    drawn = trace.nodes["_RETURN"]["value"]
    if not isinstance(drawn, Tensor):
        raise UnsupError(
            "the model should return the data that it draws, a tensor, when it is called with None for the data; "
            f"actual {type(drawn).__name__}. Write `return pyro.sample('x', ..., obs=x)`"
        )
    found = with_data(model, drawn, args, kwargs)
    observed = _observed(model, *found)
    truth = {
        name: site["value"]
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site_is_subsample(site) and name not in observed
    }
    return truth, *found


def drawing_arguments(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which a model draws. A model of the library needs to know how much: lengths, or one length.

    :raises UnsupError: if it does not know, or a parameter has no prior to draw it from.
    """
    if hasattr(model, "index"):
        first = next(iter(inspect.signature(model).parameters.values()))
        if first.default is not None:
            raise UnsupError(
                f"{model!r:.120} does not draw data when it is called with None, and calibration needs that: expected "
                "a tagger, a DMV, a clusterer, an HMM, or a model of your own"
            )
        given = [*args[1:], *(x for name, x in kwargs.items() if name == "lengths")]
        if len(given) != 1 or given[0] is None or args[:1] not in ((), (None,)) or kwargs.keys() - {"lengths"}:
            raise UnsupError(
                "this model has to know how much it should draw: None in the place of the data, and then the lengths "
                f"of examples, as in sbc(model, engine, None, [20, 30]); actual {(*args, *kwargs.values())!r:.120}"
            )
        args, kwargs = (None, check_lengths(given[0]).reshape(-1)), {}
    with torch.random.fork_rng(devices=[]), torch.no_grad(), poutine.block(), NoParameters():
        model(*args, **kwargs)
    return tuple(args), dict(kwargs)


def with_data(
    model: Any, drawn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a model with data in the place of None. A model of the library takes data of its own kind."""
    if isinstance(model, Clusterer):
        lengths = torch.as_tensor([*args, *kwargs.values()][-1])
        return (Bags(drawn, lengths),), {}
    if hasattr(model, "index"):
        rest = [x for x in args if x is not None]
        return (model.index(drawn, *rest, **{name: x for name, x in kwargs.items() if x is not None}),), {}
    if sum(x is None for x in (*args, *kwargs.values())) == 1:
        return (
            tuple(drawn if x is None else x for x in args),
            {name: drawn if x is None else x for name, x in kwargs.items()},
        )
    if not any(x is None for x in (*args, *kwargs.values())):  # the first argument, left out
        return (drawn, *args), dict(kwargs)
    raise UnsupError("expected one argument that is None, in the place of the data")


def _observed(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[str]:
    """The sites that data fix."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    return {name for name, site in trace.nodes.items() if site["type"] == "sample" and site["is_observed"]}
