"""Scoring a fit against gold structure, and naming its states after gold labels."""

from __future__ import annotations

from copy import copy
from typing import Any

from ..errors import UnsupError
from ..evaluate import relabel
from .decoding import Kind, kind_of
from .fit import Fit


def evaluate(fit: Fit, gold: Any, **options: Any) -> dict[str, float]:
    """Scores of a fit's predictions, as :mod:`pyro_unsup.results.decoding` has them for its kind of model.

    :param gold: data with gold structure, by any vocabulary.
    :param options: for decoding, such as ``how``.
    """
    fit = fit.unhandled()
    return _kind(fit).scores(fit, gold, _kind(fit).decode(fit, gold, **options))


def decode(fit: Fit, data: Any, **options: Any) -> Any:
    """What decoding finds, in the words of the model's kind."""
    fit = fit.unhandled()
    return _kind(fit).decode(fit, data, **options)


def _kind(fit: Fit) -> Kind:
    kind = kind_of(fit.model)
    if kind is None:
        raise UnsupError(
            f"this is for the models of the library, not {fit.model!r:.80}: predict(), and compare the result by "
            "pyro_unsup.evaluate"
        )
    return kind


def relabelled(fit: Fit, gold: Any, how: str) -> Fit:
    """A copy whose states carry the names of the gold labels they go with; states without one keep their numbers."""
    inner = fit.unhandled()
    kind: Any = kind_of(inner.model)
    if not hasattr(kind, "gold_labels"):
        raise UnsupError(f"expected the fit of a tagger or a clusterer, actual {fit.model!r:.80}")
    labels, predicted = kind.gold_labels(gold), kind.decode(inner, gold).structure.numpy()
    states = inner.model.states  # type: ignore[attr-defined]
    mapping = relabel(labels, predicted, how=how, predicted_size=states)  # type: ignore[arg-type]
    new = copy(fit)
    known = gold.tagset if hasattr(gold, "tagset") else gold.labelset
    names = [str(k) if label < 0 else known[int(label)] for k, label in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new
