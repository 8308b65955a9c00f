"""An aligner on text that it was not trained on: words that it never met, and words that it never met together.

Maximum likelihood gives those probability zero, and a pair of sentences may become impossible. Links are found with
every zero made a tiny weight. An unknown word then prefers an unknown word of the other language (a name, perhaps),
then the null word, and anything else only if nothing is left; two known words that never met are linked by none but
such need. Log-likelihoods are always those of the fit as it is.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ...data import Bitext, Corpus, Links
from ...data.forms import Forms
from ...distributions import Alignment
from ...distributions.alignment.grid import Grid
from ...distributions.tied import Tied, tied_again
from ...errors import UnsupError
from ...evaluate import above_threshold, competitive, link_rows, symmetrise
from ...evaluate.symmetrisation import Combine, Symmetrise
from ...handlers import bare
from ...models import Aligner
from ...models.pairs import Pairs
from ...results import Fit
from . import traced

Array = np.ndarray[Any, Any]

#: The log-weights of what training holds impossible: two unknown words, an unknown word and null, any other two words.
#: No product of weights above zero is likely to come near them.
UNKNOWN_BOTH, UNKNOWN_NULL, NEVER_MET = -1e6, -1.5e6, -2e6
#: Cells that are decoded at a time, to bound memory.
CHUNK = 1 << 21
#: The names that other models have for their ways to decode.
ALSO = {"viterbi": "intersection", "mbr": "threshold"}
WAYS = (*get_args(Symmetrise), "threshold", "competitive")


@dataclass(frozen=True)
class Decoded:
    """Links of a bitext.

    :param links: what was found.
    :param log_likelihood: (pairs,) of both directions together, under the fit as it is; -inf for an impossible pair.
    :param forward: (cells,) posterior probability that a target word chooses a source word: for each pair a table,
        source words down and target words across, null words left out.
    :param backward: (cells,) that a source word chooses a target word, in the same order.
    :param unseen: (source, target) tokens that the vocabularies of the fit do not have.
    """

    links: Links
    log_likelihood: Tensor
    forward: Tensor
    backward: Tensor
    unseen: tuple[int, int]

    @property
    def structure(self) -> Tensor:  # (links, 3)
        """Pair, source place and target place of each link, from 0."""
        return torch.from_numpy(self.links.rows).long()


def decode(
    fit: Fit, bitext: Bitext, how: str = "intersection", threshold: float = 0.5, combine: Combine = "mean"
) -> Decoded:
    """Align a bitext by a fit of an aligner.

    :param bitext: by any vocabularies; words are looked up in those of the fit, as it saw them in
        training (:class:`.Forms`).
    :param how: how the two directions are put together: ``"intersection"`` (or ``"viterbi"``), ``"union"`` and
        ``"grow-diag-final-and"`` of the best choices, or those of ``"forward"`` or ``"backward"`` alone
        (:func:`.symmetrise`); or by posterior probabilities: ``"threshold"`` (or ``"mbr"``), those above one
        (:func:`.above_threshold`), and ``"competitive"``, of those only the best of each word and what lies beside it
        (:func:`.competitive`).
    :param threshold: the least combined probability of a link.
    :param combine: how probabilities are combined.
    """
    how = ALSO.get(how, how)
    if how not in WAYS:
        raise UnsupError(f"how must be one of {', '.join(WAYS)}, actual {how!r}")
    model = bare(fit.model)
    if not isinstance(model, Aligner):
        raise UnsupError(f"expected the fit of an aligner, actual {model!r}")
    source, target = (_encode(fit, getattr(bitext, side), getattr(model, side)) for side in ("source", "target"))
    likelihood, probabilities, choices = [], [], []
    for some in _chunks(bitext):
        pairs = model.pairs_of(*_part(source, bitext.source, some), *_part(target, bitext.target, some))
        likelihood.append(_log_likelihood(fit, model, pairs))
        found = [one.posterior(value) for one, value in _floored(fit, model, pairs, source, target, bitext, some)]
        inner = _inner(pairs.grid)
        probabilities.append([one.marginals[inner].float() for one in found])
        choices.append([one.mode()[inner] == 1 for one in found])
    forward, backward = (torch.cat(x) for x in zip(*probabilities, strict=True))
    lengths = bitext.source.lengths, bitext.target.lengths
    if how == "threshold":
        chosen = above_threshold(forward, backward, threshold, combine)
    elif how == "competitive":
        chosen = competitive(forward, backward, *lengths, threshold, combine)
    else:
        one, other = (torch.cat(x).numpy() for x in zip(*choices, strict=True))
        chosen = symmetrise(one, other, *lengths, how)  # type: ignore[arg-type]
    links = Links(len(bitext), link_rows(chosen, *lengths))  # type: ignore[arg-type]
    return Decoded(links, torch.cat(likelihood), forward, backward, unseen(fit, bitext))


def unseen(fit: Fit, bitext: Bitext) -> tuple[int, int]:
    """How many source words and target words of a bitext the vocabularies of a fit do not have."""
    model: Any = bare(fit.model)
    source, target = (_encode(fit, getattr(bitext, side), getattr(model, side)) for side in ("source", "target"))
    return int((source == model.source_words).sum()), int((target == model.target_words).sum())


def _encode(fit: Fit, text: Corpus, known: Any) -> Array:  # (tokens,)
    """Words by the numbers of the fit; one more than the last where it does not have them."""
    if isinstance(known, int):
        return np.minimum(text.words, known).astype(np.int32)
    forms = Forms.of(fit.config).each(text.vocab)
    unknown = len(known) if known.unknown is None else known.index[known.unknown]
    numbers = np.array([known.index.get(one, unknown) for one in forms], dtype=np.int32)
    return numbers[text.words]


def _chunks(bitext: Bitext) -> list[slice]:
    """Runs of pairs that are not too large."""
    cells = np.cumsum((bitext.source.lengths + 1) * (bitext.target.lengths + 1))
    starts = np.unique(np.searchsorted(cells, np.arange(0, cells[-1] if len(cells) else 1, CHUNK)))
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(cells)], strict=True)]


def _part(words: Array, text: Corpus, some: slice) -> tuple[Tensor, Tensor]:
    first, last = text.offsets[some.start], text.offsets[some.stop]
    return torch.from_numpy(words[first:last]), torch.from_numpy(text.lengths[some])


def _directions(fit: Fit, model: Aligner, pairs: Pairs) -> list[tuple[Alignment, Tensor]]:
    """The two alignments that the model makes of these pairs, and what they observe."""
    trace = traced(fit, model, fit.weights, pairs)
    if "links" in trace.nodes:
        both, value = (trace.nodes["links"][key] for key in ("fn", "value"))
        return [(both.forward, value), (both.backward, value)]
    return [(trace.nodes[name]["fn"], trace.nodes[name]["value"]) for name in ("forward", "backward")]


def _log_likelihood(fit: Fit, model: Aligner, pairs: Pairs) -> Tensor:  # (pairs,)
    alone = copy(model)
    alone.agreement = None
    with torch.no_grad():
        return sum(one.log_prob(value).double() for one, value in _directions(fit, alone, pairs))  # type: ignore[return-value]


def _floored(
    fit: Fit, model: Aligner, pairs: Pairs, source: Array, target: Array, bitext: Bitext, some: slice
) -> list[tuple[Alignment, Tensor]]:
    """The same with weight wherever there is none."""
    found = []
    grid = pairs.grid
    row, column = grid.parts()
    down = grid.place[row]
    absent = pairs.cells < 0
    edge = (down == 0) | (column == 0)
    if bool(absent.any()):
        both = _unknown(source, model.source_words, bitext.source, some, grid.pair[row], down)
        both &= _unknown(target, model.target_words, bitext.target, some, grid.pair[row], column)
    ways = _directions(fit, model, pairs)
    for one, value in ways:
        weights = one.weights["translation"].double().clamp(min=NEVER_MET)
        size = weights.shape[-1]
        if bool(absent.any()):
            weights = torch.cat([weights, weights.new_tensor([UNKNOWN_BOTH, UNKNOWN_NULL, NEVER_MET])])
            kind = torch.where(edge, size + 1, torch.where(both, size, size + 2))
            value = torch.where(absent, kind, value.long())
        by_pair = {name: w.double().clamp(min=NEVER_MET) for name, w in one.weights.items() if name != "translation"}
        base = one.base if isinstance(one, Tied) else one
        found.append((base.with_weights({"translation": weights, **by_pair}), value))
    tied = tied_again([one for one, _ in ways], found)
    return [(one, value) for one, (_, value) in zip(tied, found, strict=True)]


def _unknown(words: Array, size: int, text: Corpus, some: slice, pair: Tensor, place: Tensor) -> Tensor:  # (cells,)
    """Whether the word of each cell, by its place from 1, is unknown."""
    at = torch.from_numpy(text.offsets[some.start : some.stop])[pair] + place - 1
    return (place > 0) & torch.from_numpy(words == size)[at.clamp(min=0)]


def _inner(grid: Grid) -> Tensor:  # (n,)
    """The cells of two words each, pair by pair, source words down and target words across."""
    ordered, where = grid.select(torch.arange(len(grid)))
    row, column = ordered.parts()
    return where[(ordered.place[row] > 0) & (column > 0)]
