"""Scoring a fit against gold structure, and naming its states after gold labels."""

from __future__ import annotations

from copy import copy
from typing import Any

from ..errors import UnsupError
from ..evaluate import relabel
from .decoding import Decoder, Labelling, decoder_of
from .fit import Fit


def evaluate(fit: Fit, gold: Any, **options: Any) -> dict[str, float]:
    """Scores of a fit's predictions, by the decoder of its model (:mod:`pyro_unsup.results.decoding`).

    :param gold: data with gold structure, by any vocabulary.
    :param options: for decoding, such as ``how``.
    """
    fit = fit.unhandled()
    decoder = _decoder(fit)
    return decoder.scores(fit, gold, decoder.decode(fit, gold, **options))


def decode(fit: Fit, data: Any, **options: Any) -> Any:
    """What the decoder of its model finds."""
    fit = fit.unhandled()
    return _decoder(fit).decode(fit, data, **options)


def _decoder(fit: Fit) -> Decoder:
    decoder = decoder_of(fit.model)
    if decoder is None:
        raise UnsupError(
            f"this is for registered models, not {fit.model!r:.80}: register its class (pyro_unsup.registry), or use "
            "predict() and compare the result by pyro_unsup.evaluate"
        )
    return decoder


def relabelled(fit: Fit, gold: Any, how: str) -> Fit:
    """A copy whose states carry the names of the gold labels they go with; states without one keep their numbers."""
    inner = fit.unhandled()
    decoder = decoder_of(inner.model)
    if not isinstance(decoder, Labelling):
        raise UnsupError(f"expected the fit of a tagger or a clusterer, actual {fit.model!r:.80}")
    labels, predicted = decoder.gold_labels(gold), decoder.decode(inner, gold).structure.numpy()
    states = inner.model.states  # type: ignore[attr-defined]
    mapping = relabel(labels, predicted, how=how, predicted_size=states)  # type: ignore[arg-type]
    new = copy(fit)
    known = gold.tagset if hasattr(gold, "tagset") else gold.labelset
    names = [str(k) if label < 0 else known[int(label)] for k, label in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new
