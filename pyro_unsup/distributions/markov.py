"""The stationary distribution of a Markov chain."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import StructureError


def stationary(transition: Tensor) -> Tensor:  # (*batch, K, K) -> (*batch, K)
    """Log-probabilities of the states in the long run, from log-weights of transitions, rows (old, new).

    The chain must have one such distribution: from every state there is a way to every other, or all ways lead to one
    group of states.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> pu.stationary(torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()).exp()
    tensor([0.7500, 0.2500])
    """
    rows = transition.softmax(-1)
    K = rows.shape[-1]
    eye, ones = torch.eye(K, dtype=rows.dtype, device=rows.device), torch.ones_like(rows)
    # pi (I - P + 1) = 1, where all entries of 1 are one: pi P = pi, and the shares add up to one.
    try:
        found = torch.linalg.solve((eye - rows + ones).mT, torch.ones_like(rows[..., 0]))
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise StructureError(
            "these transitions have no single stationary distribution: expected a way from every state to every other, "
            "actual groups of states that are never left. Use another start, or make moves between groups possible"
        ) from None
    logs: Tensor = found.clamp(min=torch.finfo(rows.dtype).tiny).log()
    return logs
