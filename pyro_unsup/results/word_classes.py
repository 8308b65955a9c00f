"""Classes of words, from a tagger."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import UnsupError
from ..models import Tagger
from ..models.sentences import as_flat
from .fit import Fit


def word_classes(fit: Fit, sentences: Any, lengths: Any = None) -> Tensor:  # (words,)
    """The class of every word of a vocabulary: the state of a tagger that it is expected to have most often.

    Words that do not occur in the sentences get the commonest class.

    :param fit: of a :class:`.Tagger`.
    :param sentences: where words occur: what the model accepts as data, such as those it has learned from.
    :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.

    >>> import pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(200, seed=1)
    >>> fit = pu.EM(pu.models.Tagger(tags=5, vocab=corpus.vocab)).run(corpus, iterations=20, progress=False)
    >>> classes = pu.word_classes(fit, corpus)
    >>> classes.shape == (len(corpus.vocab),), int(classes.max())
    (True, 4)
    """
    model = getattr(fit, "model", fit)
    if not isinstance(fit, Fit) or not isinstance(model, Tagger):
        raise UnsupError(
            f"classes of words need the fit of a tagger, actual {model!r:.80}: train one, and give it and its "
            "sentences, word_classes(fit, sentences)"
        )
    args = (sentences,) if lengths is None else (sentences, lengths)
    words, _ = as_flat(sentences, lengths, model.vocab)
    marginals = fit.posterior(*args).marginals  # (tokens, K)
    expected = marginals.new_zeros(model.words, marginals.shape[-1]).index_add_(0, words.long(), marginals)
    found, seen = expected.argmax(-1), expected.sum(-1) > 0
    if not bool(seen.any()):
        raise UnsupError("there are no words in these sentences: take those that the tagger learned from")
    return torch.where(seen, found, torch.bincount(found[seen]).argmax())
