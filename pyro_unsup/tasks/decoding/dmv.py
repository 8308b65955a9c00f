"""A dependency model with valence on text that it was not trained on.

A new tag is as unlikely under one head as under another. As a head it has the average weights of all tags. An
impossible sentence gets a tree that breaks as few rules as possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...data import Corpus
from ...errors import UnsupError
from ...models import DMV
from ...models.sentences import Sentences
from ...results import Fit
from . import Decoded, check_how, find, traced
from .symbols import by_number

#: The name of all tags that training never met.
NEW = "(new)"


def decode(fit: Fit, text: Corpus | Sentences, how: str = "mbr") -> Decoded:
    """Parse a text by a fit of a dependency model with valence. The structure is (tokens,) heads: 0 for the root, k for
    the k-th word of the same sentence.

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
            names = model.symbols + 1 if isinstance(model.tags, int) else [*model.tags, NEW]  # type: ignore[misc]
            model, weights = DMV(names, valence=model.valence), with_unknown(weights)
    site = traced(fit, model, weights, words, lengths).nodes["tags"]
    return Decoded(**find(site["fn"], site["value"], how), unseen=unseen, lengths=lengths)


def with_unknown(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tables with one more tag: it is never attached, and as a head it has the average weights."""
    found = {"root": pad(weights["root"], (0, 1), value=-torch.inf), "stop": weights["stop"]}
    found["attach"] = pad(weights["attach"], (0, 1), value=-torch.inf)
    for name in ("attach", "stop"):
        mean = found[name].logsumexp(0, keepdim=True) - math.log(len(found[name]))
        found[name] = torch.cat([found[name], mean])
    return {**weights, **found}
