"""Families of whole numbers and classes."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .cells import Cells, ratio, weighted_sum, weights_of
from .registry import register


@register(torch.distributions.Poisson)
def poisson(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The mean. A rate may have a gamma prior."""
    above, below = cells.total("rate", weighted_sum), cells.total("rate", weights_of)
    if "rate" in cells.priors:
        prior = cells.priors["rate"]
        above, below = above + prior.concentration - 1, below + prior.rate
    rate = ratio(above, below)
    return {"rate": rate.clamp(min=torch.finfo(rate.dtype).tiny)}  # a state of zeros has its best rate at the edge


@register(torch.distributions.Bernoulli)
def bernoulli(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The share of ones. Probabilities may have a beta prior."""
    name = next(iter(wanted))
    above, below = cells.total(name, weighted_sum), cells.total(name, weights_of)
    if name in cells.priors:
        prior = cells.priors[name]
        above = above + prior.concentration1 - 1
        below = below + prior.concentration1 + prior.concentration0 - 2
    return {name: _either(name, ratio(above, below))}


@register(torch.distributions.Binomial)
def binomial(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The share of successes."""
    name = next(iter(wanted))
    if wanted not in ({"probs"}, {"logits"}):
        return {}
    below = cells.total(name, lambda x, w, d: w * d.total_count)
    return {name: _either(name, ratio(cells.total(name, weighted_sum), below))}


@register(torch.distributions.Geometric)
def geometric(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """One success an observation, among all trials."""
    name = next(iter(wanted))
    successes = cells.total(name, weights_of)
    return {name: _either(name, ratio(successes, successes + cells.total(name, weighted_sum)))}


@register(torch.distributions.NegativeBinomial)
def negative_binomial(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The share of successes before the last failure, where the number of failures is known."""
    name = next(iter(wanted))
    if wanted not in ({"probs"}, {"logits"}):
        return {}
    successes = cells.total(name, weighted_sum)
    trials = successes + cells.total(name, lambda x, w, d: w * d.total_count)
    return {name: _either(name, ratio(successes, trials))}


@register(torch.distributions.Categorical)
def categorical(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """Relative frequencies. Probabilities may have a Dirichlet prior."""
    name = next(iter(wanted))
    outcomes = cells.shapes[name][-1]

    def chosen(x: Tensor, w: Tensor, d: object) -> Tensor:
        return w.unsqueeze(-1) * one_hot(x.long(), outcomes).to(w)

    counts = cells.total(name, chosen)
    if name in cells.priors:
        counts = counts + cells.priors[name].concentration - 1
    shares = ratio(counts, counts.sum(-1, keepdim=True))
    return {name: shares if name == "probs" else shares.clamp(min=torch.finfo(shares.dtype).tiny).log()}


def _either(name: str, probs: Tensor) -> Tensor:
    """Probabilities, or their logits. A probability of 0 or 1 has a logit far out, and not an infinite one."""
    if name == "probs":
        return probs
    eps = torch.finfo(probs.dtype).eps
    return torch.logit(probs.clamp(eps, 1 - eps))
