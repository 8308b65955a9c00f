"""Features of the shape of words, for segmenters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..features.template import Template, same
from .phonemes import BROAD, FINE


def segmentation(
    classes: Sequence[Mapping[Any, str]] = (FINE, BROAD),
    longest: int = 3,
    table: str = "segments",
    vowel: str = "vowel",
) -> list[Template]:
    """What a segment looks like: itself, its length, how many vowels it has, and the classes of its first and last
    phonemes.

    :param classes: from symbols to the names of their classes, in one or more degrees of coarseness. The first also
        tells vowels. A symbol that is not in it is a class of its own. The default is for the phonemic form of the
        Bernstein-Ratner corpus.
    :param longest: the most phonemes at either end; those of one, two, ... are features each.
    :param table: with the axis ``segment``.
    :param vowel: what the class of vowels is called.

    >>> import pyro_unsup as pu
    >>> [template.name for template in pu.templates.segmentation()]
    ['basic', 'length', 'vowels', 'prefix 6', 'suffix 6', 'prefix 2', 'suffix 2']
    """

    def classed(segment: Any, names: Mapping[Any, str]) -> tuple[Any, ...]:
        return tuple(names.get(symbol, symbol) for symbol in segment)

    found = [
        Template(table, "basic", segment=same),
        Template(table, "length", segment=len),
        Template(table, "vowels", segment=lambda segment: classed(segment, classes[0]).count(vowel)),
    ]
    for names in classes:
        degree = len(set(names.values()))

        def starts(segment: Any, names: Mapping[Any, str] = names) -> list[tuple[Any, ...]]:
            all_of = classed(segment, names)
            return [all_of[:n] for n in range(1, min(longest, len(all_of)) + 1)]

        def ends(segment: Any, names: Mapping[Any, str] = names) -> list[tuple[Any, ...]]:
            all_of = classed(segment, names)
            return [all_of[-n:] for n in range(1, min(longest, len(all_of)) + 1)]

        found.append(Template(table, f"prefix {degree}", segment=starts))
        found.append(Template(table, f"suffix {degree}", segment=ends))
    return found
