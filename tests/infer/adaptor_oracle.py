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


#: The number of the start and of the end of a sentence.
BORDER = -1


class BigramStory:
    """Draws sentences word by word, each from the restaurant of the word before, and keeps every way to do so.

    A state has the tables of all restaurants in the order in which they were opened, (word before, word, customers,
    table of the lexicon); the tables of the lexicon, (word, customers); how often each symbol was spelled; how many
    words were, and their symbols.
    """

    def __init__(self, symbols: int, discount: tuple[float, float], strength: tuple[float, float]) -> None:
        self.symbols, (self.a, self.d), (self.b, self.e) = symbols, discount, strength

    def spelled(self, word: tuple[int, ...], spelling: Any) -> tuple[float, Any]:
        """The probability to spell a new word: after each symbol an urn says whether it ends. Counts afterwards."""
        counts, words, letters = list(spelling[0]), *spelling[1:]
        p = 1.0
        for k, symbol in enumerate(word):
            p *= (counts[symbol] + 1) / (sum(counts) + self.symbols)
            counts[symbol] += 1
            last = k == len(word) - 1
            p *= ((words if last else letters - words) + 1) / (letters + 2)
            words, letters = words + last, letters + 1
        return p, (tuple(counts), words, letters)

    def seat(self, before: Any, word: Any, state: Any) -> Iterator[tuple[float, int, Any]]:
        """All ways to seat a token: probability, table, state afterwards."""
        tables, lexicon, spelling = state
        m = sum(size for left, _, size, _ in tables if left == before)
        t = sum(left == before for left, *_ in tables)
        for k, (left, right, size, parent) in enumerate(tables):
            if (left, right) == (before, word):
                more = (*tables[:k], (left, right, size + 1, parent), *tables[k + 1 :])
                yield (size - self.d) / (m + self.e), k, (more, lexicon, spelling)
        new, ends = (self.d * t + self.e) / (m + self.e), sum(right == BORDER for _, right, *_ in tables)
        p = new * (ends + 1) / (len(tables) + 2)
        if word == BORDER:
            yield p, len(tables), ((*tables, (before, word, 1, -1)), lexicon, spelling)
            return
        n = sum(size for _, size in lexicon)
        for k, (dish, size) in enumerate(lexicon):
            if dish == word:
                more = (*lexicon[:k], (dish, size + 1), *lexicon[k + 1 :])
                q = (size - self.a) / (n + self.b)
                yield (new - p) * q, len(tables), ((*tables, (before, word, 1, k)), more, spelling)
        q, after = self.spelled(word, spelling)
        q *= (self.a * len(lexicon) + self.b) / (n + self.b)
        opened = (*tables, (before, word, 1, len(lexicon)))
        yield (new - p) * q, len(tables), (opened, (*lexicon, (word, 1)), after)

    def sentence(self, rest: tuple[int, ...], before: Any, state: Any) -> Iterator[tuple[float, Any, Any, Any]]:
        """All ways to draw this sentence: probability, labels, seats, state afterwards."""
        if not rest:
            for p, table, after in self.seat(before, BORDER, state):
                yield p, (), (table,), after
            return
        for k in range(1, len(rest) + 1):
            ends = (*(0,) * (k - 1), 1)
            for p, table, middle in self.seat(before, rest[:k], state):
                for q, labels, seats, after in self.sentence(rest[k:], rest[:k], middle):
                    yield p * q, (*ends, *labels), (table, *seats), after


def bigram_joint(symbols: int, sentences: Any, discount: tuple[float, float], strength: tuple[float, float]) -> Any:
    """The joint probability of these sentences with every (labels, seats, table of the lexicon of each table)."""
    story = BigramStory(symbols, discount, strength)
    reached: list[tuple[float, Any, Any, Any]] = [(1.0, (), (), ((), (), ((0,) * symbols, 0, 0)))]
    for sentence in sentences:
        reached = [
            (p * q, (*labels, *ends), (*seats, *more), after)
            for p, labels, seats, state in reached
            for q, ends, more, after in story.sentence(tuple(sentence), BORDER, state)
        ]
    return {(labels, seats, tuple(one[3] for one in state[0])): p for p, labels, seats, state in reached}
