"""Vocab: numbering strings."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError


def test_vocab_is_an_ordered_set_that_never_changes() -> None:
    vocab = Vocab(["b", "a"])
    assert (len(vocab), list(vocab), "a" in vocab, "c" in vocab, vocab[1]) == (2, ["b", "a"], True, False, "a")
    assert vocab == Vocab(("b", "a"))
    assert hash(vocab) == hash(Vocab(["b", "a"]))
    assert vocab != Vocab(["a", "b"])
    assert vocab != Vocab(["b", "a"], unknown="a")
    assert vocab.encode(["a", "b", "a"]).dtype == np.int32
    with pytest.raises(AttributeError):
        vocab.types = ("c",)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("types", "unknown", "message"),
    [
        (["a", "b", "a"], None, "'a' is twice in the vocabulary, expected distinct strings; drop one of them"),
        (["a"], "<unk>", "the unknown symbol '<unk>' is not in the vocabulary; add it to the types"),
        ([1], None, "a vocabulary is a list of strings, found something else; turn its members into str first"),
        ("abc", None, "a vocabulary is a list of strings, found something else; turn its members into str first"),
    ],
)
def test_vocab_refuses(types: list[str], unknown: str | None, message: str) -> None:
    with pytest.raises(InputError) as error:
        Vocab(types, unknown)
    assert str(error.value) == message


def test_unseen_strings_need_an_unknown_symbol() -> None:
    with pytest.raises(InputError, match=r"^'z' is not among the 1 known types, which have no unknown symbol$"):
        Vocab(["a"]).encode(["z"])
    assert Vocab(["a", "?"], unknown="?").encode(["z", "a"]).tolist() == [1, 0]
