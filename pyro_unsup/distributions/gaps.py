"""Draws of the coordinates of a vector that are missing, given those that were observed and the state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import StructureError
from .emission import Joint, partial_density


def conditional(emission: Any, states: Tensor, value: Tensor, seen: Tensor, drawn: Tensor) -> Tensor:
    """Draws of whole vectors, made draws of the missing coordinates given the others. Independent ones stay.

    :param emission: of batch shape (..., K).
    :param states: (rows,).
    :param value: (rows, *event).
    :param seen: as value, True for what was observed.
    :param drawn: as value, one draw of a whole vector a row.
    """
    event = seen.flatten(1) if seen.dim() > 1 else seen.unsqueeze(-1)
    partly = event.any(-1) & ~event.all(-1)
    if not bool(partly.any()):
        return drawn
    if isinstance(emission, Joint):
        pieces = zip(emission.parts, *(emission.split(x) for x in (value, seen, drawn)), strict=True)
        each = [conditional(part, states, x, o, d) for part, x, o, d in pieces]
        wide = [x if part.event_shape else x.unsqueeze(-1) for x, part in zip(each, emission.parts, strict=True)]
        return torch.cat(wide, -1)
    normal = isinstance(emission, torch.distributions.MultivariateNormal)
    if not normal and not isinstance(emission, torch.distributions.MixtureSameFamily):
        return drawn
    if len(emission.batch_shape) > 1:
        raise StructureError(
            f"gaps within a {type(emission).__name__} are filled where its parameters do not vary by step; actual "
            f"batch shape {tuple(emission.batch_shape)}"
        )
    if normal:
        return _normal(emission.covariance_matrix, states, value, seen, drawn)
    return _mixture(emission, states, value, seen)


def _normal(cov: Tensor, states: Tensor, value: Tensor, seen: Tensor, drawn: Tensor) -> Tensor:  # cov: (K, D, D)
    """A draw d of the whole vector becomes d + C (x - d), with the regression C of missing coordinates on seen ones."""
    found = drawn.clone()
    for pattern in torch.unique(seen, dim=0):
        have, miss = pattern.nonzero()[:, 0], (~pattern).nonzero()[:, 0]
        rows = (seen == pattern).all(-1).nonzero()[:, 0]
        if not len(have) or not len(miss):
            continue
        cross = cov[:, miss][:, :, have] @ torch.linalg.inv(cov[:, have][:, :, have])  # (K, missing, seen)
        away = value[rows][:, have] - drawn[rows][:, have]
        moved = drawn[rows][:, miss] + (cross[states[rows]] @ away.unsqueeze(-1)).squeeze(-1)
        found[rows.unsqueeze(-1), miss] = moved
    return found


def _mixture(emission: Any, states: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """A component by what was observed, and then a vector of it."""
    inner = emission.component_distribution
    known = torch.where(seen, value, torch.zeros_like(value))
    each = partial_density(inner, known.unsqueeze(1).unsqueeze(1), seen.unsqueeze(1).unsqueeze(1))  # (rows, K, parts)
    each = each + emission.mixture_distribution.logits
    own = each[torch.arange(len(states)), states]  # (rows, parts)
    part = torch.distributions.Categorical(logits=own).sample()
    place = (torch.arange(len(states)), states, part)
    drawn: Tensor = inner.sample((len(states),)).to(value)[place]
    if not isinstance(inner, torch.distributions.MultivariateNormal):
        return drawn
    parts = inner.batch_shape[-1]
    return _normal(inner.covariance_matrix.flatten(0, 1), states * parts + part, value, seen, drawn)
