"""Scoring a fit against gold labels. Each kind of structure has its own scores."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..data import Corpus
from ..errors import UnsupError
from ..evaluate import relabel, tagging_report
from .fit import Fit
from .unseen import Decoded, decode


def evaluate(fit: Fit, gold: Corpus, how: str = "viterbi") -> dict[str, float]:
    """Scores of a fit's predictions.

    For a tagger: ``many_to_one``, ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``, ``bits_per_word``;
    and, if its tags are the gold tags by name, ``accuracy`` and (with a dictionary) ``accuracy_ambiguous``. Fractions
    of 1.

    :param gold: a tagged corpus; its words are looked up in the vocabulary that the fit was trained on. Words that are
        not in it are tagged by their neighbours (:mod:`.unseen`), but make ``bits_per_word`` infinite.
    """
    return scores(fit, gold, decode(fit, gold, how))


def scores(fit: Fit, gold: Corpus, decoded: Decoded) -> dict[str, float]:
    """The same of a text that has been decoded."""
    tags, same = _tags(gold), _same_tags(fit, gold)
    return tagging_report(
        tags if same is None else same[tags],
        decoded.states.numpy(),
        same_tags=same is not None,
        ambiguous=None if same is None else decoded.ambiguous,
        log_likelihood=float(decoded.log_likelihood.sum()),
    )


def relabelled(fit: Fit, gold: Corpus, how: str) -> Fit:
    """A copy whose states carry the names of the gold tags they go with; states without one keep their numbers."""
    tags, predicted = _tags(gold), decode(fit, gold).states.numpy()
    states = fit.weights["start"].shape[-1]
    mapping = relabel(tags, predicted, how=how, predicted_size=states)  # type: ignore[arg-type]
    new = copy(fit)
    assert gold.tagset is not None
    names = [str(k) if tag < 0 else gold.tagset[int(tag)] for k, tag in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new


def _tags(gold: Corpus) -> np.ndarray[Any, Any]:
    if gold.tags is None or gold.tagset is None:
        raise UnsupError("the gold corpus has no tags: read a tagged file")
    return gold.tags


def _same_tags(fit: Fit, gold: Corpus) -> np.ndarray[Any, Any] | None:
    """From gold tag numbers to the fit's, if the two go by the same names; None if its states are anonymous."""
    tags = getattr(fit.model, "tags", None)
    if tags is None or isinstance(tags, int) or gold.tagset is None:
        return None
    number = {name: k for k, name in enumerate(tags)}
    missing = [name for name in gold.tagset if name not in number]
    used = {gold.tagset[int(t)] for t in np.unique(gold.tags)} if gold.tags is not None else set()
    if used & set(missing):
        raise UnsupError(f"gold tag {sorted(used & set(missing))[0]!r} is not among the model's {len(number)} tags")
    return np.array([number.get(name, 0) for name in gold.tagset])
