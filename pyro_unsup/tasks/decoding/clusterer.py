"""A clusterer on documents that it was not trained on: words that it never met, and documents that it holds impossible.

Words outside the vocabulary are no part of a document, as those that were filtered out of the training text were not
(unless the vocabulary has an unknown symbol, which then stands for them). An impossible document gets the cluster that
lacks fewest of its words.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...data import Documents, Vocab
from ...errors import UnsupError
from ...models import Clusterer
from ...results import Fit
from . import FLOOR, Decoded, check_how


@dataclass(frozen=True)
class Clusters(Decoded):
    """Clusters of documents. The structure is (documents,) clusters.

    :param tokens: words that the log-likelihood is of.
    """

    tokens: int = 0


def decode(fit: Fit, documents: Any, how: str = "viterbi") -> Clusters:
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
    return Clusters(posterior.mode(), posterior, log_likelihood, unseen, tokens=int(bags.cells[:, 1].sum()))


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
