"""A constituent-context model on text that it was not trained on: symbols, yields and contexts that it never met.

What training never met speaks neither for nor against a constituent, and the rest of the sentence decides; what it met
only as one of the two stays so, unless nothing else is left. A fit that smooths has weights for the unknown, so all its
sentences are possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data import Corpus
from ...distributions import Posterior
from ...distributions.bracketing import Bracketing, constituents
from ...distributions.cells import spans_of
from ...errors import UnsupError
from ...models import CCM
from ...models.inventory import Inventory
from ...models.spans import Spans
from ...results import Fit
from . import FLOOR, Decoded, check_how, find, traced
from .symbols import by_number

#: The name of all symbols that training never met. Rules go by names.
NEW = "(new)"


@dataclass(frozen=True)
class Trees(Decoded):
    """Trees of a text. The structure is (spans,) 1 for a constituent, in the order of :func:`.spans_of`."""

    @cached_property
    def brackets(self) -> np.ndarray[Any, Any]:  # (brackets, 3)
        """The constituents as rows of sentence, start and end, single words and whole sentences included."""
        assert self.lengths is not None
        return constituents(self.structure, self.lengths).numpy()


def decode(fit: Fit, text: Corpus | Spans, how: str = "viterbi") -> Trees:
    """Parse a text by a fit of a constituent-context model.

    :param text: by any vocabulary. Its words are looked up in that of the fit, in lower case if the fit was trained so;
        or its tags are, if the fit's vocabulary knows more of those. Or a text that ``fit.model`` has indexed.
    :param how: ``"viterbi"``, the most probable tree; or ``"mbr"``, the one with the most expected right constituents.
    """
    check_how(how)
    if not isinstance(fit.model, CCM):
        raise UnsupError(f"expected the fit of a constituent-context model, actual {fit.model!r}")
    model, unseen = fit.model, 0
    if isinstance(text, Spans):
        spans = text
    else:
        words, unseen = by_number(fit, text)
        if words.max(initial=0) == model.symbols:
            model = with_unknown(model)
        spans = model.index(torch.from_numpy(words), torch.from_numpy(text.lengths))
    site = traced(fit, model, fit.weights, spans).nodes["spans"]
    return Trees(**find(site["fn"], site["value"], how, _floored), unseen=unseen, lengths=spans.lengths)


def with_unknown(model: CCM) -> CCM:
    """The same model with one more symbol, of which it knows no yield and no context. Its tables are the same."""
    edge, known = model.symbols, model.inventory
    contexts = torch.where(known.contexts == edge, edge + 1, known.contexts)
    names: Any = edge + 1 if isinstance(model.vocab, int) else [*model.vocab, NEW]  # type: ignore[misc]
    return CCM(names, Inventory(edge + 1, known.yields, contexts), model.variant, empty_spans=model.empty_spans)


def _floored(bracketing: Bracketing, cells: Tensor, impossible: Tensor) -> Posterior:
    """The posterior with no zeros in impossible sentences: those look their weights up in a second set of columns."""
    weights = {name: w.double() for name, w in bracketing.weights.items()}
    tables = [weights["yields"], weights["contexts"]]
    shift = impossible[spans_of(bracketing.lengths)[0]].unsqueeze(1) * torch.tensor([w.shape[-1] for w in tables])
    for name, w in zip(("yields", "contexts"), tables, strict=True):
        weights[name] = torch.cat([w, w.clamp(min=FLOOR)], -1)
    return bracketing.with_weights(weights).posterior(cells + shift)
