"""The exact posterior of cuts under an adaptor grammar, by running its story forwards in all possible ways."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from pyro_unsup.models.adaptor_grammar import Nested

#: A restaurant's tables, in the order in which they were opened: (unit, string, cuts inside, customers); and how often
#: each rule and symbol was used.
State = tuple[tuple[tuple[int, tuple[int, ...], tuple[int, ...], int], ...], tuple[tuple[Any, int], ...]]


class Story:
    """Draws a sentence after the other, table by table, and keeps the probability of every way to do so."""

    def __init__(self, nested: Nested, discount: float, strength: float) -> None:
        self.names, self.a, self.b = nested.names, discount, strength
        self.adapted = {nested.names.index(name) for name in nested.levels}
        self.words = {nested.names.index(name) for name in nested.words}
        self.classes = {nested.names.index(name): members for name, members in nested.classes.items()
                        if name in nested.names}  # fmt: skip
        self.rules = defaultdict(list)
        for parent, *parts in nested.rules:
            self.rules[parent].append([part for part in parts if part >= 0])

    def use(self, state: State, kind: Any, which: Any, outcomes: int) -> tuple[float, State]:
        """An urn with one ball of each colour to begin with."""
        counts = Counter(dict(state[1]))
        total = sum(n for (urn, _), n in counts.items() if urn == kind)
        p = (counts[kind, which] + 1) / (total + outcomes)
        counts[kind, which] += 1
        return p, (state[0], tuple(sorted(counts.items())))

    def unit(self, A: int, string: tuple[int, ...], state: State) -> Iterator[tuple[float, tuple[int, ...], State]]:
        """All ways to draw this string as a unit: probability, where words end in it, state afterwards."""
        if A in self.classes:
            if len(string) == 1 and self.classes[A][string[0]]:
                p, after = self.use(state, ("class", A), string[0], int(self.classes[A].sum()))
                yield p, (), after
            return
        if A not in self.adapted:
            yield from self.rewritten(A, string, state)
            return
        tables = state[0]
        mine = [n for unit, _, _, n in tables if unit == A]
        N, T = sum(mine), len(mine)
        for k, (unit, dish, cuts, n) in enumerate(tables):
            if unit == A and dish == string:
                more = (*tables[:k], (unit, dish, cuts, n + 1), *tables[k + 1 :])
                yield (n - self.a) / (N + self.b), cuts, (more, state[1])
        # The table is opened before its dish is drawn, as the sampler has it; the order makes no difference.
        for p, cuts, after in self.rewritten(A, string, state):
            yield (self.a * T + self.b) / (N + self.b) * p, cuts, ((*after[0], (A, string, cuts, 1)), after[1])

    def rewritten(self, A: int, string: tuple[int, ...], state: State) -> Iterator[Any]:
        for r, parts in enumerate(self.rules[A]):
            p, after = self.use(state, ("rule", A), r, len(self.rules[A]))
            for q, cuts, done in self.sequence(parts, string, after):
                yield p * q, (len(string),) if A in self.words else cuts, done

    def sequence(self, parts: list[int], string: tuple[int, ...], state: State) -> Iterator[Any]:
        if len(parts) == 1:
            yield from self.unit(parts[0], string, state)
            return
        for k in range(1, len(string)):
            for p, cuts, middle in self.unit(parts[0], string[:k], state):
                for q, more, after in self.unit(parts[1], string[k:], middle):
                    yield p * q, (*cuts, *(k + cut for cut in more)), after


def posterior(nested: Nested, sentences: Any, discount: float, strength: float) -> dict[tuple[int, ...], float]:
    """The probability of every way to cut the sentences, as labels: 1 where a word ends."""
    story = Story(nested, discount, strength)
    reached: dict[Any, float] = {((), ((), ())): 1.0}
    for sentence in sentences:
        after: dict[Any, float] = defaultdict(float)
        for (labels, state), p in reached.items():
            for q, cuts, new in story.unit(len(nested.names) - 1, tuple(sentence), state):
                ends = tuple(int(t + 1 in cuts) for t in range(len(sentence)))
                # Tables that are alike may change places.
                after[(*labels, *ends), (tuple(sorted(new[0])), new[1])] += p * q
        reached = after
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for (labels, _), p in reached.items():
        found[labels] += p
    total = sum(found.values())
    return {labels: p / total for labels, p in found.items()}
