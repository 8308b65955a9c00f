"""Any model with one structured site, on data that it takes as they are: the mode of its posterior, or the best parts.

Data by another vocabulary, words that training never met, and scores of a field need a decoder of the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...distributions import Posterior
from ...errors import UnsupError
from ..fit import Fit
from . import check_how


@dataclass(frozen=True)
class Decoded:
    """Structures of some data.

    :param structure: as the posterior of the model's structured site lays it out.
    :param posterior: of those structures, for their probabilities.
    :param log_likelihood: (examples,) under the fit, -inf for an impossible example.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor


def decode(fit: Fit, data: Any, how: str = "viterbi") -> Decoded:
    """The structure of data by the fit of any model that has one structured site.

    :param data: as the model takes them.
    :param how: ``"viterbi"``, the most probable structure; or ``"mbr"``, the one with the most expected right parts.
    """
    check_how(how)
    posterior = fit.posterior(data)
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, posterior.log_partition.double())


def scores(fit: Fit, gold: Any, decoded: Decoded) -> dict[str, float]:
    """``accuracy``, the share of entries of the structure that are right; ``loglik_per_example``, in nats.

    :param gold: data with an attribute ``structure``, laid out as the decoded structure is.
    """
    right = getattr(gold, "structure", None)
    if right is None:
        raise UnsupError(
            f"the gold data have no structure to compare with: expected an attribute 'structure' of shape "
            f"{tuple(decoded.structure.shape)}, as predict() returns it. Or give the model a decoder of its own"
        )
    found = torch.as_tensor(right)
    if found.shape != decoded.structure.shape:
        raise UnsupError(
            f"the gold structure should have shape {tuple(decoded.structure.shape)}, as predict() returns it, actual "
            f"{tuple(found.shape)}: score the same data"
        )
    same = (found == decoded.structure).double()
    return {
        "accuracy": float(same.mean()) if same.numel() else 0.0,
        "loglik_per_example": float(decoded.log_likelihood.mean()),
    }
