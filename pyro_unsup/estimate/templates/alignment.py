"""Features of pairs of words, for aligners."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

from ...array import Array
from ...errors import UnsupError
from ..features.template import Template, same


def alignment(
    table: str = "translation_forward",
    dictionary: Collection[tuple[str, str]] | None = None,
    stem: Callable[[str], str] | str | None = "porter",
    prefix: int | None = 4,
    characters: bool = True,
    edit_distance: bool = True,
) -> list[Template]:
    """What two words have in common: themselves; how many edits lie between them; whether a dictionary has the pair;
    the stem or prefix of the source word with the target word; the source word with the characters of the target word.

    Tables of both directions have them alike, by the axes ``source`` and ``target``; each has weights of its own. The
    null word, whose label is empty, has but itself.

    :param table: that the features are of.
    :param dictionary: pairs of a source and a target word; None for no such feature.
    :param stem: a stemmer for source words; ``"porter"`` is that of NLTK, which has to be installed; None for none.
    :param prefix: characters of a source word that are its prefix; None for no such feature.
    :param characters: a feature for each character of the target word: for scripts where characters have meanings.
    :param edit_distance: a feature for each Levenshtein distance: for languages that share words.

    >>> import pyro_unsup as pu
    >>> [template.name for template in pu.templates.alignment("t", stem=None)]
    ['basic t', 'prefix t', 'character t', 'edit distance t']
    """
    find = porter() if stem == "porter" else stem
    if isinstance(find, str):
        raise UnsupError(f"stem must be a function, 'porter' or None, actual {find!r:.80}")
    found = [Template(table, f"basic {table}", source=same, target=same)]
    if dictionary is not None:
        known = frozenset(dictionary)
        listed = Template(
            table, f"dictionary {table}", cells=lambda *pair: pair in known or None, axes=("source", "target")
        )
        found.append(listed)
    if find is not None:
        found.append(Template(table, f"stem {table}", source=_unless_null(find), target=same))
    if prefix is not None:
        cut = prefix
        found.append(Template(table, f"prefix {table}", source=_unless_null(lambda word: word[:cut]), target=same))
    if characters:
        found.append(Template(table, f"character {table}", source=same, target=_unless_null(set)))
    if edit_distance:
        axes = ("source", "target")
        found.append(Template(table, f"edit distance {table}", cells=edit_distances, axes=axes, vectorised=True))
    return found


def porter() -> Callable[[str], str]:
    """NLTK's Porter stemmer."""
    try:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnsupError(
            "the Porter stemmer is NLTK's: pip install nltk, or give another (stem=function) or none (stem=None)"
        ) from error
    stemmer = PorterStemmer()
    found: Callable[[str], str] = cache(stemmer.stem)
    return found


def edit_distances(source: Array, target: Array) -> list[int | None]:  # (n,), (n,) -> n
    """Levenshtein distances of pairs of words; None where one is empty, as the null word is.

    >>> import numpy as np
    >>> from pyro_unsup.estimate.templates.alignment import edit_distances
    >>> edit_distances(np.array(["house", "", "nation"]), np.array(["maison", "la", "nation"]))
    [5, None, 0]
    """
    from ...kernels.edit_distance import distances

    letters, starts, (left, right) = _spelled(source, target)
    found = distances(letters, starts, left, right).tolist()
    empty = np.diff(starts) == 0
    none = (empty[left] | empty[right]).tolist()
    return [None if gone else distance for gone, distance in zip(none, found, strict=True)]


def _spelled(*columns: Array) -> tuple[Array, Array, list[Array]]:
    """Every word once, as code points end to end; where each begins; and the columns as numbers of words."""
    known: dict[str, int] = {}
    numbers = [np.array([known.setdefault(word, len(known)) for word in column], np.int64) for column in columns]
    letters = np.array([ord(letter) for word in known for letter in word], np.int32)
    starts = np.concatenate([[0], np.cumsum([len(word) for word in known])]).astype(np.int64)
    return letters, starts, numbers


def _unless_null(function: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda word: function(word) if word else None
