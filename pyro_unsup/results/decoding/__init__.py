"""From a fit and new data to hidden structure and scores: one file for each kind of model.

Each has two functions. ``decode(fit, data, how)`` finds the structure of data by any vocabulary, with whatever training
never met, and tells ``structure``, ``posterior`` and ``log_likelihood`` (one an example).
``scores(fit, gold, decoded)`` compares it with gold structure.

A model names its decoder: the class has an attribute ``decoder``, a registered name (:mod:`pyro_unsup.registry`, kind
``decoders``). A registered model that names none is decoded by :mod:`.generic`. (A subclass inherits the attribute. One
that means something else by the same tables sets it to None, or to a decoder of its own.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

from torch import Tensor

from ... import registry
from ...errors import UnsupError

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


@runtime_checkable
class Decoder(Protocol):
    """What every file here has, and every registered decoder."""

    @property
    def decode(self) -> Callable[..., Any]: ...

    @property
    def scores(self) -> Callable[..., dict[str, float]]: ...


@runtime_checkable
class Labelling(Decoder, Protocol):
    """A decoder whose structure is one state for each item, which gold data have a label for."""

    @property
    def gold_labels(self) -> Callable[..., Any]: ...


def own_decoder(model: object) -> Decoder | None:
    """The decoder that a registered model names; None if it names none, or is not registered.

    A subclass of a registered model may mean something else by the same tables, so it has to be registered itself.
    """
    registered, name = registry.name_of("models", type(model)), getattr(model, "decoder", None)
    if registered is None or name is None:
        return None
    found = registry.find("decoders", name)
    if not isinstance(found, Decoder):
        raise UnsupError(
            f"the decoder {name!r:.80} of {registered} should have decode(fit, data, how) and "
            "scores(fit, gold, decoded)"
        )
    return found


def decoder_of(model: object) -> Decoder | None:
    """The same, but :mod:`.generic` for a registered model that names none."""
    from . import generic

    if registry.name_of("models", type(model)) is None:
        return None
    return own_decoder(model) or cast(Decoder, generic)
