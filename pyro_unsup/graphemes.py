"""What people take for one character."""

from __future__ import annotations

import regex

_CLUSTER = regex.compile(r"\X")


def graphemes(text: str) -> list[str]:
    """The grapheme clusters of a text (Unicode Standard Annex 29): a letter with its accents, an emoji with its parts.

    >>> from pyro_unsup.graphemes import graphemes
    >>> [len(one) for one in graphemes("e\\u0301a")]
    [2, 1]
    """
    return list(text) if text.isascii() and "\r" not in text else _CLUSTER.findall(text)
