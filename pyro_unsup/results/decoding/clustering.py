"""A clusterer on documents that it was not trained on: words that it never met, and documents that it holds impossible.

Words outside the vocabulary are no part of a document, as those that were filtered out of the training text were not
(unless the vocabulary has an unknown symbol, which then stands for them). A document that maximum likelihood gives
probability zero still wants a cluster: every zero that training left in ``words`` becomes one and the same tiny weight,
so that it gets the cluster that lacks fewest of its words. Log-likelihoods are never taken from those.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data import Documents, Vocab
from ...distributions.posterior import Posterior
from ...errors import UnsupError
from ...evaluate import clustering_report
from ...models import Clusterer
from ..fit import Fit
from . import FLOOR, check_how


@dataclass(frozen=True)
class Decoded:
    """Clusters of documents.

    :param structure: (documents,) clusters.
    :param posterior: of those clusters, for their probabilities.
    :param log_likelihood: (documents,) of the words in the vocabulary, under the fit as it is; -inf if impossible.
    :param tokens: words that the log-likelihood is of.
    :param unseen: words that the fit's vocabulary does not have.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    tokens: int
    unseen: int


def decode(fit: Fit, documents: Any, how: str = "viterbi") -> Decoded:
    """The cluster of each document by a fit of a clusterer.

    :param documents: by any vocabulary (their words are looked up in that of the fit, in lower case if it was trained
        so); or word numbers, as the model takes them.
    :param how: ``"viterbi"`` or ``"mbr"``, which are the same for one cluster a document.
    """
    check_how(how)
    if not isinstance(fit.model, Clusterer):
        raise UnsupError(f"expected the fit of a clusterer, actual {fit.model!r}")
    documents, unseen = _encoded(fit, documents)
    bags = fit.model.index(documents)
    posterior = fit.posterior(bags)
    log_likelihood = posterior.log_partition.double()
    if bool((log_likelihood == -torch.inf).any()):
        floored = copy(fit)
        floored.weights = {**fit.weights, "words": fit.weights["words"].double().clamp(min=FLOOR)}
        floored.weights["cluster"] = fit.weights["cluster"].double()
        posterior = floored.posterior(bags)
    return Decoded(posterior.mode(), posterior, log_likelihood, int(bags.cells[:, 1].sum()), unseen)


def scores(fit: Fit, gold: Documents, decoded: Decoded) -> dict[str, float]:
    """``accuracy`` (many-to-one), ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``, ``loglik_per_token``.

    Fractions of 1, bits, and natural logarithms. Words outside the vocabulary do not count as tokens.
    """
    return clustering_report(
        gold_labels(gold),
        decoded.structure,
        log_likelihood=float(decoded.log_likelihood.sum()),
        tokens=decoded.tokens,
    )


def gold_labels(gold: Documents) -> np.ndarray[Any, Any]:
    """The labels of gold documents, (documents,); an error where there are none."""
    labels = getattr(gold, "labels", None)
    if labels is None:
        raise UnsupError("the gold documents have no labels: read a labelled file")
    found: np.ndarray[Any, Any] = labels
    return found


def _encoded(fit: Fit, documents: Any) -> tuple[Any, int]:
    """The documents by the vocabulary of the fit, and how many of their words it does not have."""
    known, text = fit.model.vocab, getattr(documents, "vocab", None)  # type: ignore[attr-defined]
    if not (isinstance(known, Vocab) and isinstance(text, Vocab)):  # words are but numbers
        return documents, 0
    if not isinstance(documents, Documents):  # a corpus of sentences
        documents = Documents.count(documents.words, documents.offsets, text)
    lower = fit.config.get("lowercase") is True
    forms = [one.lower() for one in text] if lower else text.types
    missing = np.array([one not in known for one in forms], dtype=np.bool_)
    return documents.with_vocab(known, lower), int(documents.counts[missing[documents.words]].sum())
