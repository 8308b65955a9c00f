"""Trees out, and in again."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pyro_unsup.data import Corpus, Vocab, nltk_trees, read_brackets, toy, write_brackets
from pyro_unsup.errors import InputError

SENTENCES = [["the", "dog", "barks"], ["no"], ["a", "b", "c", "d"]]


def corpus(tagged: bool = True) -> Corpus:
    words = [word for sentence in SENTENCES for word in sentence]
    vocab, offsets = Vocab(words), np.cumsum([0, *map(len, SENTENCES)])
    tags = {"tags": [0, 1, 2, 1, 0, 0, 1, 1], "tagset": Vocab(["DT", "NN", "VBZ"])} if tagged else {}
    spans = {"spans": [[0, 2], [0, 3], [0, 4], [1, 3]], "span_offsets": [0, 2, 2, 4]}
    return Corpus(range(len(words)), offsets, vocab, **tags, **spans)


def text(*args: object, **kwargs: str) -> str:
    stream = io.StringIO()
    write_brackets(*args, stream, **kwargs)  # type: ignore[arg-type]
    return stream.getvalue()


def test_one_tree_a_line() -> None:
    assert text(corpus(), None).splitlines() == [
        "(X (X (DT the) (NN dog)) (VBZ barks))",
        "(X (NN no))",
        "(X (DT a) (X (DT b) (NN c)) (NN d))",
    ]
    predicted = torch.tensor([[0, 0, 1], [0, 1, 2], [0, 2, 3], [0, 1, 3], [0, 0, 3], [2, 0, 2], [2, 2, 4]])
    assert text(corpus(tagged=False), predicted, label="S").splitlines() == [
        "(S (_ the) (S (_ dog) (_ barks)))",
        "(S (_ no))",
        "(S (S (_ a) (_ b)) (S (_ c) (_ d)))",
    ]
    flat = Corpus([0, 0], [0, 0, 2], Vocab(["a"]))
    assert text(flat, []) == "\n(X (_ a) (_ a))\n"


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    for one in (corpus(), toy.sentences(200, seed=5)):
        write_brackets(one, None, tmp_path / "trees.mrg")
        again = read_brackets(tmp_path / "trees.mrg", vocab=one.vocab, tagset=one.tagset)
        for name in ("words", "offsets", "vocab", "tags", "tagset", "spans", "span_offsets"):
            assert np.array_equal(getattr(again, name), getattr(one, name)), name
    assert [path.name for path in tmp_path.iterdir()] == ["trees.mrg"]


def test_real_trees_read_the_same(real_data: Path, tmp_path: Path) -> None:
    one = read_brackets(real_data / "wsj_nltk.mrg.xz")
    write_brackets(one, None, tmp_path / "trees.mrg")
    assert read_brackets(tmp_path / "trees.mrg") == one


def test_brackets_in_words_are_spelled_out(tmp_path: Path) -> None:
    one = Corpus([0, 1, 2], [0, 3], Vocab(["(", "a)b", "$"]), tags=[0, 1, 0], tagset=Vocab(["(", "N"]))
    assert text(one, []) == "(X (-LRB- -LRB-) (N a-RRB-b) (-LRB- $))\n"


def test_trees_of_nltk() -> None:
    tree = pytest.importorskip("nltk.tree")
    for found, line in zip(nltk_trees(corpus()), text(corpus(), None).splitlines(), strict=True):
        assert found == tree.Tree.fromstring(line)
    assert str(nltk_trees(corpus(tagged=False), [[2, 1, 3]], label="S")[2]) == "(S a (S b c) d)"
    assert nltk_trees(Corpus([], [0, 0], Vocab([])), []) == [tree.Tree("X", [])]


def test_without_nltk_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.tree", None)
    with pytest.raises(InputError, match="trees of nltk need nltk; install it"):
        nltk_trees(corpus())


def test_what_is_no_tree_is_refused_and_nothing_written(tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    for bad, message in (
        ([[2, 0, 3], [2, 2, 4]], r"brackets: the spans \(0, 3\) and \(2, 4\) of sentence 2 cross, expected a tree"),
        ([[1, 0, 2]], r"brackets: the span \(0, 2\) does not lie in sentence 1 \(1 words\)"),
    ):
        with pytest.raises(InputError, match=message):
            write_brackets(corpus(), bad, path)
    spaced = Corpus([0], [0, 1], Vocab(["New York"]))
    with pytest.raises(InputError, match="'New York' cannot be written in brackets, expected text without white space"):
        write_brackets(spaced, [], path)
    with pytest.raises(InputError, match="this corpus has no brackets"):
        write_brackets(spaced, None, path)
    assert list(tmp_path.iterdir()) == []


def test_a_label_for_each_bracket() -> None:
    rows, labels = [[0, 0, 3], [0, 0, 2], [2, 1, 3], [0, 1, 2]], ["S", "N(P", "VP", "one word"]
    found = text(corpus(), rows[:3], label=labels[:3]).splitlines()  # type: ignore[arg-type]
    assert found == [
        "(S (N-LRB-P (DT the) (NN dog)) (VBZ barks))",
        "(X (NN no))",
        "(X (DT a) (VP (DT b) (NN c)) (NN d))",
    ]
    tree = nltk_trees(corpus(), rows[:3], label=labels[:3])[2]
    assert [node.label() for node in tree.subtrees()] == ["X", "DT", "VP", "DT", "NN", "NN"]
    with pytest.raises(InputError, match="expected one label for each of the 3 brackets, actual 4 labels"):
        text(corpus(), rows[:3], label=labels)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be written in brackets, expected text without white space"):
        text(corpus(), rows, label=labels)  # type: ignore[arg-type]
