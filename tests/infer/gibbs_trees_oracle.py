"""Trees under models whose tables are integrated out, by enumeration: every tree, the draws that it makes, and urns."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import lgamma
from typing import Any

import numpy as np

from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG, SimplePCFG

from ..distributions import bracketing_case, dependency_case, pcfg_case
from ..distributions.headed_bracketing_case import spans_in

#: A table, a row of it, and what was drawn.
Draw = tuple[str, Any, Any]
Words = Sequence[int]


@dataclass(frozen=True)
class Problem:
    """A model with sentences, and what is to be known of it to integrate its tables out.

    :param trees: of a sentence, every structure with the draws that it makes.
    :param outcomes: how many a row of a table has.
    :param a: the concentration of a row of a table.
    :param constant: the log-weight of a tree of a sentence besides its draws.
    """

    model: Any
    sentences: list[list[int]]
    trees: Callable[[Words], Iterator[tuple[tuple[int, ...], list[Draw]]]]
    outcomes: Callable[[str, Any], int]
    a: Callable[[str, Any], float]
    constant: Callable[[int], float] = lambda n: 0.0

    def log_joint(self, draws: Sequence[Draw]) -> float:
        """Of draws, in any order, tables integrated out; without the constants."""
        rows: dict[tuple[str, Any], Counter[Any]] = {}
        for table, row, outcome in draws:
            rows.setdefault((table, row), Counter())[outcome] += 1
        found = 0.0
        for (table, row), counts in rows.items():
            a, mass = self.a(table, row), self.a(table, row) * self.outcomes(table, row)
            found += lgamma(mass) - lgamma(mass + counts.total())
            found += sum(lgamma(a + n) - lgamma(a) for n in counts.values())
        return found

    def posterior(self) -> dict[tuple[int, ...], float]:
        """Log joint of every combination of trees."""
        each = [list(self.trees(words)) for words in self.sentences]
        shared = sum(self.constant(len(words)) for words in self.sentences)
        found = {}
        for some in itertools.product(*each):
            structure = sum((tree for tree, _ in some), ())
            found[structure] = shared + self.log_joint([one for _, draws in some for one in draws])
        return found


def shares(logs: dict[tuple[int, ...], float], power: float = 1.0) -> Any:
    """Log joints as probabilities."""
    x = power * np.array(list(logs.values()))
    p = np.exp(x - x.max())
    return p / p.sum()


def dmv(sentences: list[list[int]], tags: int, valence: int, **prior: float) -> Problem:
    model = DMV(tags, prior or 1.0, valence)

    def trees(words: Words) -> Iterator[tuple[tuple[int, ...], list[Draw]]]:
        for heads in dependency_case.all_trees(len(words)) if words else [()]:
            used = dependency_case.uses(heads, list(words), valence)
            yield heads, [(table, cell[:-1], cell[-1]) for table, cell in used]

    return Problem(
        model, sentences, trees, lambda table, _: 2 if table == "stop" else tags, lambda table, _: prior.get(table, 1.0)
    )


def span_draws(words: Words, inside: Any, variant: int, empty: bool) -> list[Draw]:
    """What all spans of a sentence draw, constituents of the tree or not."""
    n, edges = len(words), ["start", *words, "end"]
    found: list[Draw] = []
    for i, j in bracketing_case.all_spans(n):
        kind = int((i, j) in inside)
        found.append(("yield", (kind, j - i) if variant == 2 else (kind,), tuple(words[i:j])))
        found.append(("context", (kind,), (edges[i], edges[j + 1])))
    for i in range((n + 1) * empty * (n > 0)):
        found.append(("context", (0,), (edges[i], edges[i + 1])))
        if variant == 1:
            found.append(("yield", (0,), ()))
    return found


def outcomes_of_spans(sentences: list[list[int]], variant: int, empty: bool) -> Callable[[str, Any], int]:
    """Those that the sentences have, and one for all others."""
    draws = [one for words in sentences for one in span_draws(words, (), variant, empty)]

    def outcomes(table: str, row: Any) -> int:
        same = {x for name, r, x in draws if name == table and (table == "context" or r[1:] == row[1:])}
        return len(same) + 1

    return outcomes


def ccm(
    sentences: list[list[int]], vocab: int, variant: int, empty: bool, pairs: dict[str, tuple[float, float]]
) -> Problem:
    """The prior of a table is (constituents, distituents)."""
    model = CCM.of(sentences, vocab=vocab, variant=variant, prior=pairs, empty_spans=empty)

    def trees(words: Words) -> Iterator[tuple[tuple[int, ...], list[Draw]]]:
        for tree in bracketing_case.all_trees(0, len(words)) if words else [set()]:
            order = bracketing_case.all_spans(len(words))
            yield tuple(int(span in tree) for span in order), span_draws(words, tree, variant, empty)

    def constant(n: int) -> float:
        return -float(np.log(len(bracketing_case.all_trees(0, n)))) if n else 0.0

    return Problem(
        model, sentences, trees, outcomes_of_spans(sentences, variant, empty),
        lambda table, row: pairs[table][1 - row[0]], constant,
    )  # fmt: skip


def dmv_ccm(
    sentences: list[list[int]], tags: int, variant: int, order: str, empty: bool, prior: dict[str, Any]
) -> Problem:
    model = DMVCCM.of(sentences, vocab=tags, variant=variant, prior=prior, order=order, empty_spans=empty)
    heads, spans = dmv(sentences, tags, 1), outcomes_of_spans(sentences, variant, empty)

    def trees(words: Words) -> Iterator[tuple[tuple[int, ...], list[Draw]]]:
        for tree, draws in heads.trees(words):
            inside = spans_in(tree, order) if words else ()
            yield tree, [*draws, *span_draws(words, inside, variant, empty)]

    def outcomes(table: str, row: Any) -> int:
        return spans(table, row) if table in ("yield", "context") else heads.outcomes(table, row)

    def a(table: str, row: Any) -> float:
        return float(prior[table][1 - row[0]] if table in ("yield", "context") else prior[table])

    return Problem(model, sentences, trees, outcomes, a)


def pcfg(sentences: list[list[int]], N: int, P: int, vocab: int, **prior: float) -> Problem:
    return grammar(PCFG(N, P, vocab, prior or 1.0), sentences, prior)


def simple_pcfg(sentences: list[list[int]], N: int, P: int, vocab: int, **prior: float) -> Problem:
    return grammar(SimplePCFG(N, P, vocab, prior or 1.0), sentences, prior)


def grammar(model: PCFG | SimplePCFG, sentences: list[list[int]], prior: dict[str, float]) -> Problem:
    N, P, factored = model.nonterminals, model.preterminals, isinstance(model, SimplePCFG)

    def trees(words: Words) -> Iterator[tuple[tuple[int, ...], list[Draw]]]:
        n = len(words)
        if n < 2:
            yield (), []
            return
        for top, labels in pcfg_case.trees(0, n, N, P):
            draws: list[Draw] = [("root", (), top)]
            for (i, j), label in labels.items():
                if j - i == 1:
                    draws.append(("emission", (label - N,), words[i]))
                else:
                    k = next(k for k in range(i + 1, j) if (i, k) in labels and (k, j) in labels)
                    parts = labels[i, k], labels[k, j]
                    sides = [("left", (label,), parts[0]), ("right", (label,), parts[1])]
                    draws += sides if factored else [("rules", (label,), parts)]
            yield tuple(labels.get(span, -1) for span in pcfg_case.all_spans(n)), draws

    sizes = {"root": N, "rules": (N + P) ** 2, "left": N + P, "right": N + P, "emission": model.symbols}
    return Problem(model, sentences, trees, lambda table, _: sizes[table], lambda table, _: prior.get(table, 1.0))
