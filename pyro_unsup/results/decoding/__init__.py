"""From a fit and new data to hidden structure and scores: one file for each kind of model.

Each has two functions. ``decode(fit, data, how)`` finds the structure of data by any vocabulary, with whatever training
never met, and tells ``structure`` and ``log_likelihood`` (one an example). ``scores(fit, gold, decoded)`` compares it
with gold structure.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from torch import Tensor

from ...errors import UnsupError

#: The file for the models of a class.
KINDS = {
    "Tagger": "tagging",
    "CCM": "parsing",
    "DMV": "dependencies",
    "DMVCCM": "headed",
    "Segmenter": "segmenting",
    "Aligner": "aligning",
    "HMMAligner": "aligning",
    "Clusterer": "clustering",
}


#: The log-weight of what training holds impossible, so that new data have a structure all the same: no product of
#: weights above zero is likely to come near it.
FLOOR = -1e6


def check_how(how: str) -> None:
    """Refuse a way of decoding that structures do not have."""
    if how not in ("viterbi", "mbr"):
        raise UnsupError(f"how must be 'viterbi' or 'mbr', actual {how!r}")


class Decoded(Protocol):
    """What every kind of decoding tells."""

    @property
    def structure(self) -> Tensor: ...

    @property
    def log_likelihood(self) -> Tensor: ...


class Kind(Protocol):
    """What every file here has."""

    decode: Callable[..., Any]
    scores: Callable[..., dict[str, float]]


def kind_of(model: object) -> Kind | None:
    """The decoding of a model of the library; None for a model of the user's own."""
    found = type(model)
    if found.__name__ not in KINDS or not found.__module__.startswith("pyro_unsup.models"):
        return None
    return import_module(f".{KINDS[found.__name__]}", __name__)
