"""The structure of new data by a fit: one file a model, for what training never met is different for each.

Maximum likelihood gives new words probability zero, and whole sentences with them. They still want a structure. So
decoding makes every zero that training left one and the same tiny weight: the rest of the sentence then decides.
Examples that are possible are not touched by this, and log-likelihoods are always those of the fit as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pyro import poutine
from torch import Tensor

from ...distributions import Posterior, Structure
from ...errors import UnsupError
from ...handlers import given
from ...handlers.prefer import preferring
from ...results import Fit

#: The log-weight of what training holds impossible: no product of weights above zero is likely to come near it.
FLOOR = -1e6


@dataclass(frozen=True)
class Decoded:
    """The structure of some data.

    :param structure: as the posterior of the model's structured site lays it out.
    :param posterior: of those structures, for the probabilities of their parts.
    :param log_likelihood: (examples,) under the fit as it is, -inf for an impossible example.
    :param unseen: words (or tags, or symbols) that the fit's vocabulary does not have.
    :param lengths: (examples,) words in each.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    unseen: int = 0
    lengths: Tensor | None = None


def check_how(how: str, ways: Sequence[str] = ("viterbi", "mbr")) -> None:
    """Refuse a way of decoding that a model does not have."""
    if how not in ways:
        *some, last = map(repr, ways)
        raise UnsupError(f"how must be {', '.join(some)} or {last}, actual {how!r}")


def traced(fit: Fit, model: Any, weights: Any, *data: Any) -> Any:
    """A run of a model with these weights, under what the model of the fit preferred in training.

    :param model: that of the fit, or one that knows more symbols.
    """
    return poutine.trace(given(preferring(model, fit.preferences), weights)).get_trace(*data)


def clamped(structure: Structure, value: Tensor, impossible: Tensor) -> Posterior:
    """The posterior with every zero made a tiny weight."""
    weights = {name: w.double().clamp(min=FLOOR) for name, w in structure.weights.items()}
    return structure.with_weights(weights).posterior(value)


def find(
    structure: Structure, value: Any, how: str, floored: Callable[[Any, Tensor, Tensor], Posterior] = clamped
) -> dict[str, Any]:
    """What :class:`Decoded` tells of a structured site: structure, posterior and log-likelihood.

    :param how: ``"viterbi"``, the most probable structure; or ``"mbr"``, the one with the most expected right parts.
    :param floored: makes a posterior without zeros, from the site and from where its examples are impossible.
    """
    check_how(how)
    posterior = structure.posterior(value)
    log_likelihood = posterior.log_partition.double()
    impossible = log_likelihood == -torch.inf
    if bool(impossible.any()):
        posterior = floored(structure, value, impossible)
    best = posterior.mode() if how == "viterbi" else posterior.mbr()
    return {"structure": best, "posterior": posterior, "log_likelihood": log_likelihood}


def decode(fit: Fit, data: Any, how: str = "viterbi") -> Decoded:
    """The structure of data, as the model takes them, by the fit of any model that has one structured site."""
    check_how(how)
    posterior = fit.posterior(data)
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, posterior.log_partition.double())
