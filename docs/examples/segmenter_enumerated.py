"""Word segmentation as a plain enumerated Pyro program: what ``pu.models.Segmenter`` does, small and slow.

    left[0] --> left[1] --> left[2] --> ...     how many symbols of the word at hand are still to come
       |           |           |
     word?       word?       word?              where a word begins, its weight: go * segments[word] * penalty

A sentence is words end to end, of at most L symbols. With ``left`` symbols still to come, one fewer are to come after
the next symbol. With none, a new word begins, of any length: the coin ``stop`` says to go on, ``segments`` draws the
word, and long ones are penalised by exp(-length ** 1.6) (Liang & Klein 2009). After the last word the coin says stop.

The fast twin sums the same weights over the same words with a compiled kernel, in time that grows with L rather than
its square, and has no padding. This one is for reading, and for changing what the other cannot: a second table for the
first word of a sentence, say, is one line.

Checked in tests/models/test_segmenter.py: objectives, tables and words of both agree all through EM.
"""

from __future__ import annotations

import pyro
import torch
from pyro import poutine
from torch import Tensor

import pyro_unsup as pu

PENALTY = 1.6


def model(
    words: Tensor,  # (B, T, L) the word that begins at each symbol, by its length; -1 beyond the end of the sentence
    lengths: Tensor,  # (B,) symbols in each sentence
    types: int,
) -> None:
    """One enumerated variable a symbol. A word's weight comes in where it begins, all at once."""
    B, T, L = words.shape
    segments = pu.table("segments", types)
    stop = pu.table("stop", 2)
    penalty = -(torch.arange(1, L + 1) ** PENALTY).to(segments.dtype)
    # What may come after ``left``: one fewer, or anything once the word is complete.
    moves = torch.full((L, L), -torch.inf, dtype=segments.dtype)
    moves[torch.arange(1, L), torch.arange(L - 1)] = moves[0] = 0.0
    with pyro.plate("sentences", B) as b:
        left = torch.zeros(B, dtype=torch.long)
        for t in pyro.markov(range(T)):
            with poutine.mask(mask=t < lengths):  # after the end of a sentence nothing is there, and nothing is counted
                begins = left == 0
                left = pyro.sample(f"left_{t}", pu.Categorical(moves[left]))
                word = words[b, t, left]
                weight = torch.where(word >= 0, stop[0] + segments[word.clamp(min=0)] + penalty[left], -torch.inf)
                pyro.factor(f"word_{t}", torch.where(begins, weight, 0.0))
        pyro.sample("stop", pu.Categorical(stop), obs=torch.ones(B, dtype=torch.long))


def numbered(lines: list[str], longest: int) -> tuple[Tensor, Tensor, list[str]]:
    """All words that lines without spaces may have: ``words`` and ``lengths`` for the model, and the list of them."""
    number: dict[str, int] = {}
    words = torch.full((len(lines), max(map(len, lines)), longest), -1)
    for b, line in enumerate(lines):
        for begin in range(len(line)):
            for end in range(begin + 1, min(begin + longest, len(line)) + 1):
                words[b, begin, end - begin - 1] = number.setdefault(line[begin:end], len(number))
    return words, torch.tensor([len(line) for line in lines]), list(number)


def ends(decoded: dict[str, Tensor], lengths: Tensor) -> Tensor:  # (symbols,)
    """1 where a word ends, flat, from the decoded variables."""
    left = torch.stack([decoded[f"left_{t}"] for t in range(len(decoded))], -1)  # (B, T)
    return (left == 0).long()[torch.arange(left.shape[1]) < lengths.unsqueeze(-1)]


def main() -> None:
    heard = pu.data.toy.utterances(30, seed=1)
    words, lengths, types = numbered(heard.unsegmented, longest=6)
    data = (words, lengths, len(types))
    fit = pu.EM(model, init=pu.init.uniform()).run(*data, iterations=10, tolerance=0.0, progress=False)
    print(fit.report)
    found = ends(fit.predict(*data), lengths)
    print("\n".join(heard.lines(found)[:5]))
    scores = pu.evaluate.segmentation_report(heard.ends, found, heard.words, heard.lengths)
    print(f"{100 * scores['boundary_f1']:.0f}% of the cuts found (F1), {100 * scores['token_f1']:.0f}% of the words")


if __name__ == "__main__":
    main()
