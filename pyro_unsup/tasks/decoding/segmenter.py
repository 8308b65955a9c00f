"""A segmenter on text that it was not trained on: symbols and segments that it never met.

A sentence that needs one is segmented with two sorts of tiny weights: one for a new segment, and one for each of its
symbols. As little as possible is then unknown, and that in few pieces.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...data import Corpus
from ...data.segmented import Segmented
from ...distributions import Posterior, Segmentation
from ...errors import UnsupError
from ...models import Segmenter
from ...models.segment_types import Segments
from ...results import Fit
from . import FLOOR, Decoded, check_how, find, traced


def decode(fit: Fit, text: Segmented | Corpus | Segments, how: str = "viterbi") -> Decoded:
    """Segment a text by a fit of a segmenter. The structure is (symbols,) 1 where a segment ends, 0 inside one.

    :param text: by any vocabulary; its symbols are looked up in that of the fit, in lower case if the fit was trained
        so. Or a text that ``fit.model`` has indexed.
    :param how: ``"viterbi"``, the most probable segmentation; or ``"mbr"``, the one with the most expected right
        segments.
    """
    check_how(how)
    if not isinstance(fit.model, Segmenter):
        raise UnsupError(f"expected the fit of a segmenter, actual {fit.model!r}")
    segments, unseen = (text, 0) if isinstance(text, Segments) else _index(fit, fit.model, text)
    site = traced(fit, fit.model, fit.weights, segments).nodes["symbols"]
    return Decoded(**find(site["fn"], site["value"], how, _floored), unseen=unseen)


def _index(fit: Fit, model: Segmenter, text: Segmented | Corpus) -> tuple[Segments, int]:
    """The text as the model sees it, and how many of its symbols it never met."""
    if isinstance(model.vocab, int):  # symbols are but numbers
        words = np.minimum(text.words, model.symbols)
    elif text.vocab is model.vocab:
        return model.index(text), 0
    else:
        number = {name: k for k, name in enumerate(model.vocab)}  # type: ignore[arg-type, var-annotated]
        names = [one.lower() for one in text.vocab] if fit.config.get("lowercase") is True else list(text.vocab)
        words = np.array([number.get(name, model.symbols) for name in names], np.int64)[text.words]
    unseen = int((words == model.symbols).sum())
    lengths = torch.from_numpy(np.asarray(text.lengths))
    return model.types.find(torch.from_numpy(words), lengths, model.max_length), unseen


def _floored(segmentation: Segmentation, cells: Tensor, impossible: Tensor) -> Posterior:
    """The posterior with no zeros. Every segment has a weight of its own, for the tiny ones go by the length."""
    weights = {name: w.double() for name, w in segmentation.weights.items()}
    tiny = FLOOR * torch.arange(2.0, cells.shape[1] + 2, dtype=torch.float64)  # of a segment and its symbols
    weights["segments"] = torch.maximum(weights["segments"][cells.long().clamp(min=0)], tiny).reshape(-1)
    weights["stop"] = weights["stop"].clamp(min=FLOOR)
    own = torch.arange(cells.numel(), dtype=torch.int32).reshape(cells.shape)
    return segmentation.with_weights(weights).posterior(torch.where(cells >= 0, own, -1))
