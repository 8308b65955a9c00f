"""A product of dependency and constituent-context model on text that it was not trained on.

What training never met is treated as by each of the two (:mod:`.dmv`, :mod:`.ccm`). Heads and brackets are of one tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ...data import Corpus
from ...distributions.bracketing import constituents
from ...distributions.headed_bracketing import brackets_of
from ...errors import UnsupError
from ...models import DMVCCM
from ...models.dmv_ccm import TagsAndSpans
from ...results import Fit
from . import Decoded, ccm, check_how, dmv, find, traced
from .symbols import by_number


@dataclass(frozen=True)
class HeadedTrees(Decoded):
    """Headed trees of a text. The structure is (tokens,) heads: 0 for the root, k for the k-th word of the sentence.

    :param order: the side on which heads take their children first.
    """

    order: str = "right"

    @cached_property
    def brackets(self) -> np.ndarray[Any, Any]:  # (brackets, 3)
        """The constituents as rows of sentence, start and end, single words and whole sentences included."""
        assert self.lengths is not None
        return constituents(brackets_of(self.structure, self.lengths, self.order), self.lengths).numpy()


def decode(fit: Fit, text: Corpus | TagsAndSpans, how: str = "mbr") -> HeadedTrees:
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
            spans, weights = ccm.with_unknown(model.ccm), dmv.with_unknown(weights)
            model = DMVCCM(
                spans.vocab, spans.inventory, spans.variant, empty_spans=spans.empty_spans, order=model.order
            )
        text = model.index(torch.from_numpy(words), torch.from_numpy(text.lengths))
    site = traced(fit, model, weights, text).nodes["tags"]
    found = find(site["fn"], site["value"], how)
    return HeadedTrees(**found, unseen=unseen, lengths=text.spans.lengths, order=model.order)
