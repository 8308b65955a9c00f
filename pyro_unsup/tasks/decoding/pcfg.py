"""A probabilistic context-free grammar on text that it was not trained on.

A new word is as unlikely under one preterminal as under another, so that the rest of the sentence decides. An
impossible sentence gets a tree that breaks as few rules as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ...data import Corpus
from ...distributions.cells import spans_of
from ...errors import UnsupError
from ...models.grammar import TreeGrammar
from ...models.sentences import Sentences
from ...results import Fit
from . import Decoded, check_how, find, traced
from .symbols import by_number

#: The name of all words that training never met.
NEW = "(new)"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LabelledTrees(Decoded):
    """Labelled trees of a text. The structure is (spans,) the label of each constituent, -1 for other spans, in the
    order of :func:`.spans_of`. Sentences of one word have no spans in it.

    :param names: of labels.
    """

    names: tuple[str, ...] = ()

    @cached_property
    def spans(self) -> tuple[Array, Array, Array]:
        """Sentence, start and end of every span of the structure."""
        assert self.lengths is not None
        sentence, start, end = spans_of(torch.where(self.lengths == 1, 0, self.lengths).cpu())
        return sentence.numpy(), start.numpy(), end.numpy()

    @cached_property
    def brackets(self) -> Array:  # (brackets, 3)
        """The constituents as rows of sentence, start and end, single words and whole sentences included."""
        return np.stack(self.spans, 1)[self.structure.cpu().numpy() >= 0]

    @cached_property
    def labels(self) -> list[str]:
        """The name of each bracket's label."""
        found = self.structure.cpu().numpy()
        return [self.names[k] for k in found[found >= 0].tolist()]


def decode(fit: Fit, text: Corpus | Sentences, how: str = "mbr") -> LabelledTrees:
    """Parse a text by a fit of a probabilistic context-free grammar.

    :param text: by any vocabulary. Its words are looked up in that of the fit, in lower case if the fit was trained so;
        or its tags are, if the fit's vocabulary knows more of those. Or sentences by the numbers of ``fit.model``.
    :param how: ``"mbr"``, the tree with the most expected right labelled brackets; or ``"viterbi"``, the most probable
        labelled tree.
    """
    check_how(how)
    if not isinstance(fit.model, TreeGrammar):
        raise UnsupError(f"expected the fit of a probabilistic context-free grammar, actual {fit.model!r}")
    model, weights = fit.model, fit.weights
    if isinstance(text, Sentences):
        words, lengths, unseen = text.words, text.offsets.diff(), 0
    else:
        numbers, unseen = by_number(fit, text)
        words, lengths = torch.from_numpy(numbers), torch.from_numpy(text.lengths)
        if numbers.max(initial=0) == model.symbols:
            names = model.symbols + 1 if isinstance(model.vocab, int) else [*model.vocab, NEW]  # type: ignore[misc]
            model, weights = type(model)(model.nonterminals, model.preterminals, names), with_unknown(weights)
    site = traced(fit, model, weights, words, lengths).nodes["words"]
    found = find(site["fn"], site["value"], how)
    return LabelledTrees(**found, unseen=unseen, lengths=lengths, names=model.labels)


def with_unknown(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tables with one more word, which no preterminal has."""
    return {**weights, "emission": pad(weights["emission"], (0, 1), value=-torch.inf)}
