"""IBM Model 1 as anyone would write it: which word of a sentence does each word of its translation come from?

    link[j] --> f[j]           link[j] ~ null or a word of the source sentence, all alike
    for each target word j     f[j]    ~ translation[e[link[j]]]

One enumerated variable a target word, and a dense table with a row for every source word and one for the null word. It
is small and slow, and the measure of what is large and fast: ``pu.models.Aligner`` has the same log-likelihood, and
the same EM step after step, from a table that has only cells for words that occur together.

Checked in tests/models/test_aligner.py.
"""

from __future__ import annotations

import pyro
import torch
from torch import Tensor

import pyro_unsup as pu

SOURCE = ["the", "house", "book", "a", "big"]
TARGET = ["das", "haus", "buch", "ein", "grosses"]
PAIRS = [
    ("the house", "das haus"),
    ("the book", "das buch"),
    ("a book", "ein buch"),
    ("a big house", "ein grosses haus"),
    ("a house", "ein haus"),
]


def model(
    pairs: list[tuple[Tensor, Tensor]],  # (I,) and (J,) word numbers of each pair
    source: int,  # words in the source language
    target: int,
) -> None:
    """The last row of the table is that of the null word."""
    table = pu.table("translation", source + 1, target, support=together(pairs, source, target))
    for b, (e, f) in enumerate(pairs):
        rows = table[torch.cat([torch.tensor([source]), e])]  # (I + 1, target), the null word first
        evenly = torch.full((len(rows),), 1 / len(rows)).log()
        with pyro.plate(f"words {b}", len(f)):
            link = pyro.sample(f"link {b}", pu.Categorical(evenly))
            pyro.sample(f"word {b}", pu.Categorical(rows[link]), obs=f)


def together(pairs: list[tuple[Tensor, Tensor]], source: int, target: int) -> Tensor:  # (source + 1, target) bool
    """Which words occur together in some pair; the null word goes with all."""
    met = torch.zeros(source + 1, target, dtype=torch.bool)
    met[source] = True
    for e, f in pairs:
        met[e.unsqueeze(-1), f] = True
    return met


def encode(pairs: list[tuple[str, str]]) -> list[tuple[Tensor, Tensor]]:
    """Pairs of sentences as word numbers."""
    return [
        (torch.tensor([SOURCE.index(w) for w in e.split()]), torch.tensor([TARGET.index(w) for w in f.split()]))
        for e, f in pairs
    ]


def main() -> None:
    args = encode(PAIRS), len(SOURCE), len(TARGET)
    fit = pu.EM(model, init=pu.init.uniform()).run(*args, iterations=50, progress=False)
    print(fit.report)
    for word, row in zip(SOURCE, fit.weights["translation"].exp(), strict=False):
        print(f"  {word:6} {TARGET[int(row.argmax())]:8} {row.max():.2f}")
    links = fit.predict(*args)
    right = [int(e) for b, (e, _) in enumerate(args[0]) for e in links[f"link {b}"]]
    print(f"{100 * sum(link > 0 for link in right) / len(right):.0f}% of the words are linked to a word")


if __name__ == "__main__":
    main()
