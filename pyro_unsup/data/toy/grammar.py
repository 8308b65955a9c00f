"""The grammar of the toy world: a table of weighted rules, and the same table as arrays to draw from.

A row says: left-hand side, weight, right-hand side. Weights of one left-hand side are normalised. Capitals are
phrases, small letters are word classes of the lexicon. The star marks the head child (an only child needs none), from
which the gold dependencies follow: verbs head clauses (over auxiliaries and complementisers), nouns head noun
phrases, prepositions head their phrases, the first conjunct heads a coordination. ``@`` stands for either tense: past
after a subject, base after an auxiliary. Numbers after ``>`` give the order of the children in the parallel language,
where adjectives and relative clauses change sides and verbs come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data.toy.lexicon import CLASSES

TABLE = """
ROOT      88  S* stop
ROOT      12  Q* ask
S         86  SUBJ VP*
S         10  adv.frame SUBJ VP*
S          1  S* conj S
S          3  S* SUB
SUB        1  comp.sub S*
Q          1  aux SUBJ VP.base*
SUBJ      25  pron.subj
SUBJ      16  name
SUBJ      59  NP
OBJ       14  pron.obj
OBJ       12  name
OBJ       74  NP
NP        60  det.sg N.sg*
NP        21  det.pl N.pl*
NP         5  N.pl
NP         6  NP* PP
NP         2  NP* OF              > 1 0
NP         3  NP* REL             > 1 0
NP         3  NP* conj NP
N.sg      70  noun.sg
N.sg      30  adj N.sg*           > 1 0
N.pl      70  noun.pl
N.pl      30  adj N.pl*           > 1 0
PP         1  adp* OBJ
OF         1  adp.of* NP          > 1 0
REL       65  comp.rel VP.past*
REL       35  comp.rel SUBJ verb.t.past*
VP        68  VP.past
VP        32  aux VP.base*        > 1 0
VP.@      18  verb.i.@
VP.@      16  verb.i.@* PP        > 1 0
VP.@      35  verb.t.@* OBJ       > 1 0
VP.@       8  verb.t.@* OBJ PP    > 2 0 1
VP.@       3  verb.d.@* OBJ NP    > 2 0 1
VP.@       6  verb.l.@* AP        > 1 0
VP.@       4  verb.s.@* THAT
VP.@       8  VP.@* adv.late      > 1 0
VP.@       4  adv.early VP.@*
VP.@       1  VP.@* conj VP.@
THAT      55  comp.that S*
THAT      45  S
AP        70  adj
AP        30  adv.degree adj*
"""

Int = NDArray[np.int64]
Float = NDArray[np.float64]


class Choice:
    """Draws one option for each of many groups at once: rules for phrases, words for classes.

    :param groups: (options,) the group of each option, 0, 0, ..., 1, ...: sorted, none left out.
    :param weights: (options,) positive; normalised within each group.
    """

    def __init__(self, groups: Int, weights: Float) -> None:
        self.probabilities: Float = weights / np.bincount(groups, weights)[groups]
        self.last: Int = np.flatnonzero(np.diff(groups, append=groups[-1] + 1))
        # Group g owns the stretch [g, g + 1) of one long line, cut in proportion: a draw is one binary search.
        self._edges: Float = np.cumsum(self.probabilities)
        self._edges[self.last] = np.arange(1.0, len(self.last) + 1.0)

    def draw(self, groups: Int, rng: np.random.Generator) -> Int:
        """(n,) groups to (n,) options."""
        found = np.searchsorted(self._edges, groups + rng.random(len(groups)), side="right")
        return np.minimum(found, self.last[groups])


@dataclass(frozen=True)
class Rule:
    """One row of the table; ``order`` holds, for each child, its place in the parallel language.

    :param left: the symbol that is rewritten.
    :param right: what it becomes.
    :param head: which child is the head, from 0.
    :param probability: among the rules of ``left``.

    >>> from pyro_unsup.data.toy import GRAMMAR
    >>> rule = GRAMMAR.rules[0]
    >>> str(rule), rule.head, rule.probability
    ('ROOT -> S* stop', 0, 0.88)
    """

    left: str
    right: tuple[str, ...]
    head: int
    order: tuple[int, ...]
    probability: float

    def __str__(self) -> str:
        marked = (child + "*" * (at == self.head) for at, child in enumerate(self.right))
        return f"{self.left} -> {' '.join(marked)}"


def _row(text: str) -> Rule:
    body, _, order = text.partition(">")
    left, weight, *right = body.split()
    head = next((at for at, child in enumerate(right) if child.endswith("*")), 0)
    places = tuple(map(int, order.split())) or tuple(range(len(right)))
    return Rule(left, tuple(child.rstrip("*") for child in right), head, places, float(weight))


def _parse(table: str) -> tuple[Rule, ...]:
    by_left: dict[str, list[Rule]] = {}
    for line in table.strip().splitlines():
        for tense in ("past", "base") if "@" in line else ("",):
            rule = _row(line.replace("@", tense))
            by_left.setdefault(rule.left, []).append(rule)
    weights = {left: sum(rule.probability for rule in rules) for left, rules in by_left.items()}
    return tuple(
        replace(rule, probability=rule.probability / weights[left]) for left, rules in by_left.items() for rule in rules
    )


class Grammar:
    """The rules as arrays. Symbols are numbered phrases first, then word classes in the order of the lexicon.

    :param rules: grouped by left-hand side; the first one's is the root.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.phrases: tuple[str, ...] = tuple(dict.fromkeys(rule.left for rule in rules))
        self.symbols: tuple[str, ...] = self.phrases + tuple(CLASSES)
        number = {symbol: at for at, symbol in enumerate(self.symbols)}
        self.left: Int = np.array([number[rule.left] for rule in rules])  # (rules,)
        self.head: Int = np.array([rule.head for rule in rules])  # (rules,)
        self.arity: Int = np.array([len(rule.right) for rule in rules])  # (rules,)
        self.right: Int = np.full((len(rules), self.arity.max()), -1)  # (rules, child), -1 past the end
        self.order: Int = np.full_like(self.right, -1)  # (rules, child)
        for at, rule in enumerate(rules):
            self.right[at, : len(rule.right)] = [number[child] for child in rule.right]
            self.order[at, : len(rule.right)] = rule.order
        self.choice = Choice(self.left, np.array([rule.probability for rule in rules]))

    def expected(self) -> dict[str, float]:
        """The mean number of each symbol in a sentence: sums over phrases solve a linear system.

        >>> from pyro_unsup.data.toy import CLASSES, GRAMMAR
        >>> round(sum(mean for symbol, mean in GRAMMAR.expected().items() if symbol in CLASSES), 1)  # words a sentence
        7.9
        """
        moves = np.zeros((len(self.symbols), len(self.symbols)))
        children = self.right >= 0
        np.add.at(
            moves,
            (np.repeat(self.left, self.arity), self.right[children]),
            np.repeat(self.choice.probabilities, self.arity),
        )
        root = np.eye(len(self.symbols))[0]
        return dict(zip(self.symbols, np.linalg.solve(np.eye(len(root)) - moves.T, root).tolist(), strict=True))


#: The grammar that all toy corpora come from.
GRAMMAR = Grammar(_parse(TABLE))
