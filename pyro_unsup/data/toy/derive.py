"""Draws derivations from the grammar, thousands of sentences at a time.

All sentences of a block grow together, one level of their trees a step: every phrase on the frontier picks a rule by
one binary search, and the children form the next frontier. Nodes are numbered in that order, so the children of a node
lie side by side, and widths (bottom up), starts (top down) and lexical heads (bottom up) are a few array operations a
level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data.toy.grammar import GRAMMAR, Choice, Int
from pyro_unsup.data.toy.lexicon import CLASSES, WORDS
from pyro_unsup.errors import InputError

#: No sentence has more tokens. Longer ones (about 1 in 10,000) are thrown away.
LONGEST = 40
BLOCK = 2048  # sentences grown together

_WORD_ID = {word: at for at, word in enumerate(WORDS)}
_CLASS_WORDS: Int = np.array([_WORD_ID[word] for entry in CLASSES.values() for word in entry.words])
_WORD_CHOICE = Choice(
    np.repeat(np.arange(len(CLASSES)), [len(entry.words) for entry in CLASSES.values()]),
    np.array([probability for entry in CLASSES.values() for probability in entry.probabilities]),
)


@dataclass(frozen=True)
class Forest:
    """Derivation trees of many sentences. Nodes 0 to ``sentences - 1`` are the roots; siblings lie side by side.

    :param sentences: number of trees.
    :param symbol: (nodes,) index into ``GRAMMAR.symbols``.
    :param rule: (nodes,) index into ``GRAMMAR.rules``, -1 at a leaf.
    :param parent: (nodes,) node, -1 at a root; never decreases.
    :param sentence: (nodes,) the tree.
    :param word: (nodes,) word at a leaf, -1 above.
    :param levels: (depth + 1,) level d is the nodes from ``levels[d]`` up to ``levels[d + 1]``.
    """

    sentences: int
    symbol: Int
    rule: Int
    parent: Int
    sentence: Int
    word: Int
    levels: list[int]

    def first_child(self) -> Int:
        """(nodes,) the first child of each phrase; of no meaning at a leaf."""
        arity = np.where(self.rule < 0, 0, GRAMMAR.arity[self.rule])
        return self.sentences + np.cumsum(arity) - arity

    def head_leaves(self) -> Int:
        """(nodes,) the leaf that heads each node."""
        head, first = np.arange(len(self.rule)), self.first_child()
        for low, high in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            phrases = low + np.flatnonzero(self.rule[low:high] >= 0)
            head[phrases] = head[first[phrases] + GRAMMAR.head[self.rule[phrases]]]
        return head

    def widths(self) -> Int:
        """(nodes,) the number of leaves below each node."""
        width: Int = (self.rule < 0).astype(np.int64)
        for low, high in zip(self.levels[-2:0:-1], self.levels[:1:-1], strict=True):
            np.add.at(width, self.parent[low:high], width[low:high])
        return width

    def starts(self, reorder: bool = False) -> Int:
        """(nodes,) the place in the sentence of the first leaf of each node.

        :param reorder: with children in the order of the parallel language.
        """
        first, width, place = self.first_child(), self.widths(), np.arange(len(self.rule))
        above = self.parent[self.sentences :]
        if reorder:
            rank = place[self.sentences :] - first[above]
            place[self.sentences :] = first[above] + GRAMMAR.order[self.rule[above], rank]
        placed = np.empty_like(width)
        placed[place] = width
        before = np.cumsum(placed) - placed
        start = np.zeros_like(width)
        start[self.sentences :] = before[place[self.sentences :]] - before[first[above]]  # from the parent's start
        for low, high in zip(self.levels[1:-1], self.levels[2:], strict=True):
            start[low:high] += start[self.parent[low:high]]
        return start

    def keep(self, wanted: NDArray[np.bool_]) -> Forest:
        """Only the trees marked in ``wanted``, (sentences,)."""
        nodes = wanted[self.sentence]
        number = np.concatenate([[0], np.cumsum(nodes)])
        parent = self.parent[nodes]
        return Forest(
            sentences=int(wanted.sum()),
            symbol=self.symbol[nodes],
            rule=self.rule[nodes],
            parent=np.where(parent < 0, -1, number[parent]),
            sentence=(np.cumsum(wanted) - 1)[self.sentence[nodes]],
            word=self.word[nodes],
            levels=list(dict.fromkeys(number[self.levels].tolist())),
        )


def stream(seed: int, purpose: str, block: int = 0) -> np.random.Generator:
    """A generator of its own for each purpose and block, so that a draw does not depend on what else is drawn."""
    if seed < 0:
        raise InputError(f"expected a seed of 0 or more, got {seed}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*purpose.encode(), block)))


def grow(count: int, rng: np.random.Generator) -> Forest:
    """Draws ``count`` trees and returns those of at most ``LONGEST`` leaves."""
    symbol, sentence, parent = np.zeros(count, np.int64), np.arange(count), np.full(count, -1)
    length = np.ones(count, np.int64)  # of the frontier: no rule is empty, so a sentence cannot become shorter
    grown: list[tuple[Int, Int, Int, Int]] = []
    levels = [0]
    while len(symbol):
        rule = np.full(len(symbol), -1)
        phrases = np.flatnonzero(symbol < len(GRAMMAR.phrases))
        rule[phrases] = GRAMMAR.choice.draw(symbol[phrases], rng)
        grown.append((symbol, rule, parent, sentence))

        arity = GRAMMAR.arity[rule[phrases]]
        np.add.at(length, sentence[phrases], arity - 1)
        parent = np.repeat(levels[-1] + phrases, arity)
        levels.append(levels[-1] + len(symbol))
        sentence = np.repeat(sentence[phrases], arity)
        symbol = GRAMMAR.right[rule[phrases]]
        symbol = symbol[symbol >= 0]
        alive = length[sentence] <= LONGEST
        symbol, parent, sentence = symbol[alive], parent[alive], sentence[alive]

    symbol, rule, parent, sentence = (np.concatenate(parts) for parts in zip(*grown, strict=True))
    word = np.full(len(symbol), -1)
    leaves = np.flatnonzero(symbol >= len(GRAMMAR.phrases))
    word[leaves] = _CLASS_WORDS[_WORD_CHOICE.draw(symbol[leaves] - len(GRAMMAR.phrases), rng)]
    return Forest(count, symbol, rule, parent, sentence, word, levels).keep(length <= LONGEST)


def forests(n: int, seed: int = 0) -> Iterator[Forest]:
    """Blocks of trees, ``n`` in all. A smaller draw is the beginning of a larger one with the same seed."""
    if n < 0:
        raise InputError(f"expected a number of sentences of 0 or more, got {n}")
    block = 0
    while n > 0:
        forest = grow(BLOCK, stream(seed, "trees", block))
        if forest.sentences > n:
            forest = forest.keep(np.arange(forest.sentences) < n)
        yield forest
        n, block = n - forest.sentences, block + 1
