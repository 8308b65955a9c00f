"""Decoded structure as columns of a table: what :meth:`.Fit.to_frame` is made of.

Sentences, pairs and documents are numbered from 0, as in a corpus. Positions in a sentence are numbered from 1, so that
a head is the position of a word, and 0 is the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UnsupError

if TYPE_CHECKING:
    from ..data import Bitext, Corpus

Array = np.ndarray[Any, Any]
Columns = dict[str, Any]


def tokens(data: Corpus, unit: str = "word") -> Columns:
    """A row a token: its sentence, its position and the token itself.

    >>> from pyro_unsup.data import Corpus
    >>> from pyro_unsup.tasks.frames import tokens
    >>> {name: column.tolist() for name, column in tokens(Corpus.of(["a b", "b"])).items()}
    {'sentence': [0, 0, 1], 'position': [1, 2, 1], 'word': ['a', 'b', 'b']}
    """
    check(data)
    sentence = np.repeat(np.arange(len(data)), data.lengths)
    position = np.arange(data.tokens) - np.asarray(data.offsets)[sentence] + 1
    return {"sentence": sentence, "position": position, unit: words_of(data)}


def check(data: Any) -> None:
    """Refuse data that have no words."""
    if not hasattr(data, "vocab"):
        kinds = "a Corpus, Documents, a Bitext or a segmented text"
        raise UnsupError(f"a table needs data with a vocabulary, such as {kinds}; actual {type(data).__name__}")


def words_of(data: Corpus) -> Array:  # (tokens,)
    """The words of a text, as strings."""
    return np.array(list(data.vocab), dtype=object)[data.words]


def named(states: Array, names: Sequence[str] | None) -> Array:
    """States by their names, or by their numbers if they have none."""
    return states if names is None else np.array(list(names), dtype=object)[states]


def states(decoded: Any) -> tuple[Array, Array]:
    """The state of each item, and its posterior probability."""
    chosen = decoded.structure.long()
    found = decoded.posterior.marginals.gather(1, chosen[:, None])[:, 0].clamp(0, 1)
    return chosen.cpu().numpy(), found.double().cpu().numpy()


def heads(data: Corpus, decoded: Any) -> Columns:
    """A row a word: its head, and the posterior probability of that."""
    columns, found = tokens(data), decoded.structure.long().cpu().numpy()
    size = np.repeat(data.lengths + 1, data.lengths)  # cells of each word: the root, and all words of the sentence
    at = np.cumsum(size) - size + found
    return {**columns, "head": found, "probability": _at(decoded.posterior.marginals, at)}


def constituents(data: Corpus, decoded: Any) -> Columns:
    """A row a constituent of two words or more: its first and last position, its words and its probability."""
    from ..distributions.cells import spans_of

    check(data)
    sentence, start, end = (x.numpy() for x in spans_of(decoded.lengths.cpu()))
    at = np.flatnonzero((decoded.structure.cpu().numpy() == 1) & (end - start > 1))
    at = at[np.lexsort((-end[at], start[at], sentence[at]))]  # from left to right, the wider first
    sentence, start, end = sentence[at], start[at], end[at]
    words, first = words_of(data), np.asarray(data.offsets)[sentence]
    inside = [" ".join(words[a:b]) for a, b in zip((first + start).tolist(), (first + end).tolist(), strict=True)]
    found = {"sentence": sentence, "first": start + 1, "last": end, "words": np.array(inside, dtype=object)}
    return {**found, "probability": _at(decoded.posterior.marginals, at)}


def labelled_constituents(data: Corpus, decoded: Any) -> Columns:
    """A row a constituent of two words or more: its first and last position, its words, label and probability."""
    check(data)
    found, (sentence, start, end) = decoded.structure.cpu().numpy(), decoded.spans
    at = np.flatnonzero((found >= 0) & (end - start > 1))
    at = at[np.lexsort((-end[at], start[at], sentence[at]))]  # from left to right, the wider first
    sentence, start, end, label = sentence[at], start[at], end[at], found[at]
    words, first = words_of(data), np.asarray(data.offsets)[sentence]
    inside = [" ".join(words[a:b]) for a, b in zip((first + start).tolist(), (first + end).tolist(), strict=True)]
    names = np.array([decoded.names[k] for k in label.tolist()], dtype=object)
    columns = {"sentence": sentence, "first": start + 1, "last": end, "words": np.array(inside, dtype=object)}
    shape = decoded.posterior.marginals.shape[-1]
    return {**columns, "label": names, "probability": _at(decoded.posterior.marginals.reshape(-1), at * shape + label)}


def segments(data: Any, decoded: Any) -> Columns:
    """A row a symbol: whether a segment ends there, and the posterior probability of that answer."""
    ends = decoded.structure.cpu().numpy() == 1
    yes = decoded.posterior.marginals.sum(-1).clamp(0, 1).double().cpu().numpy()
    return {**tokens(data, "symbol"), "end": ends, "probability": np.where(ends, yes, 1 - yes)}


def links(data: Bitext, decoded: Any) -> Columns:
    """A row a link: the two words, and the posterior probability of the link in each direction and on average."""
    source, target = data.source, data.target
    pair, i, j = decoded.structure.cpu().numpy().T
    cells = source.lengths * target.lengths
    at = (np.cumsum(cells) - cells)[pair] + i * target.lengths[pair] + j
    forward, backward = _at(decoded.forward, at), _at(decoded.backward, at)
    return {
        "sentence": pair,
        "source_position": i + 1,
        "target_position": j + 1,
        "source_word": words_of(source)[np.asarray(source.offsets)[pair] + i],
        "target_word": words_of(target)[np.asarray(target.offsets)[pair] + j],
        "forward": forward,
        "backward": backward,
        "probability": (forward + backward) / 2,
    }


def _at(probabilities: Any, at: Array) -> Array:
    return np.asarray(probabilities.double().cpu().numpy()[at].clip(0, 1))
