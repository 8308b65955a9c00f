"""Whether samples are of a text: labels belong to the words that they were drawn for, and to no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..data import Bitext, Corpus, Documents
from ..errors import InputError, StructureError
from ..models import Aligner, Segmenter

if TYPE_CHECKING:
    from .samples import Samples


def same_text(samples: Samples, text: Any) -> bool:
    """Whether the samples are of this text, which may have a vocabulary of its own.

    :param text: a corpus, documents, or a segmented text.
    """
    if isinstance(samples.model, Aligner):
        return _same_pairs(samples, text)
    model, vocab, offsets = samples.model, samples.model.vocab, text.offsets
    lowercase = samples.config.get("lowercase") is True
    renumber = not isinstance(vocab, int) and (lowercase or list(vocab) != list(text.vocab))
    if isinstance(text, Documents):
        text = text.with_vocab(vocab, lowercase) if renumber else text
        return _equal(samples, words=text.words, times=text.counts, offsets=text.offsets)
    words = text.words
    if renumber:
        unknown = -1 if vocab.unknown is None else vocab.index[vocab.unknown]
        forms = [form.lower() for form in text.vocab] if lowercase else text.vocab
        words = np.array([vocab.index.get(form, unknown) for form in forms], words.dtype)[words]
    if not isinstance(model, Segmenter):
        return _equal(samples, words=words, offsets=offsets)
    if len(words) and not 0 <= words.min() <= words.max() < model.symbols:
        return False
    cells = model.types.find(torch.from_numpy(words), torch.from_numpy(np.diff(offsets)), model.max_length).cells
    return _equal(samples, cells=cells, offsets=offsets)


def _same_pairs(samples: Samples, text: Any) -> bool:
    model = samples.model
    try:
        if isinstance(text, Bitext):
            text = Bitext(_numbered(text.source, model.source), _numbered(text.target, model.target))
        state = model.gibbs_state()(model, text)
    except (InputError, StructureError):  # words that the model never met
        return False
    return _equal(samples, **state.data)


def _numbered(text: Corpus, vocab: Any) -> Corpus:
    return text if isinstance(vocab, int) or list(vocab) == list(text.vocab) else text.with_vocab(vocab)


def _equal(samples: Samples, **found: Any) -> bool:
    return all(np.array_equal(x, found.get(name)) for name, x in samples.data.items())  # type: ignore[arg-type]
