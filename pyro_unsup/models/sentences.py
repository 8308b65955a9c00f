"""What a model of sentences accepts as data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions.ragged import check_lengths, flatten, offsets_of
from ..errors import StructureError
from .base import runs

#: Words in the longest sentence that trees are built over: more would take days and tens of gigabytes.
LONGEST = 20_000


@dataclass(frozen=True, eq=False)
class Sentences:
    """Word numbers end to end, and where each sentence begins.

    :param words: (tokens,).
    :param offsets: (B + 1,).
    """

    words: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def select(self, indices: Any) -> Sentences:
        """The sentences at these places, in this order."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        lengths = self.offsets.diff()[chosen]
        return Sentences(self.words[runs(self.offsets[chosen], lengths)], offsets_of(lengths))


def as_flat(
    sentences: Any, lengths: Any = None, vocab: Any = None, split: Callable[[str], Sequence[str]] = str.split
) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
    """Words lying end to end, and the lengths of the sentences.

    :param sentences: a corpus (anything with flat ``words`` and ``offsets``); a flat tensor with ``lengths``; a padded
        tensor (B, T) with ``lengths``; or many sentences, each a sequence of word numbers, a sequence of words, or a
        string.
    :param vocab: that numbers words which are strings.
    :param split: from a string to its words.
    """
    if hasattr(sentences, "words") and hasattr(sentences, "offsets"):
        if lengths is not None:
            raise StructureError("a corpus knows the lengths of its sentences: leave lengths out")
        return _numbers(sentences.words), torch.from_numpy(np.diff(np.asarray(sentences.offsets)))
    rows = isinstance(sentences, np.ndarray) and sentences.dtype == object
    if lengths is None and (rows or not isinstance(sentences, Tensor | np.ndarray | str)):
        if not isinstance(sentences, Iterable):
            raise StructureError(f"expected sentences, actual {type(sentences).__name__}")
        parts = [_numbers(_encoded(s, vocab, split)).long() for s in sentences]
        if not parts:
            raise StructureError("no sentences: expected at least one, actual 0")
        if any(s.dim() != 1 for s in parts):
            raise StructureError(
                "a list of sentences holds one sequence of word numbers a sentence; "
                "words that lie end to end need lengths"
            )
        return torch.cat(parts), torch.tensor([len(s) for s in parts])
    words = _numbers(sentences)
    if lengths is None:
        raise StructureError(f"words of shape {tuple(words.shape)} need lengths: one number a sentence")
    lengths = check_lengths(lengths)
    if words.dim() == 2:
        if lengths.shape != words.shape[:1]:
            raise StructureError(f"expected {len(words)} lengths, one a sentence, actual shape {tuple(lengths.shape)}")
        return flatten(words, check_lengths(lengths, words.shape[1])), lengths
    if words.dim() != 1 or int(lengths.sum()) != len(words):
        raise StructureError(f"lengths add up to {int(lengths.sum())}, actual shape of the words {tuple(words.shape)}")
    return words, lengths


def _encoded(sentence: Any, vocab: Any, split: Callable[[str], Sequence[str]]) -> Any:
    """A sentence by numbers, if its words are strings and the vocabulary is known."""
    words = split(sentence) if isinstance(sentence, str) else sentence
    if not hasattr(words, "__len__"):
        raise StructureError(
            "a list of sentences holds one sequence of word numbers a sentence; words that lie end to end need "
            f"lengths. Write one sentence as [[0, 1, 2]]; actual {type(words).__name__} in the place of a sentence"
        )
    if hasattr(vocab, "encode") and len(words) and not isinstance(words, Tensor) and isinstance(words[0], str):
        return vocab.encode(words)
    return words


def check_numbers(words: Tensor, size: int, what: str = "word") -> None:
    """Raise unless there are some, and all are numbers below ``size``."""
    if len(words) == 0:
        raise StructureError(f"no {what}s: expected at least one sentence with a {what} in it")
    if int(words.min()) < 0 or int(words.max()) >= size:
        raise StructureError(
            f"{what} numbers must lie in 0 .. {size - 1}, actual range {int(words.min())} .. {int(words.max())}"
        )


def check_vocab(data: Any, known: Any, what: str = "word", examples: str = "sentences") -> None:
    """Raise if data bring a vocabulary that is not the model's."""
    given = getattr(data, "vocab", None)
    if given is None or isinstance(known, int) or given is known or list(given) == list(known):
        return
    raise StructureError(
        f"the {examples} number their {what}s by another vocabulary than the model's: re-encode them with "
        "with_vocab(model.vocab), or use fit.decode, which knows what to do with new ones"
    )


def vocab_of(sentences: Any, vocab: Any = None) -> Any:
    """The vocabulary given, or that of the corpus."""
    found = getattr(sentences, "vocab", None) if vocab is None else vocab
    if found is None:
        raise StructureError("sentences without a vocabulary: say how many symbols there are (vocab=...)")
    return found


def as_symbols(
    sentences: Any, lengths: Any, vocab: Any, split: Callable[[str], Sequence[str]] = str.split
) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
    """:func:`as_flat`, if all are symbols of this vocabulary."""
    words, lengths = as_flat(sentences, lengths, vocab, split)
    check_numbers(words, vocab if isinstance(vocab, int) else len(vocab), "symbol")
    check_vocab(sentences, vocab, "symbol")
    return words, lengths


def as_parsed(sentences: Any, lengths: Any, vocab: Any) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
    """:func:`as_symbols`, if trees over all sentences have room: they grow with the square of the length."""
    words, lengths = as_symbols(sentences, lengths, vocab)
    longest = int(lengths.max()) if len(lengths) else 0
    if longest > LONGEST:
        raise StructureError(
            f"a sentence of {longest:,} words has {longest * (longest + 1) // 2:,} spans, more than there is room for: "
            f"expected at most {LONGEST:,} words; leave long ones out (corpus.filter(max_length=...))"
        )
    return words, lengths


def _numbers(words: Any) -> Tensor:
    with warnings.catch_warnings():
        if isinstance(words, np.ndarray) and not words.flags.writeable:
            # Arrays mapped from disk are read-only, and torch warns of that. Nothing here writes to words, so they need
            # not be copied.
            warnings.simplefilter("ignore", UserWarning)
        try:
            found = torch.as_tensor(words)
        except (TypeError, ValueError) as error:
            raise StructureError(
                f"expected word numbers, found something else ({error}): strings need a vocabulary, "
                "and sentences of unequal length are a list without lengths"
            ) from None
    if found.numel() and (found.is_floating_point() or found.dtype == torch.bool):
        raise StructureError(f"word numbers must be integers, actual dtype = {found.dtype}")
    return found
