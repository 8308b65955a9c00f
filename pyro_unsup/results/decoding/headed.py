"""A product of dependency and constituent-context model on text that it was not trained on.

What training never met is treated as by each of the two (:mod:`.dependencies`, :mod:`.parsing`): where it makes a
sentence impossible, every zero becomes one and the same tiny weight, and the rest of the sentence decides. Heads and
brackets are of one tree. Log-likelihoods are always those of the fit as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from ...data import Corpus, bracket_rows
from ...distributions.bracketing import constituents
from ...distributions.headed_bracketing import brackets_of
from ...distributions.posterior import Posterior
from ...errors import InputError, UnsupError
from ...evaluate import bracket_scores, head_scores
from ...handlers import given
from ...models import DMVCCM
from ...models.dmv_ccm import TagsAndSpans
from ..fit import Fit
from . import FLOOR, check_how, dependencies, parsing
from .symbols import by_number

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Decoded:
    """Headed trees of a text.

    :param structure: (tokens,) heads: 0 for the root, k for the k-th word of the same sentence.
    :param posterior: of those trees, for the probabilities of arcs and spans.
    :param log_likelihood: (sentences,) under the fit as it is, -inf for an impossible sentence.
    :param lengths: (sentences,) words in each.
    :param unseen: words (or tags) that the fit's vocabulary does not have.
    :param order: the side on which heads take their children first.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    lengths: Tensor
    unseen: int
    order: str

    @cached_property
    def brackets(self) -> Array:  # (brackets, 3)
        """The constituents as rows of sentence, start and end, single words and whole sentences included."""
        return constituents(brackets_of(self.structure, self.lengths, self.order), self.lengths).numpy()


def decode(fit: Fit, text: Corpus | TagsAndSpans, how: str = "mbr") -> Decoded:
    """Parse a text by a fit of the product model.

    :param text: by any vocabulary. Its words are looked up in that of the fit, in lower case if the fit was trained so;
        or its tags are, if the fit's vocabulary knows more of those. Or a text that ``fit.model`` has indexed.
    :param how: ``"mbr"``, the tree with the most expected right heads; or ``"viterbi"``, the most probable one.
    """
    check_how(how)
    if not isinstance(fit.model, DMVCCM):
        raise UnsupError(f"expected the fit of a product of DMV and CCM, actual {fit.model!r}")
    model, weights, unseen = fit.model, dict(fit.weights), 0
    if not isinstance(text, TagsAndSpans):
        words, unseen = by_number(fit, text)
        if words.max(initial=0) == model.symbols:
            ccm, weights = parsing.with_unknown(model.ccm), dependencies.with_unknown(weights)
            model = DMVCCM(ccm.vocab, ccm.inventory, ccm.variant, empty_spans=ccm.empty_spans, order=model.order)
        text = model.index(torch.from_numpy(words), torch.from_numpy(text.lengths))
    site = poutine.trace(given(model, weights)).get_trace(text).nodes["tags"]
    trees, tags = site["fn"], site["value"]
    posterior = trees.posterior(tags)
    log_likelihood = posterior.log_partition.double()
    if bool((log_likelihood == -torch.inf).any()):
        posterior = trees.with_weights({
            name: w.double().clamp(min=FLOOR) for name, w in trees.weights.items()
        }).posterior(tags)  # fmt: skip
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, log_likelihood, text.spans.lengths, unseen, model.order)


def scores(fit: Fit, gold: Corpus, decoded: Decoded) -> dict[str, float]:
    """What the gold text has of these: ``directed``, ``undirected``, ``ned`` and ``words`` of :func:`.head_scores`, the
    root's word counted; ``recall``, ``precision``, ``f1`` and ``crossing`` of :func:`.bracket_scores`, without whole
    sentences, and ``f1_klein_manning_2004`` with them. And ``sentences`` and ``loglik_per_token``.

    Fractions of 1, but for crossing brackets a sentence and for the log-likelihood, in nats. The model is deficient, so
    that it compares fits of one variant on one text, and nothing else.
    """
    if gold.heads is None and gold.spans is None:
        raise InputError("this corpus has neither heads nor brackets; read it from a treebank")
    if not np.array_equal(gold.lengths, decoded.lengths.numpy()):
        raise UnsupError("the gold sentences are not as long as those that were parsed: score the same text")
    found: dict[str, float] = {}
    if gold.heads is not None:
        found |= head_scores(gold.heads, decoded.structure, gold.lengths)
    if gold.spans is not None:
        right = bracket_rows(gold)
        found = {**bracket_scores(right, decoded.brackets, gold.lengths), **found}
        whole = bracket_scores(right, decoded.brackets, gold.lengths, "klein_manning_2004")
        found["f1_klein_manning_2004"] = whole["f1"]
    found["loglik_per_token"] = float(decoded.log_likelihood.sum()) / gold.tokens
    return found
