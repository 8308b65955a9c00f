"""Scoring a fit against gold labels. Each kind of structure has its own scores."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..data import Corpus
from ..distributions.chain_posterior import ChainPosterior
from ..errors import UnsupError
from ..evaluate import relabel, tagging_report
from .fit import Fit


def evaluate(fit: Fit, gold: Corpus, how: str = "viterbi") -> dict[str, float]:
    """Scores of a fit's predictions.

    For a tagger: ``many_to_one``, ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``, ``bits_per_word``; and,
    if its tags are the gold tags by name, ``accuracy`` and (with a dictionary) ``accuracy_ambiguous``. Fractions of 1.

    :param gold: a tagged corpus; its words are looked up in the vocabulary that the fit was trained on.
    """
    corpus, tags = _tagged(fit, gold)
    posterior = fit.posterior(corpus)
    if not isinstance(posterior, ChainPosterior):
        raise UnsupError(f"there are no scores for {type(posterior).__name__} yet")
    predicted = (posterior.mode() if how == "viterbi" else posterior.mbr()).numpy()
    same = _same_tags(fit, gold)
    return tagging_report(
        tags if same is None else same[tags],
        predicted,
        same_tags=same is not None,
        ambiguous=None if same is None else _ambiguous(fit, corpus),
        log_likelihood=float(posterior.log_partition.double().sum()),
    )


def relabelled(fit: Fit, gold: Corpus, how: str) -> Fit:
    """A copy whose states carry the names of the gold tags they go with; states without one keep their numbers."""
    corpus, tags = _tagged(fit, gold)
    states = fit.weights["start"].shape[-1]
    mapping = relabel(tags, fit.predict(corpus).numpy(), how=how, predicted_size=states)  # type: ignore[arg-type]
    new = copy(fit)
    assert gold.tagset is not None
    names = [str(k) if tag < 0 else gold.tagset[int(tag)] for k, tag in enumerate(mapping)]
    new.config = {**fit.config, "labels": names}
    return new


def _tagged(fit: Fit, gold: Corpus) -> tuple[Corpus, np.ndarray[Any, Any]]:
    if gold.tags is None or gold.tagset is None:
        raise UnsupError("the gold corpus has no tags: read a tagged file")
    vocab: Any = getattr(fit.model, "vocab", None)
    corpus = gold if vocab is None or isinstance(vocab, int) or vocab == gold.vocab else gold.with_vocab(vocab)
    return corpus, gold.tags


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


def _ambiguous(fit: Fit, corpus: Corpus) -> np.ndarray[Any, Any] | None:
    """Which tokens the dictionary leaves a choice for."""
    mask = fit.model.declarations()["emission"].layout.support  # type: ignore[attr-defined]
    return None if mask is None else (mask.sum(0) > 1).numpy()[corpus.words]
