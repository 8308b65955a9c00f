"""A dependency model with valence on text that it was not trained on: tags that it never met, and sentences that it
holds impossible.

Maximum likelihood gives both probability zero. They still want trees, so decoding makes every zero one and the same
tiny weight. A new tag then is as unlikely under one head as under another, and decides about its own dependents as all
tags do on average: the rest of the sentence decides. An impossible sentence gets a tree that breaks as few rules as
possible. Sentences that are possible are not touched by this, and log-likelihoods are never taken from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from pyro import poutine
from torch import Tensor
from torch.nn.functional import pad

from ...data import Corpus
from ...distributions.posterior import Posterior
from ...errors import InputError, UnsupError
from ...evaluate import head_scores
from ...handlers import given
from ...models import DMV
from ...models.sentences import Sentences
from ..fit import Fit
from . import FLOOR, check_how
from .symbols import by_number


@dataclass(frozen=True)
class Decoded:
    """Dependency trees of a text.

    :param structure: (tokens,) heads: 0 for the root, k for the k-th word of the same sentence.
    :param posterior: of those trees, for the probabilities of arcs.
    :param log_likelihood: (sentences,) under the fit as it is, -inf for an impossible sentence.
    :param lengths: (sentences,) words in each.
    :param unseen: words (or tags) that the fit's vocabulary does not have.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    lengths: Tensor
    unseen: int


def decode(fit: Fit, text: Corpus | Sentences, how: str = "mbr") -> Decoded:
    """Parse a text by a fit of a dependency model with valence.

    :param text: by any vocabulary. Its words are looked up in that of the fit, in lower case if the fit was trained so;
        or its tags are, if the fit's vocabulary knows more of those. Or sentences by the numbers of ``fit.model``.
    :param how: ``"mbr"``, the tree with the most expected right heads; or ``"viterbi"``, the most probable one.
    """
    check_how(how)
    if not isinstance(fit.model, DMV):
        raise UnsupError(f"expected the fit of a dependency model with valence, actual {fit.model!r}")
    model, weights = fit.model, fit.weights
    if isinstance(text, Sentences):
        words, lengths, unseen = text.words, text.offsets.diff(), 0
    else:
        numbers, unseen = by_number(fit, text)
        words, lengths = torch.from_numpy(numbers), torch.from_numpy(text.lengths)
        if numbers.max(initial=0) == model.symbols:
            model, weights = DMV(model.symbols + 1), with_unknown(weights)
    site = poutine.trace(given(model, weights)).get_trace(words, lengths).nodes["tags"]
    dependency, tags = site["fn"], site["value"]
    posterior = dependency.posterior(tags)
    log_likelihood = posterior.log_partition.double()
    if bool((log_likelihood == -torch.inf).any()):
        tables = {name: w.double().clamp(min=FLOOR) for name, w in dependency.weights.items()}
        posterior = dependency.with_weights(tables).posterior(tags)
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, log_likelihood, lengths, unseen)


def scores(fit: Fit, gold: Corpus, decoded: Decoded) -> dict[str, float]:
    """``directed``, ``undirected``, ``ned``, ``sentences`` and ``words`` of :func:`.head_scores`, the root's word
    counted; ``loglik_per_token``, the log-likelihood by the number of words.

    Fractions of 1, but for the log-likelihood, in nats. Tags that training never met make it infinite.
    """
    if gold.heads is None:
        raise InputError("this corpus has no heads; read it from a dependency treebank (read_conllu)")
    if not np.array_equal(gold.lengths, decoded.lengths.numpy()):
        raise UnsupError("the gold sentences are not as long as those that were parsed: score the same text")
    found = head_scores(gold.heads, decoded.structure, gold.lengths)
    found["loglik_per_token"] = float(decoded.log_likelihood.sum()) / gold.tokens
    return found


def with_unknown(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tables with a tag more: nobody's child, and as a head the mean of all."""
    found = {"root": pad(weights["root"], (0, 1), value=-torch.inf), "stop": weights["stop"]}
    found["attach"] = pad(weights["attach"], (0, 1), value=-torch.inf)
    for name in ("attach", "stop"):
        mean = found[name].logsumexp(0, keepdim=True) - math.log(len(found[name]))
        found[name] = torch.cat([found[name], mean])
    return {**weights, **found}
