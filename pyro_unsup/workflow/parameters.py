"""Draws of parameters, whatever engine they come from: tensors by name, with axes (chain, draw, ...)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pyro.infer import MCMC
from torch import Tensor

from ..errors import UnsupError
from ..models.clusterer import Bags
from ..results import Fit, Samples
from ..results.arviz import is_arviz
from ..results.table_posterior import to_site
from .arviz_tools import by_arviz
from .draws import Draws, arrays_of, draws_of, of_labels, samples_of
from .guides import guide_draws
from .sampled_data import sampled_data

Parameters = dict[str, Tensor]


def parameters_of(
    result: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    number: int = 1000,
    seed: int = 0,
) -> Parameters:  # (chains, draws, *shape) each
    """Draws of the parameters of a model, as its sample sites have them.

    :param result: a dict of arrays (chain, draw, ...); a Pyro ``MCMC`` that has run; :class:`.Samples` of labels, whose
        tables are drawn given the labels; a :class:`.Fit`, which is drawn from as its guide does; a guide of Pyro; or
        an ArviZ object with a group ``posterior``.
    :param args: of the model, which guides are called with.
    :param kwargs: likewise.
    :param number: how many, where there are none yet: of a fit or a guide.
    :param seed: of these.
    """
    if is_arviz(result):
        return _checked(arrays_of(result))
    if isinstance(result, Mapping):
        return _checked(result)
    if isinstance(result, MCMC):
        return _checked(samples_of(result))
    if isinstance(result, Samples):
        return _of_samples(result, seed)
    if isinstance(result, Fit):
        return _as_sites(draws_of(result, tuple(args), None, number, seed))
    if callable(result):
        return guide_draws(result, args, kwargs, number, seed)
    raise UnsupError(
        "expected draws: a dict of arrays (chain, draw, ...), a Pyro MCMC, Samples, a Fit, a guide or an ArviZ object; "
        f"actual {type(result).__name__}"
    )


def flat(draws: Mapping[str, Tensor]) -> Parameters:  # (chains * draws, *shape) each
    """All chains end to end."""
    return {name: x.flatten(0, 1) for name, x in draws.items()}


def _as_sites(drawn: Draws) -> Parameters:  # (chains, draws, *shape) each
    """Draws of tables as their sample sites have them: a table with structural zeros lies flat there."""
    values = drawn.take(0, drawn.total)
    layouts = {name: declaration.layout for name, declaration in drawn.tables.items()}
    found = {
        name: torch.stack([to_site(layouts[name], one) for one in x]) if name in layouts else x
        for name, x in values.items()
    }
    return {name: x.unflatten(0, (drawn.chains, drawn.size)) for name, x in found.items()}


def _of_samples(samples: Samples, seed: int) -> Parameters:
    data = sampled_data(samples)
    data = data if isinstance(data, Bags) else samples.sentences()
    known = (samples.labels, samples.draws["alpha"], samples.draws["beta"])
    found = _as_sites(of_labels(samples.model, (data,), *known, seed))
    if samples.learned != "fixed":
        found |= {name: torch.from_numpy(np.array(getattr(samples, name))) for name in ("alpha", "beta")}
    return found


def _checked(given: Mapping[str, Any]) -> Parameters:
    arrays = {name: x if isinstance(x, Tensor) else np.array(x) for name, x in given.items()}
    if wrong := [name for name, x in arrays.items() if not isinstance(x, Tensor) and x.dtype.kind not in "biuf"]:
        raise UnsupError(
            f"draws are arrays of numbers, (chain, draw, ...); actual {wrong[0]!r:.80} of {arrays[wrong[0]].dtype}"
        )
    found = {name: x if isinstance(x, Tensor) else torch.from_numpy(x) for name, x in arrays.items()}
    found = {name: x.detach() for name, x in found.items()}
    if not found:
        raise UnsupError("there are no draws: expected at least one parameter")
    lead = {tuple(x.shape[:2]) for x in found.values()}
    if len(lead) != 1 or len(next(iter(lead))) < 2:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in found.items())
        raise UnsupError(f"draws have the axes (chain, draw, ...), the same of all parameters; actual shapes {shapes}")
    return found


def diagnostics(draws: Mapping[str, Tensor], cells: int = 200) -> dict[str, dict[str, float]]:
    """R-hat (the largest) and bulk effective sample size (the smallest) of the numbers of each parameter, by ArviZ.

    :param cells: of larger parameters, so many numbers are looked at, evenly spread.
    """
    found = {}
    for name, x in draws.items():
        wide = x.double().flatten(2) if x.dim() > 2 else x.double()[..., None]
        if wide.shape[-1] > cells:
            wide = wide[..., torch.linspace(0, wide.shape[-1] - 1, cells).long()]
        values = wide.numpy()
        r_hat, ess = by_arviz(values, "rhat"), by_arviz(values, "ess")
        found[name] = {"r_hat": _worst(r_hat, np.nanmax), "ess": _worst(ess, np.nanmin)}
    return found


def _worst(values: np.ndarray[Any, Any], worst: Callable[..., Any]) -> float:
    return float("nan") if np.isnan(values).all() else float(worst(values))
