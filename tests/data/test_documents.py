"""Bags of words: counted, cut, filtered, looked up in another vocabulary, and labels written."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from pyro_unsup.data import Documents, Vocab, read_documents, toy, write_labels
from pyro_unsup.errors import InputError

VOCAB = Vocab(["a", "b", "c"])
LABELS = Vocab(["x", "y"])


def some() -> Documents:
    return Documents.count([0, 1, 0, 2, 1, 1, 0], [0, 4, 6, 7], VOCAB, [0, 1, 1], LABELS)


def test_words_are_counted_document_by_document() -> None:
    documents = some()
    assert [documents.bag(i) for i in range(3)] == [{"a": 2, "b": 1, "c": 1}, {"b": 2}, {"a": 1}]
    assert documents.bag(-1) == {"a": 1}
    assert [documents.label(i) for i in range(3)] == ["x", "y", "y"]
    assert (len(documents), documents.tokens, documents.lengths.tolist()) == (3, 7, [4, 2, 1])
    assert documents.frequencies.tolist() == [3, 3, 1]
    assert repr(documents) == "Documents(3 documents, 7 tokens, 3 types, 2 labels)"
    assert documents == some()
    assert documents != documents.select([0, 1])
    with pytest.raises(IndexError, match="document 3 of 3"):
        documents.bag(3)


def test_documents_may_be_empty() -> None:
    documents = Documents.count([0], [0, 0, 1, 1], VOCAB)
    assert [documents.bag(i) for i in range(3)] == [{}, {"a": 1}, {}]
    assert documents.lengths.tolist() == [0, 1, 0]


def test_select_takes_places_and_masks() -> None:
    documents = some()
    chosen = documents.select([2, 0])
    assert [chosen.bag(i) for i in range(2)] == [{"a": 1}, {"a": 2, "b": 1, "c": 1}]
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [1, 0]
    assert documents.select(np.array([True, False, True])) == documents.select([0, 2])
    with pytest.raises(InputError, match="indices: expected values from 0 to 2, found 3"):
        documents.select([3])
    with pytest.raises(InputError, match=r"mask over documents: expected shape \(3,\), found \(2,\)"):
        documents.select(np.array([True, False]))


def test_filters_drop_frequent_and_rare_words_in_any_order() -> None:
    documents = Documents.count([0] * 5 + [1] * 3 + [2] + [0, 1, 3, 3], [0, 5, 9, 13], Vocab(["a", "b", "c", "d"]))
    assert documents.frequencies.tolist() == [6, 4, 1, 2]
    filtered = documents.drop_frequent(1).drop_rare(2)
    assert filtered.vocab.types == ("b", "d")
    assert [filtered.bag(i) for i in range(2)] == [{"b": 3}, {"b": 1, "d": 2}]
    assert filtered.left_out == 1
    assert repr(filtered) == "Documents(2 documents, 6 tokens, 2 types, 1 empty ones left out)"
    assert documents.drop_rare(2).drop_frequent(1) == filtered
    assert documents.drop_frequent(0).drop_rare(1) == documents


def test_of_equally_frequent_words_the_first_goes() -> None:
    assert some().drop_frequent(1).vocab.types == ("b", "c")


def test_the_labels_of_the_documents_that_stay_stay_with_them() -> None:
    filtered = some().drop_frequent(1)
    assert [filtered.label(i) for i in range(len(filtered))] == ["x", "y"]
    assert filtered.left_out == 1


def test_filters_refuse_to_drop_everything() -> None:
    with pytest.raises(InputError, match="no document has a word left; drop fewer words"):
        some().drop_rare(100)
    with pytest.raises(InputError, match="0 or more, found -1"):
        some().drop_frequent(-1)


def test_another_vocabulary_drops_what_it_lacks_or_calls_it_unknown() -> None:
    documents = some()
    known = documents.with_vocab(Vocab(["z", "b"]))
    assert [known.bag(i) for i in range(3)] == [{"b": 1}, {"b": 2}, {}]
    assert len(known) == 3
    unknown = documents.with_vocab(Vocab(["?", "b"], unknown="?"))
    assert [unknown.bag(i) for i in range(3)] == [{"?": 3, "b": 1}, {"b": 2}, {"?": 1}]
    assert documents.with_vocab(Vocab(["c", "b", "a"])).bag(0) == {"a": 2, "b": 1, "c": 1}
    loud = Documents.count([0, 1], [0, 2], Vocab(["A", "a"]))
    assert loud.with_vocab(VOCAB, lowercase=True).bag(0) == {"a": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": [0, 3]}, "words: expected values from 0 to 2, found 3"),
        ({"counts": [1, 0]}, "counts: expected values from 1 to 2147483647, found 0"),
        ({"counts": [1]}, r"counts: expected shape \(2,\), found \(1,\)"),
        ({"offsets": [0, 1]}, "offsets: expected numbers from 0 to the 2 cells, found 0 to 1"),
        ({"labels": [0]}, "labels and labelset belong together"),
        ({"labels": [0, 1], "labelset": LABELS}, r"labels: expected shape \(1,\), found \(2,\)"),
        ({"labels": [2], "labelset": LABELS}, "labels: expected values from 0 to 1, found 2"),
    ],
)
def test_fields_that_do_not_fit_together(changes: dict, message: str) -> None:
    fields = {"words": [0, 1], "counts": [1, 1], "offsets": [0, 2], "vocab": VOCAB, **changes}
    with pytest.raises(InputError, match=message):
        Documents(**fields)


def test_documents_without_labels_say_so() -> None:
    with pytest.raises(InputError, match="these documents have no labels"):
        Documents.count([0], [0, 1], VOCAB).label(0)


def test_labels_are_written_one_a_line(tmp_path) -> None:
    write_labels(np.array([1, 0, 1]), tmp_path / "out", ["x", "y"])
    assert (tmp_path / "out").read_text() == "y\nx\ny\n"
    stream = io.StringIO()
    write_labels([2, -1], stream)
    assert stream.getvalue() == "2\n-1\n"
    stream = io.StringIO()
    write_labels(["a b", "c"], stream)
    assert stream.getvalue() == "a b\nc\n"
    with pytest.raises(InputError, match="labels: expected values from 0 to 1, found 2"):
        write_labels([2], stream, ["x", "y"])
    with pytest.raises(InputError, match="cannot be written, expected text without tabs"):
        write_labels([0], stream, ["x\ty"])
    with pytest.raises(InputError, match=r"labels: expected shape \(documents,\), found \(1, 1\)"):
        write_labels([[0]], stream)


def test_twenty_newsgroups_with_the_filters_of_the_paper(real_data) -> None:
    documents = read_documents(real_data / "20news-bydate.txt.gz")
    assert (len(documents), documents.tokens) == (18846, 5336756)
    assert documents.labelset is not None
    assert len(documents.labelset) == 20
    filtered = documents.drop_frequent(50).drop_rare(5)
    assert (len(filtered), filtered.tokens, len(filtered.vocab)) == (18846, 3236385, 34964)


def labelled() -> Documents:
    return Documents.count([0, 1, 0, 2, 1], [0, 3, 3, 5], Vocab(["a", "b", "c"], "c"), [1, 0, 1], Vocab(["x", "y"]))


@pytest.mark.parametrize("mmap", [True, False])
def test_documents_come_back_from_a_folder(tmp_path: Path, mmap: bool) -> None:
    for documents in (labelled(), Documents.count([], [0], Vocab([])), Documents.count([], [0, 0], Vocab(["a"]))):
        documents.save(tmp_path / "d")
        found = Documents.open(tmp_path / "d", mmap=mmap)
        assert found == documents
        assert found.lengths.tolist() == documents.lengths.tolist()
    labelled().save(tmp_path / "d")
    found = Documents.open(tmp_path / "d", mmap=mmap)
    assert found.on_disk == mmap
    assert not found.select([0, 1]).on_disk
    assert found.select([2, 0]) == labelled().select([2, 0])
    assert found.lengths.tolist() == [3, 0, 2]


def test_a_folder_of_something_else_is_no_documents(tmp_path: Path) -> None:
    toy.sentences(3).save(tmp_path / "c")
    with pytest.raises(InputError, match=r"no documents.json here, expected a documents folder"):
        Documents.open(tmp_path / "c")
    with pytest.raises(InputError, match=r"exists and is not a documents folder; choose another name or remove it"):
        labelled().save(tmp_path / "c")
    labelled().save(tmp_path / "d")
    head = tmp_path / "d" / "documents.json"
    text = head.read_text()
    head.write_text(text.replace('"vocab": ', '"other": '))
    with pytest.raises(InputError, match=r"d: documents.json does not say what its arrays are; save it again"):
        Documents.open(tmp_path / "d")
    head.write_text(text.replace('["a", "b", "c"]', '["a", "b"]').replace('"unknown": "c"', '"unknown": null'))
    with pytest.raises(InputError, match=r"d: words: expected values from 0 to 1, found 2"):
        Documents.open(tmp_path / "d")
