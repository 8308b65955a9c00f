"""Any model with one structured site, on data that it takes as they are."""

from __future__ import annotations

from typing import Any

from ...results import Fit
from . import Decoded, check_how


def decode(fit: Fit, data: Any, how: str = "viterbi") -> Decoded:
    """The structure of data by the fit of any model that has one structured site.

    :param data: as the model takes them.
    :param how: ``"viterbi"``, the most probable structure; or ``"mbr"``, the one with the most expected right parts.
    """
    check_how(how)
    posterior = fit.posterior(data)
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, posterior.log_partition.double())
