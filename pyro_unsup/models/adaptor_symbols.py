"""The symbols of an adaptor grammar: how many there are, a vocabulary, or a list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..errors import StructureError

_EXPECTED = "vocab should be how many symbols there are, a vocabulary, or a list of symbols"


class _Listed(list[Any]):
    """Symbols in a list, which number those of sentences."""

    def encode(self, symbols: Sequence[Any]) -> list[int]:
        number = {one: k for k, one in enumerate(self)}
        if others := [one for one in dict.fromkeys(symbols) if one not in number]:
            raise StructureError(
                f"a sentence has symbols that vocab does not list: {listed(others)}; expected those of "
                f"{listed(self)}. List all symbols of the text, or leave the sentence out"
            )
        return [number[one] for one in symbols]


def check_symbols(vocab: Any) -> None:
    """Raise unless symbols can be numbered by this."""
    if isinstance(vocab, str):
        raise StructureError(
            f"{_EXPECTED}; actual one text, {vocab!r:.60}. If its characters are the symbols, write list({vocab!r:.60})"
        )
    if isinstance(vocab, int) or hasattr(vocab, "encode"):
        return
    if not (hasattr(vocab, "__len__") and hasattr(vocab, "__iter__")):
        raise StructureError(f"{_EXPECTED}; actual {vocab!r:.60}. Give one of these")
    if twice := [one for one, many in Counter(iter(vocab)).items() if many > 1]:
        raise StructureError(
            f"vocab should list every symbol once; actual {listed(twice)} more than once. Leave the others out"
        )


def numbered(vocab: Any) -> Any:
    """The same, able to number the symbols of sentences that are strings, unless only their number is known."""
    return vocab if isinstance(vocab, int) or hasattr(vocab, "encode") else _Listed(vocab)


def listed(names: Sequence[Any]) -> str:
    """Some symbols, for a message: ten at most.

    >>> from pyro_unsup.models.adaptor_symbols import listed
    >>> listed("ab"), listed(range(12))
    ("'a', 'b'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
