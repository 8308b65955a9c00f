"""Scoring a fit against gold structure, and naming its states after gold labels."""

from __future__ import annotations

from copy import copy
from typing import Any

from ..data import Corpus
from ..errors import UnsupError
from ..evaluate import relabel
from .decoding import kind_of
from .decoding.tagging import decode, gold_tags
from .fit import Fit


def evaluate(fit: Fit, gold: Any, **options: Any) -> dict[str, float]:
    """Scores of a fit's predictions, as :mod:`pyro_unsup.results.decoding` has them for its kind of model.

    :param gold: data with gold structure, by any vocabulary.
    :param options: for decoding, such as ``how``.
    """
    fit = fit.unhandled()
    kind = kind_of(fit.model)
    if kind is None:
        raise UnsupError(
            f"evaluate() knows the models of the library, not {fit.model!r:.80}: predict(), and compare the result by "
            "pyro_unsup.evaluate"
        )
    return kind.scores(fit, gold, kind.decode(fit, gold, **options))


def relabelled(fit: Fit, gold: Corpus, how: str) -> Fit:
    """A copy whose states carry the names of the gold tags they go with; states without one keep their numbers."""
    tags, predicted = gold_tags(gold), decode(fit.unhandled(), gold).structure.numpy()
    states = fit.weights["start"].shape[-1]
    mapping = relabel(tags, predicted, how=how, predicted_size=states)  # type: ignore[arg-type]
    new = copy(fit)
    assert gold.tagset is not None
    names = [str(k) if tag < 0 else gold.tagset[int(tag)] for k, tag in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new
