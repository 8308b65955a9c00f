"""A constituent-context model on text that it was not trained on: symbols, yields and contexts that it never met.

Maximum likelihood gives those probability zero, as constituents and as distituents, and a sentence that has one is
impossible. Trees of impossible sentences are found with every zero made one and the same tiny weight. What training
never met then speaks neither for nor against a constituent, and the rest of the sentence decides; what it met only as
one of the two stays so, unless nothing else is left. Possible sentences keep their own weights, and log-likelihoods are
always those of the fit as it is. A fit that smooths has weights for the unknown, so all its sentences are possible.
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
from ...distributions.bracketing import Bracketing, constituents
from ...distributions.cells import spans_of
from ...distributions.posterior import Posterior
from ...errors import UnsupError
from ...evaluate import bits_per_word, bracket_scores
from ...handlers import given
from ...models import CCM
from ...models.inventory import Inventory
from ...models.spans import Spans
from ..fit import Fit
from . import FLOOR, check_how
from .symbols import by_number

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Decoded:
    """Trees of a text.

    :param structure: (spans,) 1 for a constituent and 0 for a distituent, in the order of :func:`.spans_of`.
    :param posterior: of those trees, for their probabilities.
    :param log_likelihood: (sentences,) under the fit as it is, -inf for an impossible sentence.
    :param lengths: (sentences,) words in each.
    :param unseen: words (or tags) that the fit's vocabulary does not have.
    """

    structure: Tensor
    posterior: Posterior
    log_likelihood: Tensor
    lengths: Tensor
    unseen: int

    @cached_property
    def brackets(self) -> Array:  # (brackets, 3)
        """The constituents as rows of sentence, start and end, single words and whole sentences included."""
        return constituents(self.structure, self.lengths).numpy()


def decode(fit: Fit, text: Corpus | Spans, how: str = "viterbi") -> Decoded:
    """Parse a text by a fit of a constituent-context model.

    :param text: by any vocabulary. Its words are looked up in that of the fit, in lower case if the fit was trained so;
        or its tags are, if the fit's vocabulary knows more of those. Or a text that ``fit.model`` has indexed.
    :param how: ``"viterbi"``, the most probable tree; or ``"mbr"``, the one with the most expected right constituents.
    """
    check_how(how)
    if not isinstance(fit.model, CCM):
        raise UnsupError(f"expected the fit of a constituent-context model, actual {fit.model!r}")
    spans, model, unseen = (text, fit.model, 0) if isinstance(text, Spans) else _index(fit, fit.model, text)
    site = poutine.trace(given(model, fit.weights)).get_trace(spans).nodes["spans"]
    bracketing, cells = site["fn"], site["value"]
    posterior = bracketing.posterior(cells)
    log_likelihood = posterior.log_partition.double()
    impossible = log_likelihood == -torch.inf
    if bool(impossible.any()):
        posterior = _floored(bracketing, cells, impossible)
    structure = posterior.mode() if how == "viterbi" else posterior.mbr()
    return Decoded(structure, posterior, log_likelihood, spans.lengths, unseen)


def scores(fit: Fit, gold: Corpus, decoded: Decoded) -> dict[str, float]:
    """``recall``, ``precision``, ``f1``, ``crossing`` and ``sentences`` of :func:`.bracket_scores`, without whole
    sentences; ``f1_klein_manning_2004`` with them, ``f1_klein_manning_2002`` averaged over sentences; ``bits_per_tag``.

    Fractions of 1, but for crossing brackets a sentence and for bits. Tags, yields and contexts that training never met
    make ``bits_per_tag`` infinite, unless the fit smooths. The model is deficient, so that bits compare fits of one
    variant on one text, and nothing else.
    """
    if not np.array_equal(gold.lengths, decoded.lengths.numpy()):
        raise UnsupError("the gold sentences are not as long as those that were parsed: score the same text")
    right = bracket_rows(gold)
    found = bracket_scores(right, decoded.brackets, gold.lengths)
    for variant in ("klein_manning_2004", "klein_manning_2002"):
        found[f"f1_{variant}"] = bracket_scores(right, decoded.brackets, gold.lengths, variant)["f1"]
    found["bits_per_tag"] = bits_per_word(float(decoded.log_likelihood.sum()), gold.tokens)
    return found


def _index(fit: Fit, model: CCM, text: Corpus) -> tuple[Spans, CCM, int]:
    """The text as the model sees it, the model (with one more symbol, if it needs one), and how much it never met."""
    words, unseen = by_number(fit, text)
    if words.max(initial=0) == model.symbols:
        model = with_unknown(model)
    return model.index(torch.from_numpy(words), torch.from_numpy(text.lengths)), model, unseen


def with_unknown(model: CCM) -> CCM:
    """The same model with a symbol more, of which it knows no yield and no context. Its tables are the same."""
    edge, known = model.symbols, model.inventory
    contexts = torch.where(known.contexts == edge, edge + 1, known.contexts)
    return CCM(edge + 1, Inventory(edge + 1, known.yields, contexts), model.variant, empty_spans=model.empty_spans)


def _floored(bracketing: Bracketing, cells: Tensor, impossible: Tensor) -> Posterior:
    """The posterior with no zeros in impossible sentences: those look their weights up in a second set of columns."""
    weights = {name: w.double() for name, w in bracketing.weights.items()}
    tables = [weights["yields"], weights["contexts"]]
    shift = impossible[spans_of(bracketing.lengths)[0]].unsqueeze(1) * torch.tensor([w.shape[-1] for w in tables])
    for name, w in zip(("yields", "contexts"), tables, strict=True):
        weights[name] = torch.cat([w, w.clamp(min=FLOOR)], -1)
    return bracketing.with_weights(weights).posterior(cells + shift)
