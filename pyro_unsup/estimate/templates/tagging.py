"""Features of words, for taggers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from typing import Any, Literal

from ...errors import TableError
from ..features.template import Template, same

#: Characters of a shape that are looked at.
LONGEST_SHAPE = 8


def tagging(
    table: str = "emission",
    ngram: Literal["suffix", "any"] | None = "suffix",
    longest: int = 3,
    shape: bool = False,
    known: Collection[str] | None = None,
) -> list[Template]:
    """What a word looks like, with its tag: itself, whether it has a digit, a hyphen or an initial capital, and the
    character n-grams in it. Transitions are left as they are.

    :param table: with the axes ``tag`` and ``word``.
    :param ngram: those at the end of the word, or anywhere in it; None for none. (The paper says "present in" the word;
        suffixes induce better tags.)
    :param longest: the most characters in an n-gram.
    :param shape: also the kinds of characters that the word is written with (:func:`word_shape`).
    :param known: the words that have a feature for themselves, such as the frequent ones; by default all have.

    >>> import pyro_unsup as pu
    >>> [template.name for template in pu.templates.tagging()]
    ['basic', 'digit', 'hyphen', 'capital', 'suffix']
    """
    if ngram not in ("suffix", "any", None):
        raise TableError(f"ngram must be 'suffix', 'any' or None, actual {ngram!r:.80}")
    wanted = ["basic", "digit", "hyphen", "capital"]
    if ngram is not None:
        wanted.append("suffix" if ngram == "suffix" else "n-gram")
    if shape:
        wanted.append("shape")
    if isinstance(known, str):
        raise TableError(f"known must be a collection of words, actual the string {known!r:.80}")
    found = {name: word_function(name, longest) for name in wanted}
    if known is not None:
        some = frozenset(known)
        found["basic"] = lambda word: word if word in some else None
    return [Template(table, name, tag=same, word=one) for name, one in found.items() if one is not None]


def word_function(template: str, longest: int) -> Callable[[str], Any] | None:
    """What a template of :func:`tagging` looks at in a word; None if there is no template of this name.

    :param longest: the most characters in an n-gram.

    >>> from pyro_unsup.estimate.templates.tagging import word_function
    >>> word_function("suffix", 2)("dogs"), word_function("capital", 2)("dogs")
    (['s', 'gs'], False)
    """
    known: dict[str, Callable[[str], Any]] = {
        "basic": same,
        "digit": has_digit,
        "hyphen": has_hyphen,
        "capital": is_capital,
        "shape": word_shape,
        "suffix": lambda word: suffixes(word, longest),
        "n-gram": lambda word: ngrams(word, longest),
    }
    return known.get(template)


def has_digit(word: str) -> bool:
    """Whether there is a digit in it."""
    return any(letter.isdigit() for letter in word)


def has_hyphen(word: str) -> bool:
    """Whether there is a hyphen in it."""
    return "-" in word


def is_capital(word: str) -> bool:
    """Whether its first letter is a capital."""
    return word[:1].isupper()


def word_shape(word: str) -> str:
    """Which kinds of characters follow each other in it: X capitals, x other letters, 9 digits; others as they are.

    What repeats is written once. Long shapes are cut off: few words share them.

    >>> from pyro_unsup.estimate.templates.tagging import word_shape
    >>> [word_shape(word) for word in ("the", "Mr.", "IBM", "1980s", "10,000", "x-ray")]
    ['x', 'Xx.', 'X', '9x', '9,9', 'x-x']
    """
    kinds = ("9" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))[:LONGEST_SHAPE]


def suffixes(word: str, longest: int) -> list[str]:
    """Its last characters, one, two, ...

    >>> from pyro_unsup.estimate.templates.tagging import suffixes
    >>> suffixes("dogs", 3)
    ['s', 'gs', 'ogs']
    """
    return [word[-n:] for n in range(1, min(longest, len(word)) + 1)]


def ngrams(word: str, longest: int) -> list[str]:
    """All sequences of so many characters in it, each once.

    >>> from pyro_unsup.estimate.templates.tagging import ngrams
    >>> ngrams("noon", 2)
    ['n', 'o', 'no', 'oo', 'on']
    """
    found = (word[i : i + n] for n in range(1, longest + 1) for i in range(len(word) - n + 1))
    return list(dict.fromkeys(found))
