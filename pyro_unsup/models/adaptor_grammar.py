"""Grammars of nested units, written as patterns: collocations of words, words of syllables, syllables of symbols."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..array import Array
from ..errors import StructureError
from ..kernels.adaptor.records import Grammar

#: The class of all symbols, which every pattern may name.
SYMBOL = "symbol"
#: The root: a sentence is one unit of the first level after the other.
ROOT = "sentence"
#: More ways to write a unit than this are taken for a mistake in its pattern.
MOST = 64
_NAME = r"[^\W\d]\w*"
_ITEM = re.compile(rf"\s*(?:(?P<name>{_NAME})(?P<many>\?|\+|\{{\s*\d+\s*,\s*\d+\s*\}})?|(?P<or>\|)|(?P<bad>\S))")


@dataclass(frozen=True)
class Item:
    """A name in a pattern, from ``least`` to ``most`` times; ``most`` is None for any number."""

    name: str
    least: int = 1
    most: int | None = 1


def read_pattern(name: str, pattern: str) -> list[list[Item]]:
    """The alternatives of a pattern, each a sequence of items.

    :param name: of the unit, for errors.

    >>> from pyro_unsup.models.adaptor_grammar import read_pattern
    >>> read_pattern("word", "stem suffix? | symbol+")[1]
    [Item(name='symbol', least=1, most=None)]
    """
    if not isinstance(pattern, str):
        raise StructureError(f"the pattern of {name!r} should be a text such as 'symbol+', actual {pattern!r:.80}")
    found: list[list[Item]] = [[]]
    for match in _ITEM.finditer(pattern.rstrip()):
        if match["bad"]:
            raise StructureError(
                f"the pattern of {name!r}, {pattern!r:.80}, has {match['bad']!r} at character "
                f"{match.start('bad') + 1}. Write names with ?, + or {{0,2}} behind them, and | between alternatives"
            )
        if match["or"]:
            found.append([])
            continue
        many = match["many"] or "{1,1}"
        if many == "+":
            found[-1].append(Item(match["name"], 1, None))
            continue
        least, most = (0, 1) if many == "?" else map(int, many[1:-1].split(","))
        if most < max(least, 1):
            raise StructureError(f"the pattern of {name!r} has {match['name']}{many}, which can never be there")
        found[-1].append(Item(match["name"], least, most))
    if not all(found):
        raise StructureError(f"the pattern of {name!r}, {pattern!r:.80}, has an alternative with nothing in it")
    return found


@dataclass
class Nested:
    """A grammar of nested units, as the sampler uses it: rules with one or two symbols on the right.

    Symbols are numbered so that the parts of a unit come before the unit. The root is the last.

    :param levels: patterns of the units that are remembered (adapted), by name, from the highest to the lowest.
    :param parts: patterns of units that are not remembered.
    :param classes: which of ``size`` symbols each class has, as truth values (size,).
    :param words: the units that are words. Every way from the root to a symbol must lead through exactly one.
    """

    levels: Mapping[str, str]
    parts: Mapping[str, str]
    classes: Mapping[str, Array]
    words: Sequence[str]
    names: list[str] = field(default_factory=list)
    #: (parent, left, right) by numbers; right is -1 in a rule with one symbol.
    rules: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._check_names()
        self._number: dict[str, int] = {}
        self._open: list[str] = []
        self._patterns = {name: read_pattern(name, text) for name, text in {**self.levels, **self.parts}.items()}
        first = next(iter(self.levels))
        self._visit(first)
        self._repeat(ROOT, first)
        unused = [name for name in self._patterns if name not in self._number]
        if unused:
            raise StructureError(f"no pattern uses {unused[0]!r}; leave it out, or name it in the pattern of a unit")
        self._check_words(first)

    def _check_names(self) -> None:
        if not self.levels:
            raise StructureError("an adaptor grammar needs at least one level, such as {'word': 'symbol+'}")
        every = [*self.levels, *self.parts, *self.classes]
        for name in every:
            if not isinstance(name, str) or not re.fullmatch(_NAME, name) or name == ROOT:
                raise StructureError(
                    f"a unit is called by letters, digits and _, and not {ROOT!r}; actual {name!r:.40}"
                )
            if every.count(name) > 1:
                raise StructureError(f"{name!r} stands for two things: give each level, part and class its own name")
        for name, members in self.classes.items():
            if not members.any():
                raise StructureError(f"the class {name!r} has no symbol of the vocabulary")
        for name in self.words:
            if name not in self.levels and name not in self.parts:
                known = list(self.levels)[-1]
                raise StructureError(
                    f"words should name levels or parts, and none is called {name!r:.40}: say which units are words, "
                    f"such as words=[{known!r}]"
                )

    def _add(self, name: str) -> int:
        self._number[name] = len(self.names)
        self.names.append(name)
        return self._number[name]

    def _visit(self, name: str) -> int:
        """The number of a symbol; its parts get theirs before it."""
        if name in self._number:
            return self._number[name]
        if name in self.classes:
            return self._add(name)
        if name not in self._patterns:
            raise StructureError(
                f"the pattern of {self._open[-1]!r} names {name!r}, which is no level, part or class of symbols"
            )
        if name in self._open:
            raise StructureError(f"{name!r} is a part of itself ({' > '.join([*self._open, name])}): units must nest")
        self._open.append(name)
        ways = list(dict.fromkeys(way for one in self._patterns[name] for way in self._ways(name, one)))
        if len(ways) > MOST:
            raise StructureError(
                f"the pattern of {name!r} can be written in {len(ways)} ways, at most {MOST} are allowed"
            )
        if () in ways:
            raise StructureError(f"the pattern of {name!r} allows a unit with nothing in it")
        made = [self._binary(name, way) for way in ways]
        self._open.pop()
        number = self._add(name)
        self.rules += [(number, *rule) for rule in made]
        return number

    def _ways(self, owner: str, items: Iterable[Item]) -> Iterable[tuple[int, ...]]:
        options: list[list[tuple[int, ...]]] = []
        for item in items:
            number = self._visit(item.name)
            if item.most is None:
                options.append([(self._repeat(owner, item.name),)])
            else:
                options.append([(number,) * times for times in range(item.least, item.most + 1)])
        return (tuple(itertools.chain(*way)) for way in itertools.product(*options))

    def _repeat(self, owner: str, name: str) -> int:
        """One or more of a unit inside another: how many is learned for each owner on its own."""
        key = f"{owner}: {name}+"
        if key not in self._number:
            one, number = self._number[name], self._add(key)
            self.rules += [(number, one, -1), (number, one, number)]
        return self._number[key]

    def _binary(self, owner: str, way: tuple[int, ...]) -> tuple[int, int]:
        if len(way) == 1:
            return way[0], -1
        return way[0], self._rest(owner, way[1:])

    def _rest(self, owner: str, way: tuple[int, ...]) -> int:
        if len(way) == 1:
            return way[0]
        key = f"{owner}: {' '.join(self.names[one] for one in way)}"
        if key not in self._number:
            rule = self._binary(owner, way)
            self.rules.append((self._add(key), *rule))
        return self._number[key]

    def _check_words(self, first: str) -> None:
        seen: dict[int, frozenset[int]] = {}
        for number, name in enumerate(self.names):
            below = [seen[part] for parent, *parts in self.rules if parent == number for part in parts
                     if part not in (-1, number)]  # fmt: skip
            inside = frozenset().union(*below) if below else frozenset({0})
            seen[number] = frozenset(many + (name in self.words) for many in inside)
        if seen[len(self.names) - 1] != frozenset({1}):
            raise StructureError(
                f"every symbol should lie in exactly one word, and words are {', '.join(self.words) or 'none'}: under "
                f"{first!r} some symbols lie in {' or '.join(map(str, sorted(seen[len(self.names) - 1])))}"
            )

    @property
    def adapted(self) -> list[str]:
        """The levels, from the lowest to the highest: the order in which their restaurants are numbered."""
        return [name for name in self.names if name in self.levels]

    def rigid(self, name: str) -> bool:
        """Whether every string of this unit has just one analysis, of symbols only."""
        inside = [parts for parent, *parts in self.rules if parent == self._number[name]]
        if len(inside) != 1 or inside[0][1] != -1:
            return False
        part = self.names[inside[0][0]]
        return part in self.classes or part in {f"{name}: {one}+" for one in self.classes}

    def compiled(self) -> Grammar:
        """The same in arrays, for the sampler."""
        rules = sorted(self.rules, key=lambda rule: rule[0])
        parent, left, right = (np.array(x, np.int64) for x in zip(*rules, strict=True))
        size, pairs, adapted, classes = len(self.names), np.flatnonzero(right >= 0), self.adapted, list(self.classes)
        member = np.stack([self.classes[name] for name in classes]).astype(np.uint8)
        return Grammar(
            first=np.searchsorted(parent, np.arange(size + 1)),
            left=left,
            right=right,
            pair_left=left[pairs],
            pair_right=right[pairs],
            before=np.searchsorted(parent[pairs], np.arange(size + 1)),
            kind=np.array([adapted.index(x) if x in adapted else -1 for x in self.names]),
            symbol=np.array([self._number[x] for x in adapted]),
            klass=np.array([classes.index(x) if x in classes else -1 for x in self.names]),
            member=member,
            members=member.sum(1).astype(np.int64),
            word=np.array([x in self.words for x in self.names]),
            rigid=np.array([self.rigid(x) for x in adapted]),
        )
