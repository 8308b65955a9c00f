"""Sentences and pairs of sentences that are lists in Python, as the data that tasks decode."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Bitext, Corpus, Vocab
from ..models.sentences import as_symbols


def corpus_of(data: Any, known: Any) -> Any:
    """A corpus from a list of sentences: of words, or of their numbers in a vocabulary. All else stays what it is.

    :param known: the vocabulary, or its size.

    >>> import pyro_unsup as pu
    >>> from pyro_unsup.tasks.from_lists import corpus_of
    >>> known = pu.data.Vocab(["DET", "NOUN"])
    >>> corpus_of([[0, 1], [1]], known).sentence(0), corpus_of(["NOUN X"], known).sentence(0)
    (['DET', 'NOUN'], ['NOUN', 'X'])
    """
    if not isinstance(data, list | tuple):
        return data
    if data and all(isinstance(one, str) or _of_strings(one) for one in data):
        return Corpus.of(data)
    words, lengths = as_symbols(data, None, known)
    vocab = Vocab([str(k) for k in range(known)]) if isinstance(known, int) else known
    offsets = np.concatenate(([0], lengths.numpy().cumsum()))
    return Corpus(words.numpy().astype(np.int32), offsets, vocab)


def bitext_of(data: Any, model: Any) -> Any:
    """A bitext from a list of pairs of sentences; or from a tuple of source sentences and target sentences, as aligners
    take them. All else stays what it is."""
    if isinstance(data, tuple) and len(data) == 2:
        return Bitext(corpus_of(data[0], model.source), corpus_of(data[1], model.target))
    return Bitext.of(data) if isinstance(data, list) else data


def _of_strings(sentence: Any) -> bool:
    return isinstance(sentence, list | tuple) and len(sentence) > 0 and all(isinstance(one, str) for one in sentence)
