"""What counts as sentences, in all its shapes; and what does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pyro_unsup.data import Corpus, Vocab
from pyro_unsup.errors import StructureError
from pyro_unsup.models.sentences import as_flat

WORDS, LENGTHS = [4, 0, 2, 2, 1, 3], [3, 1, 2]
PADDED = [[4, 0, 2], [2, 9, 9], [1, 3, 9]]


def corpus(words: Any = None, offsets: Any = None) -> Any:
    return SimpleNamespace(words=np.array(WORDS) if words is None else words,
                           offsets=np.array([0, 3, 4, 6]) if offsets is None else offsets)  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        ([[4, 0, 2], [2], [1, 3]],),
        (([4, 0, 2], (2,), [1, 3]),),
        ([torch.tensor([4, 0, 2]), np.array([2], dtype=np.int32), [1, 3]],),
        (torch.tensor(WORDS), torch.tensor(LENGTHS)),
        (torch.tensor(WORDS, dtype=torch.int32), LENGTHS),
        (np.array(WORDS), np.array(LENGTHS)),
        (WORDS, LENGTHS),
        (torch.tensor(PADDED), torch.tensor(LENGTHS)),
        (np.array(PADDED), LENGTHS),
        (PADDED, LENGTHS),
        (corpus(),),
        (corpus(words=WORDS, offsets=[0, 3, 4, 6]),),
    ],
    ids=["lists", "tuples", "mixed", "flat", "flat int32", "numpy", "flat list", "padded", "padded numpy",
         "padded list", "corpus", "corpus of lists"],
)  # fmt: skip
def test_every_form_gives_the_same(given: tuple[Any, ...]) -> None:
    words, lengths = as_flat(*given)
    assert words.tolist() == WORDS
    assert lengths.tolist() == LENGTHS
    assert lengths.dtype == torch.long


def test_a_corpus_of_the_library() -> None:
    made = Corpus(words=np.array([1, 0, 1], dtype=np.int32), offsets=np.array([0, 2, 3]), vocab=Vocab(["a", "b"]))
    words, lengths = as_flat(made)
    assert words.tolist() == [1, 0, 1]
    assert lengths.tolist() == [2, 1]


def test_empty_sentences_are_kept() -> None:
    words, lengths = as_flat([[1], [], [2, 0]])
    assert words.tolist() == [1, 2, 0]
    assert words.dtype == torch.long
    assert lengths.tolist() == [1, 0, 2]
    assert as_flat([[]])[0].dtype == torch.long


def test_words_mapped_from_disk_are_neither_copied_nor_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "words.npy"
    np.save(path, np.array(WORDS, dtype=np.int32))
    mapped = np.load(path, mmap_mode="r")
    words, lengths = as_flat(corpus(words=mapped))
    assert words.tolist() == WORDS
    assert lengths.tolist() == LENGTHS
    assert words.data_ptr() == mapped.__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([],), "no sentences: expected at least one, actual 0"),
        ((torch.tensor(WORDS),), r"words of shape \(6,\) need lengths: one number a sentence"),
        ((torch.tensor(PADDED),), r"words of shape \(3, 3\) need lengths"),
        ((WORDS,), "a list of sentences holds one sequence of word numbers a sentence; words .* need lengths"),
        ((torch.tensor(WORDS), [3, 2]), r"lengths add up to 5, actual shape of the words \(6,\)"),
        ((torch.tensor(PADDED), [3, 1]), r"expected 3 lengths, one a sentence, actual shape \(2,\)"),
        ((torch.tensor(PADDED), [3, 1, 4]), "a length of 4 exceeds the 3 positions given"),
        ((torch.tensor(PADDED), [3, 1, -1]), "lengths must not be negative, actual smallest = -1"),
        ((torch.tensor(WORDS), [3.0, 1.0, 2.0]), "lengths must be integers, actual dtype = torch.float64"),
        ((torch.tensor(WORDS).reshape(1, 2, 3), [6]), r"lengths add up to 6, actual shape of the words \(1, 2, 3\)"),
        (([["the", "dog"]],), "expected word numbers, found something else .*: strings need a vocabulary"),
        (([[4, 0, 2], [2]], [3, 1]), "expected word numbers, found something else .* a list without lengths"),
        (([[0.5, 1.0]],), "word numbers must be integers, actual dtype = torch.float64"),
        ((torch.rand(3), [3]), "word numbers must be integers, actual dtype = torch.float32"),
        ((torch.tensor([True]), [1]), "word numbers must be integers, actual dtype = torch.bool"),
        ((corpus(), LENGTHS), "a corpus knows the lengths of its sentences: leave lengths out"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_sentences_is_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        as_flat(*given)
