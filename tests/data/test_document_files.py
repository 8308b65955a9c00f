"""Documents from lines and folders, and every way in which they may be wrong."""

from __future__ import annotations

import gzip
import re

import pytest

from pyro_unsup.data import Limits, Vocab, read_documents
from pyro_unsup.data.document_files import document_names
from pyro_unsup.errors import InputError


@pytest.fixture
def write(tmp_path):
    def write_(text: str, name: str = "docs.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
        return path

    return write_


def bags(documents):
    return [documents.bag(i) for i in range(len(documents))]


def labels(documents):
    return [documents.label(i) for i in range(len(documents))]


def test_plain_text_is_one_document_a_line(write) -> None:
    documents = read_documents(write("a b a\nc\n"))
    assert bags(documents) == [{"a": 2, "b": 1}, {"c": 1}]
    assert documents.labels is None


def test_labels_stand_before_a_tab(write) -> None:
    documents = read_documents(write("sport\ta b\nart news\tc c\nsport\ta\n"))
    assert bags(documents) == [{"a": 1, "b": 1}, {"c": 2}, {"a": 1}]
    assert labels(documents) == ["sport", "art news", "sport"]
    assert documents.labelset.types == ("sport", "art news")


def test_newsgroups_have_four_columns_and_splits(write) -> None:
    path = write("train\tsci\t1\ta b\ntest\ttalk\t2\tb c\ntrain\ttalk\t9\tc\n")
    documents = read_documents(path)
    assert bags(documents) == [{"a": 1, "b": 1}, {"b": 1, "c": 1}, {"c": 1}]
    assert labels(documents) == ["sci", "talk", "talk"]
    assert labels(read_documents(path, split="train")) == ["sci", "talk"]
    assert labels(read_documents(path, "newsgroups", split="test")) == ["talk"]
    with pytest.raises(InputError, match=r"docs.txt: no document of the split 'dev' in it"):
        read_documents(path, split="dev")


def test_the_form_can_be_given(write) -> None:
    path = write("a\tb a\n")
    assert bags(read_documents(path, "plain")) == [{"a": 2, "b": 1}]
    assert labels(read_documents(path)) == ["a"]


def test_packed_files_and_lower_case(tmp_path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"A a B\n"))
    assert bags(read_documents(tmp_path / "x.gz", lowercase=True)) == [{"a": 2, "b": 1}]


def test_vocabularies_of_a_trained_model(write) -> None:
    path = write("x\ta b q q\ny\tq\n")
    known = read_documents(path, vocab=Vocab(["b", "a"]), labelset=Vocab(["y", "x"]))
    assert bags(known) == [{"b": 1, "a": 1}, {}]
    assert known.labels.tolist() == [1, 0]
    assert bags(read_documents(path, vocab=Vocab(["a", "?"], unknown="?"))) == [{"a": 1, "?": 3}, {"?": 1}]
    with pytest.raises(InputError, match=r"docs.txt:2: the label 'y' is not in the given set, expected one of x"):
        read_documents(path, labelset=Vocab(["x"]))


def test_empty_documents(write) -> None:
    path = write("x\ta\ny\t \nx\tb\n")
    with pytest.raises(
        InputError, match=r"docs.txt:2: an empty document, expected at least one word; drop it, or read"
    ):
        read_documents(path)
    dropped = read_documents(path, empty="drop")
    assert (labels(dropped), dropped.left_out) == (["x", "x"], 1)
    kept = read_documents(path, empty="keep")
    assert (labels(kept), bags(kept), kept.left_out) == (["x", "y", "x"], [{"a": 1}, {}, {"b": 1}], 0)
    with pytest.raises(InputError, match=r"docs.txt:2: an empty document"):
        read_documents(write("a\n\nb\n"))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x\ta\nb\n", {}, r":2: expected 2 columns split by tabs \(label, text\), found 1; is the label missing"),
        ("x\ta\n\tb\n", {}, ":2: the label is missing, expected one before the tab"),
        ("x\ta\ny\tb\tc\n", {}, r":2: expected 2 columns split by tabs \(label, text\), found 3$"),
        (
            "a\tb\tc\n",
            {},
            ":1: cannot tell the form from a first line of 3 columns; give one of plain, labelled, newsgroups",
        ),
        ("a\n", {"form": "labelled"}, ":1: expected 2 columns"),
        ("t\t\t3\ta\n", {}, ":1: the label is missing"),
        ("", {}, ": no document in it, expected at least one"),
        ("a\n", {"split": "train"}, ": a split can be chosen only in the form newsgroups"),
        ("a\n", {"form": "words"}, ": no form 'words', expected auto, folders or one of plain, labelled, newsgroups"),
        ("a\n", {"empty": "skip"}, ": empty: expected error, drop or keep, found 'skip'"),
        ("a b\nc\x00\n", {}, ":2: a NUL byte"),
        ("aaaa\n", {"limits": Limits(max_line=3)}, ":1: a line of more than 3 bytes"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(write, text, options, message) -> None:
    with pytest.raises(InputError, match="docs.txt" + message):
        read_documents(write(text), **options)


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(InputError, match=r"none.txt: cannot be read: No such file"):
        read_documents(tmp_path / "none.txt")


MESSAGE = "From: me@here.org\nSubject: Re: Big Orbits\nLines: 2\n\nIt is 42 km.\n\nSubject: to_change\n"


def test_folders_hold_one_label_each_and_a_file_a_document(write, tmp_path) -> None:
    write(MESSAGE, "ng/sci.space/10")
    write("only text, no head\n\nat all", "ng/sci.space/9")
    write("b", "ng/alt.x/1")
    write("junk", "ng/.hidden/1")
    write("junk", "ng/alt.x/.DS_Store")
    documents = read_documents(tmp_path / "ng")
    assert labels(documents) == ["alt.x", "sci.space", "sci.space"]
    assert documents.bag(1) == {"only": 1, "text": 1, "no": 1, "head": 1, "at": 1, "all": 1}
    words = ["re", "big", "orbits", "it", "is", "km", "subject", "to", "change"]
    assert documents.bag(2) == dict.fromkeys(words, 1)
    assert read_documents(tmp_path / "ng", "folders") == documents


def test_each_file_has_an_encoding_of_its_own(tmp_path) -> None:
    """One old file among many is read as what it is. The others stay as they are."""
    (tmp_path / "ng" / "a").mkdir(parents=True)
    (tmp_path / "ng" / "a" / "1").write_bytes(b"Subject: x\r\n\r\ncaf\xe9\r\n")
    (tmp_path / "ng" / "a" / "2").write_bytes("thé".encode())
    documents = read_documents(tmp_path / "ng")
    assert bags(documents) == [{"x": 1, "café": 1}, {"thé": 1}]
    assert documents.recoded == 1
    assert "1 files read as Latin-1" in repr(documents)
    with pytest.raises(InputError, match=r"ng/a/1:3: byte 0xe9 is not UTF-8; convert the file to UTF-8 first"):
        read_documents(tmp_path / "ng", encoding="utf-8")
    assert bags(read_documents(tmp_path / "ng", encoding="latin-1"))[1] == {"thã": 1}
    with pytest.raises(InputError, match="encoding: expected auto, utf-8 or latin-1, found 'ebcdic'"):
        read_documents(tmp_path / "ng", encoding="ebcdic")


def test_links_are_never_followed(write, tmp_path) -> None:
    secret = write("secret", "elsewhere/1")
    write("b", "ng/a/1")
    (tmp_path / "ng" / "a" / "2").symlink_to(secret)
    with pytest.raises(InputError, match=r"ng/a/2: a link, which might lead out of the folder; put the file itself"):
        read_documents(tmp_path / "ng")
    (tmp_path / "ng" / "a" / "2").unlink()
    (tmp_path / "ng" / "b").symlink_to(secret.parent)
    with pytest.raises(InputError, match=r"ng/b: a link"):
        read_documents(tmp_path / "ng")


def test_a_folder_of_files_has_no_labels(write, tmp_path) -> None:
    write("b a", "flat/10.txt")
    write("a", "flat/2.txt")
    found = read_documents(tmp_path / "flat")
    assert (len(found), found.labels, found.tokens) == (2, None, 3)
    assert document_names(tmp_path / "flat") == ["10.txt", "2.txt"]
    (tmp_path / "flat" / "3").symlink_to(tmp_path / "flat" / "2.txt")
    with pytest.raises(InputError, match=r"flat/3: a link"):
        read_documents(tmp_path / "flat")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="none: no document in it, expected at least one"):
        read_documents(tmp_path / "none")


def test_folders_that_are_not_as_expected(write, tmp_path) -> None:
    write("a", "deep/x/y/1")
    with pytest.raises(InputError, match=r"deep/x/y: not a plain file, expected one a document; move it away"):
        read_documents(tmp_path / "deep")
    write("42", "blank/x/1")
    with pytest.raises(InputError, match=re.escape("blank/x/1: an empty document")):
        read_documents(tmp_path / "blank")
    write("aaaa bbbb", "big/x/1")
    write("aaaa bbbb", "big/x/2")
    with pytest.raises(InputError, match=r"big: more than 12 bytes in all; take fewer documents"):
        read_documents(tmp_path / "big", limits=Limits(max_bytes=12))
