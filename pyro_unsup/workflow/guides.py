"""Draws of a guide: one of Pyro's, one of a fit, or one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pyro import poutine
from torch import Tensor

from ..infer.progress import progress_bar
from .seeds import stream


class GuideDraws(dict[str, Tensor]):
    """Draws of a guide, (1, draws, *shape) by site. They are independent of each other.

    :param log_q: (draws,) their log densities.
    """

    log_q: Tensor


def guide_draws(
    guide: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    draws: int,
    seed: int,
    progress: bool | None = None,
) -> GuideDraws:
    """Draws of all sites of a guide but auxiliary and observed ones. It runs once a draw, as any program can.

    :param args: that it is called with.
    :param kwargs: likewise.
    :param seed: the same draws come from the same seed.
    :param progress: show a bar; None for one where there is a terminal.

    >>> import pyro, pyro.distributions as dist
    >>> from pyro_unsup.workflow.guides import guide_draws
    >>> def guide(x):
    ...     pyro.sample("mean", dist.Normal(x, 1.0))
    >>> found = guide_draws(guide, (3.0,), None, 50, seed=0)
    >>> found["mean"].shape, found.log_q.shape
    (torch.Size([1, 50]), torch.Size([50]))
    """
    each: list[dict[str, Tensor]] = []
    log_q = []
    with torch.random.fork_rng(devices=[]), torch.no_grad(), poutine.block():
        torch.manual_seed(stream(seed, "guide"))
        for _ in progress_bar(range(draws), progress, unit="draw", leave=False):
            trace = poutine.trace(guide).get_trace(*args, **(kwargs or {}))
            log_q.append(trace.log_prob_sum())
            each.append(
                {
                    name: site["value"].detach()
                    for name, site in trace.nodes.items()
                    if site["type"] == "sample" and not site["infer"].get("is_auxiliary") and not site["is_observed"]
                }
            )
    found = GuideDraws({name: torch.stack([one[name] for one in each])[None] for name in each[0]})
    found.log_q = torch.stack([torch.as_tensor(x) for x in log_q])
    return found
