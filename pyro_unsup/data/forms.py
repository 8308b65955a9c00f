"""What a model sees of words: their case, accents, digits and endings may be left out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyro_unsup.errors import InputError

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Forms:
    """How words look to a model. The text itself stays as it is.

    Words that look alike are one word, so that a small text says more about each of them. For alignment the first five
    or six letters are often enough: most endings only say what the other language says in another way.

    :param lowercase: fold words to lower case.
    :param strip_accents: leave accents out: ``é`` is ``e``, ``ñ`` is ``n``.
    :param numbers: every digit is ``0``, so that numbers of the same length are one word.
    :param prefix: keep so many characters of each word, the first ones; all of them, if not given.

    >>> from pyro_unsup.data.forms import Forms
    >>> seen = Forms(lowercase=True, strip_accents=True, numbers=True, prefix=5)
    >>> [seen(word) for word in ("Députés", "députée", "1997")]
    ['deput', 'deput', '0000']
    """

    lowercase: bool = False
    strip_accents: bool = False
    numbers: bool = False
    prefix: int | None = None

    def __post_init__(self) -> None:
        if self.prefix is not None and (
            isinstance(self.prefix, bool) or not isinstance(self.prefix, int) or self.prefix < 1
        ):
            raise InputError(f"prefix is the number of characters to keep, 1 or more, actual {self.prefix!r:.40}")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Forms:
        """As a fit remembers them; what it does not say is left as it is.

        :param config: settings of the fit.

        >>> from pyro_unsup.data.forms import Forms
        >>> Forms.of({"lowercase": True, "min_count": 2})
        Forms(lowercase=True, strip_accents=False, numbers=False, prefix=None)
        """
        flags = {name: config.get(name) is True for name in ("lowercase", "strip_accents", "numbers")}
        return cls(**flags, prefix=config.get("prefix"))

    def __call__(self, word: str) -> str:
        """A word as a model sees it."""
        if self.lowercase:
            word = word.lower()
        if self.strip_accents:
            word = _without_accents(word)
        if self.numbers:
            word = _DIGIT.sub("0", word)
        return word[: self.prefix]

    def each(self, words: Iterable[str]) -> list[str]:
        """Several words."""
        return list(words) if self == Forms() else [self(word) for word in words]


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    bare = "".join(one for one in apart if not unicodedata.combining(one))
    return unicodedata.normalize("NFC", bare) or word  # a word of accents alone stays what it is
