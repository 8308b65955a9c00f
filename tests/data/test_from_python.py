"""Data that are in Python already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pyro_unsup import InputError
from pyro_unsup.data import Bitext, Corpus, Documents, Vocab

LINES = ["the dog barks", "a cat", "the cat sleeps here"]
TAGS = ["D N V", "D N", "D N V A"]


@pytest.mark.parametrize(
    "sentences",
    [
        LINES,
        [line.split() for line in LINES],
        tuple(tuple(line.split()) for line in LINES),
        (line.split() for line in LINES),
        np.array([np.array(line.split()) for line in LINES], dtype=object),
        pd.Series([line.split() for line in LINES]),
    ],
    ids=["strings", "lists", "tuples", "generator", "array", "series"],
)
def test_any_iterable_of_sentences_makes_the_same_corpus(sentences: Any) -> None:
    corpus = Corpus.of(sentences, tags=TAGS)
    assert [corpus.sentence(i) for i in range(3)] == [line.split() for line in LINES]
    assert [corpus.sentence_tags(i) for i in range(3)] == [line.split() for line in TAGS]


def test_options_are_those_of_the_readers() -> None:
    corpus = Corpus.of(["A b b", "a c"], lowercase=True, min_count=2)
    assert corpus.sentence(0) == ["a", "b", "b"]
    assert corpus.sentence(1) == ["a", "<unk>"]
    assert Corpus.of(["b x"], vocab=corpus.vocab).sentence(0) == ["b", "<unk>"]


@pytest.mark.parametrize(
    ("sentences", "tags", "message"),
    [
        ("one string", None, "expected many sentences, actual one string: give a list of strings"),
        (["a b", ""], None, "sentence 2 has no words; leave it out"),
        ([["a", 3]], None, r"sentence 1 should hold strings, found 3 \(int\)"),
        ([["a", " "]], None, "sentence 1 holds an empty string; leave it out"),
        ([3], None, "sentence 1 should be a string or a list of strings, actual 3"),
        ([], None, "no sentence in it, expected at least one"),
        (["a b"], ["X"], "sentence 1 has 2 words and 1 tags, expected one tag a word"),
        (["a b", "c"], ["X Y"], "1 sentences have tags, but sentence 2 has none; tag all or none"),
        (["a b"], ["X Y", "Z"], "there are tags for more than the 1 sentences"),
    ],
)
def test_what_is_wrong_with_sentences_is_said(sentences: Any, tags: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corpus.of(sentences, tags)


def frame() -> pd.DataFrame:
    rows = [
        (number, word, tag)
        for number, (line, tags) in enumerate(zip(LINES, TAGS, strict=True))
        for word, tag in zip(line.split(), tags.split(), strict=True)
    ]
    return pd.DataFrame(rows, columns=["sentence", "form", "pos"])


def test_a_table_with_a_row_a_word() -> None:
    assert Corpus.of_frame(frame(), sentence="sentence", word="form", tag="pos") == Corpus.of(LINES, TAGS)
    assert Corpus.of_frame(frame(), sentence="sentence", word="form") == Corpus.of(LINES)
    named = frame().assign(sentence=lambda f: f["sentence"].map({0: "z", 1: "a", 2: "m"}))
    assert Corpus.of_frame(named, sentence="sentence", word="form") == Corpus.of(LINES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="form"), "the table has no column 'form': it has sentence, pos"),
        (lambda f: f.assign(pos=[None, *f["pos"][1:]]), "column 'pos' has no value in row 0"),
        (lambda f: f.iloc[[0, 3, 1, 2]], "the rows of sentence 0 do not lie together; sort the table by 'sentence'"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corpus.of_frame(change(frame()), sentence="sentence", word="form", tag="pos")


def test_documents_of_texts() -> None:
    documents = Documents.of(["ball goal ball", ["moon"]], labels=["sport", "space"])
    assert [documents.bag(i) for i in range(2)] == [{"ball": 2, "goal": 1}, {"moon": 1}]
    assert [documents.label(i) for i in range(2)] == ["sport", "space"]
    assert Documents.of(["ball goal ball", ["moon"]]).labels is None
    with pytest.raises(InputError, match="2 documents have 1 labels, expected one each"):
        Documents.of(["a", "b"], labels=["x"])
    with pytest.raises(InputError, match="document 2 has no words; leave it out"):
        Documents.of(["a", " "])


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix, sparse.csr_array, sparse.coo_array, list])
def test_documents_of_a_matrix(make: Any) -> None:
    rows = [[2, 0, 1], [0, 3, 0], [0, 0, 0]]
    documents = Documents.of_matrix(make(rows), ["ball", "moon", "goal"], labels=["a", "b", "a"])
    assert [documents.bag(i) for i in range(3)] == [{"ball": 2, "goal": 1}, {"moon": 3}, {}]
    assert documents.tokens == 6
    assert documents.vocab == Vocab(["ball", "moon", "goal"])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 2]], r"expected a matrix of shape \(documents, 3 words\), actual shape \(1, 2\)"),
        ([[1, -1, 0]], "a matrix of documents holds whole numbers, 0 or more"),
        ([[1, 0.5, 0]], "a matrix of documents holds whole numbers, 0 or more"),
    ],
)
def test_what_is_wrong_with_a_matrix_is_said(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Documents.of_matrix(matrix, ["a", "b", "c"])


def test_bitexts_of_pairs() -> None:
    pairs = Bitext.of((("the house", "das Haus"), (["a"], ["ein"])), lowercase=True)
    assert pairs.source.sentence(0) == ["the", "house"]
    assert pairs.target.sentence(0) == ["das", "haus"]
    more = Bitext.of([("a house", "ein haus")], source_vocab=pairs.source.vocab, target_vocab=pairs.target.vocab)
    assert more.source.vocab is pairs.source.vocab
    with pytest.raises(InputError, match="pair 1 should be a sentence and its translation, actual 'ab'"):
        Bitext.of(["ab"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="the target side of pair 2 has no words; drop the pair"):
        Bitext.of([("a", "b"), ("c", "")])
