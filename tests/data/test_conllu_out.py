"""Heads out, and in again."""

from __future__ import annotations

import io
import lzma
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import (
    Corpus,
    Vocab,
    read_conllu,
    short_tag_sequences,
    spread_heads,
    toy,
    write_conllu,
    write_heads,
    write_tags,
)
from pyro_unsup.errors import InputError

from .test_conllu import TEXT, put
from .test_trees import trees

HEADS = [2, 0, 4, 5, 2, 2, 0, 2]


def text(heads: object, source: object = None) -> str:
    stream = io.StringIO()
    write_heads(TEXT.splitlines() if source is None else source, heads, stream)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_file_again_with_other_heads() -> None:
    assert (
        text(torch.tensor(HEADS))
        == """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV1\t_\t2\tdep\t2:dep\t_
2\tnos\tnosotros\tPRON\tP1\t_\t0\troot\t0:root\t_
2.1\t(tú)\t_\t_\t_\t_\t_\t_\t1:nsubj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tS\t_\t4\tdep\t4:dep\t_
4\tel\tel\tDET\tD\t_\t5\tdep\t5:dep\t_
5\tmar\tmar\tNOUN\tN\t_\t2\tdep\t2:dep\t_

1\t¡\t¡\tPUNCT\tF\t_\t2\tpunct\t_\t_
2\tMar\tmar\tNOUN\tN\t_\t0\troot\t_\t_
3\t!\t!\tPUNCT\tF\t_\t2\tpunct\t_\t_

"""
    )


def test_a_file_may_replace_itself(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    before = read_conllu(path)
    write_heads(path, HEADS, path)
    assert read_conllu(path) == Corpus(
        before.words, before.offsets, before.vocab, before.tags, before.tagset, heads=HEADS
    )
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InputError, match="the heads of sentence 1 have 2 roots, expected one"):
        write_heads(path, [*HEADS[:-1], 0], path)
    assert read_conllu(path).heads.tolist() == HEADS  # type: ignore[union-attr]


def test_heads_that_are_no_tree_are_refused() -> None:
    for heads, message in (
        (HEADS[:-1], r"heads: expected shape \(8,\), found \(7,\)"),
        ([1.5] * 8, "heads: expected integers"),
        ([*HEADS[:-1], 4], "heads: expected values from -1 to 3, found 4 at position 7"),
        ([2, 1, *HEADS[2:]], "the heads of sentence 0 form a cycle, expected a tree"),
        ([0, *HEADS[1:]], "the heads of sentence 0 have 2 roots, expected one"),
    ):
        with pytest.raises(InputError, match=message):
            text(heads)
    with pytest.raises(InputError, match="the source:2: expected 10 tab-separated columns, found 2"):
        text([0], ["# a", "1\tb"])


def test_heads_that_are_not_known() -> None:
    lines = text([-1, 1, 1, 1, -1, *HEADS[5:]]).splitlines()
    assert lines[3].split("\t")[6:8] == ["_", "_"]
    assert lines[4].split("\t")[6:8] == ["1", "dep"]
    assert read_conllu("x", lines=lines).heads.tolist() == [-1, 1, 1, 1, -1, *HEADS[5:]]  # type: ignore[union-attr]


@pytest.mark.parametrize("column", ["xpos", "upos"])
def test_a_corpus(tmp_path: Path, column: str) -> None:
    corpus = toy.sentences(20, seed=1).compact()
    write_conllu(corpus, None, tmp_path / "x.conllu", column)  # type: ignore[arg-type]
    found = read_conllu(tmp_path / "x.conllu", column)  # type: ignore[arg-type]
    assert [found.sentence(i) for i in range(20)] == [corpus.sentence(i) for i in range(20)]
    assert [found.sentence_tags(i) for i in range(20)] == [corpus.sentence_tags(i) for i in range(20)]
    assert np.array_equal(found.heads, corpus.heads)  # type: ignore[arg-type]
    relations = [line.split("\t")[6:8] for line in (tmp_path / "x.conllu").read_text().splitlines() if line]
    assert all((head == "0") == (relation == "root") for head, relation in relations)


def test_a_corpus_without_tags_and_with_an_empty_sentence() -> None:
    stream = io.StringIO()
    write_conllu(Corpus([0, 1], [0, 1, 1, 2], Vocab(["a b", "#"])), torch.tensor([0, 0]), stream)
    assert stream.getvalue() == "1\ta b\t_\t_\t_\t_\t0\troot\t_\t_\n\n1\t#\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    with pytest.raises(InputError, match="this corpus has no heads to write; give some"):
        write_conllu(Corpus([0], [0, 1], Vocab(["a"])), None, stream)
    with pytest.raises(InputError, match=r"'a\\tb' cannot be written, expected text without tabs and line ends"):
        write_conllu(Corpus([0], [0, 1], Vocab(["a\tb"])), [0], stream)
    with pytest.raises(InputError, match="no column 'pos', expected one of xpos, upos"):
        write_conllu(Corpus([0], [0, 1], Vocab(["a"])), [0], stream, "pos")  # type: ignore[arg-type]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(trees(), st.data())
def test_heads_spread_over_words_that_were_left_out(
    case: tuple[list[list[int]], list[bool]], data: st.DataObject
) -> None:
    sentences, _ = case
    heads, lengths = np.concatenate(sentences), [len(one) for one in sentences]
    gaps = data.draw(
        st.lists(st.integers(0, 2), min_size=len(heads) + len(lengths), max_size=len(heads) + len(lengths))
    )
    mask, ends, left = [], [0], iter(gaps)
    for length in [*lengths, 0]:  # the last one has no kept words
        for _ in range(length):
            mask += [False] * next(left) + [True]
        mask += [False] * next(left, 3)
        ends.append(len(mask))
    offsets, kept = np.array(ends), np.array(mask)
    full = spread_heads(heads, offsets, kept)
    corpus = Corpus(np.zeros(len(kept), int), offsets, Vocab(["w"]), heads=full)  # no cycle, all in range
    assert np.array_equal(corpus.keep_tokens(kept).heads, heads)  # type: ignore[arg-type]
    for start, end in pairwise(ends):
        some = [at for at in range(start, end) if mask[at]]
        for at in range(start, end):
            if not mask[at]:
                before, after = [k for k in some if k < at], [k for k in some if k > at]
                near = before[-1] if before else after[0] if after else at - 1
                assert full[at] == near - start + 1
        if not some and end > start:
            assert full[start] == 0


SIZES = {
    ("en_ewt", "train", "xpos"): (5378, 27967, 37),
    ("en_ewt", "test", "xpos"): (1224, 5716, 38),
    ("zh_gsd_v1", "train", "xpos"): (426, 3752, 24),
    ("zh_gsd_v1", "test", "xpos"): (56, 483, 22),
    ("fr_sequoia", "train", "upos"): (676, 3437, 14),
    ("fr_sequoia", "test", "upos"): (144, 673, 13),
}


@pytest.mark.parametrize("case", SIZES)
def test_short_sentences_of_real_treebanks(real_data: Path, case: tuple[str, str, str]) -> None:
    name, part, column = case
    path = real_data / "ud" / f"{name}-ud-{part}.conllu.xz"
    whole = read_conllu(path, column, drop_upos={"PUNCT", "SYM"})  # type: ignore[arg-type]
    corpus = short_tag_sequences(whole, 10, ())
    assert (len(corpus), corpus.tokens, len(corpus.vocab)) == SIZES[case]
    assert corpus.heads is not None
    assert corpus.heads.min() == 0


def test_short_sentences_of_the_wall_street_journal(real_data: Path) -> None:
    corpus = short_tag_sequences(read_conllu(real_data / "wsj_nltk_dep.conll.xz"))
    assert (len(corpus), corpus.tokens, len(corpus.vocab)) == (555, 3856, 32)
    assert corpus.heads is not None
    assert np.bincount(np.repeat(np.arange(555), corpus.lengths)[corpus.heads == 0]).tolist() == [1] * 555


def test_a_real_treebank_with_its_own_heads_is_the_same_but_for_relations(real_data: Path) -> None:
    path = real_data / "ud" / "fr_sequoia-ud-test.conllu.xz"
    stream = io.StringIO()
    write_heads(path, read_conllu(path).heads, stream)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        before = file.read().splitlines()
    after = stream.getvalue().splitlines()
    blank = [[cell for k, cell in enumerate(line.split("\t")) if k != 7] for line in before]
    assert [[cell for k, cell in enumerate(line.split("\t")) if k != 7] for line in after] == blank


@pytest.mark.parametrize(("column", "cell"), [("xpos", 4), ("upos", 3)])
def test_a_file_again_with_other_tags(column: str, cell: int) -> None:
    """Comments, ranges, empty nodes, lemmas, features, heads and MISC stay as they were."""
    tags = [f"T{k}" for k in range(8)]
    stream = io.StringIO()
    write_tags(TEXT.splitlines(), tags, stream, column)  # type: ignore[arg-type]
    left, lines = iter(tags), []
    for line in TEXT.splitlines():
        row = line.split("\t")
        if row[0].isdecimal():
            row[cell] = next(left)
        lines.append("\t".join(row))
    assert stream.getvalue().rstrip("\n").splitlines() == lines


def test_tags_that_cannot_be_written_are_refused() -> None:
    for tags, column, message in (
        (["a"] * 7, "xpos", "tags: expected 8, one a word of the file, found 7"),
        (["a\tb"] * 8, "xpos", "cannot be written, expected text without tabs and line ends"),
        (["a"] * 8, "lemma", "no column 'lemma', expected one of xpos, upos"),
    ):
        with pytest.raises(InputError, match=message):
            write_tags(TEXT.splitlines(), tags, io.StringIO(), column)  # type: ignore[arg-type]
