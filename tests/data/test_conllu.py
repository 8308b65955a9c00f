"""CoNLL-U and CoNLL-X: what is read, what is refused, and agreement with the conllu package on real treebanks."""

from __future__ import annotations

import lzma
import time
from pathlib import Path

import numpy as np
import pytest

from pyro_unsup.data import Corpus, Limits, Vocab, read_conllu
from pyro_unsup.errors import InputError

TEXT = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV1\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP1\t_\t1\tobj\t_\t_
2.1\t(tú)\t_\t_\t_\t_\t_\t_\t1:nsubj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tS\t_\t5\tcase\t_\t_
4\tel\tel\tDET\tD\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\t_

1\t¡\t¡\tPUNCT\tF\t_\t2\tpunct\t_\t_
2\tMar\tmar\tNOUN\tN\t_\t0\troot\t_\t_
3\t!\t!\tPUNCT\tF\t_\t2\tpunct\t_\t_
"""


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "text.conllu"
    path.write_text(text, encoding="utf-8")
    return path


def row(number: object = 1, form: str = "w", tag: str = "T", head: object = 0, upos: str = "U") -> str:
    return f"{number}\t{form}\tl\t{upos}\t{tag}\t_\t{head}\t_\t_\t_\n"


def refused(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as error:
        read_conllu(path, **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(f"{path}:")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}:")


def test_ranges_and_empty_nodes_do_not_shift_heads(tmp_path: Path) -> None:
    corpus = read_conllu(put(tmp_path, TEXT))
    assert [corpus.sentence(i) for i in range(2)] == [["vamos", "nos", "a", "el", "mar"], ["¡", "Mar", "!"]]
    assert [corpus.sentence_tags(i) for i in range(2)] == [["V1", "P1", "S", "D", "N"], ["F", "N", "F"]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [0, 1, 5, 5, 1, 2, 0, 2]
    assert corpus.spans is None


def test_columns(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    assert read_conllu(path, tags="upos", words="lemma").sentence(0) == ["ir", "nosotros", "a", "el", "mar"]
    assert read_conllu(path, "upos").sentence_tags(1) == ["PUNCT", "NOUN", "PUNCT"]
    assert read_conllu(path, tags=None).tags is None
    with pytest.raises(InputError, match="no column 'pos', expected one of xpos, upos"):
        read_conllu(path, tags="pos")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no column 'text', expected one of form, lemma"):
        read_conllu(path, words="text")  # type: ignore[arg-type]


def test_words_can_be_dropped_by_upos(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    corpus = read_conllu(path, drop_upos={"PUNCT", "ADP"})
    assert [corpus.sentence(i) for i in range(2)] == [["vamos", "nos", "el", "mar"], ["Mar"]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [0, 1, 4, 1, 0]
    assert "¡" not in corpus.vocab
    assert corpus.tagset == Vocab(["V1", "P1", "D", "N"])
    again = read_conllu(path, drop_upos={"PUNCT", "ADP"}, vocab=corpus.vocab, tagset=corpus.tagset)
    assert again == corpus  # what is dropped need not be known
    everything = {"VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT"}
    assert refused(path, drop_upos=everything) == " no sentence in it, expected at least one"


def test_text_without_annotation(tmp_path: Path) -> None:
    path = put(tmp_path, row(1, "a", "_", "_") + row(2, "b", "_", "_"))
    corpus = read_conllu(path, tagset=Vocab(["T"]))
    assert (corpus.tags, corpus.tagset, corpus.heads) == (None, None, None)
    corpus = read_conllu(put(tmp_path, row(1, head="_") + row(2, head=1) + row(3, head=0) + "\n" + row(1, head="_")))
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [-1, 1, 0, -1]


def test_words_with_spaces_and_any_script(tmp_path: Path) -> None:
    path = put(tmp_path, row(1, "1 000") + row(2, "\u00a0x\u3000", head=1) + row(3, "_", head=1) + row(4, "#", head=1))
    assert read_conllu(path).sentence(0) == ["1 000", "\u00a0x\u3000", "_", "#"]


def test_options(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT)
    corpus = read_conllu(path, lowercase=True, min_count=2)
    assert corpus.vocab == Vocab(["mar", "<unk>"], unknown="<unk>")
    assert corpus.sentence(1) == ["<unk>", "mar", "<unk>"]
    assert read_conllu(path, unknown="?").vocab.types[-1] == "?"
    assert read_conllu(path, vocab=corpus.vocab, lowercase=True) == corpus
    assert refused(path, vocab=Vocab(["vamos", "nos"])) == (
        "8: the word 'a' is not in the given set of 2; use a vocabulary with an unknown symbol"
    )
    assert refused(path, tagset=Vocab(["V1", "P1"])) == (
        "8: the tag 'S' is not in the given set of 2; expected one of V1, P1"
    )
    assert refused(path, limits=Limits(max_sentence=4)) == (
        "4: a sentence of more than 4 words; is a sentence break missing? "
        "Else break the sentence (in Python, or raise Limits.max_sentence)"
    )
    assert refused(path, vocab=corpus.vocab, min_count=2) == (
        " min_count and unknown make a new vocabulary; leave them out where one is given"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row(1) + "2\tw\n", "2: expected 10 tab-separated columns, found 2"),
        (row(1) + row(2).rstrip("\n") + "\tx\n", "2: expected 10 tab-separated columns, found 11"),
        ("1 w _ _ _ _ 0 _ _ _\n", "1: expected 10 tab-separated columns, found 1; separate them by tabs"),
        (row(2), "1: expected the word number 1, found '2'; number them 1, 2, 3"),
        (row(1) + row(1), "2: expected the word number 2, found '1'; number them 1, 2, 3"),
        (row(1) + row(3), "2: expected the word number 2, found '3'; number them 1, 2, 3"),
        (row("x"), "1: expected the word number 1, found 'x'; number them 1, 2, 3"),
        (row("0"), "1: expected the word number 1, found '0'; number them 1, 2, 3"),
        (row("\u0662"), "1: expected the word number 1, found '\u0662'; number them 1, 2, 3"),
        (row("2-3") + row(1), "1: expected the word number 1, found '2-3'; number them 1, 2, 3"),
        (row("1-0") + row(1), "1: expected the word number 1, found '1-0'; number them 1, 2, 3"),
        (row("1-3") + row(1) + row("2-3"), "3: expected the word number 2, found '2-3'; number them 1, 2, 3"),
        (row("1-2") + row(1), "1: a range up to word 2 of 1"),
        (row(1) + row("2.1"), "2: expected the word number 2, found '2.1'; number them 1, 2, 3"),
        (row("9" * 5000), f"1: expected the word number 1, found '{'9' * 60}...'; number them 1, 2, 3"),
        (row(1, head=2), "1: the head '2', expected a number from 0 to 1 or _"),
        (row(1, head="-1"), "1: the head '-1', expected a number from 0 to 1 or _"),
        (row(1, head="x"), "1: the head 'x', expected a number from 0 to 1 or _"),
        (row(1, head=""), "1: the head '', expected a number from 0 to 1 or _"),
        (row(1, head="\u0660"), "1: the head '\u0660', expected a number from 0 to 1 or _"),
        (row(1, head="9" * 5000), f"1: the head '{'9' * 60}...', expected a number from 0 to 1 or _"),
        (row(1) + "\n" + row(1) + row(2, head=2), "4: word 2 is its own head, expected a tree"),
        (row(1) + row(2, head=3) + row(3, head=2), "2: the heads form a cycle through word 2, expected a tree"),
        (
            row(1, head=2) + row(2, head=4) + row(3, head=0) + row(4, head=2),
            "2: the heads form a cycle through word 2, expected a tree",
        ),
        (
            "#\n" + row(1) + "\n" + row(1) + row(2),
            "5: a second root in the sentence at word 2, expected one; mend it or pass allow_multiple_roots=True",
        ),
        (row(1, form=""), "1: an empty word, expected at least one character"),
        (row(1, form="\u3000"), "1: an empty word, expected at least one character"),
        (row(1, tag=""), "1: an empty tag, expected at least one character"),
        (
            row(1) + row(2, tag="_", head=1),
            "2: a word without a tag in a sentence with tags; tag it, or choose another column",
        ),
        (
            row(1) + "\n" + row(1, tag="_"),
            "3: no tags in this sentence, but the text before it has some; tag all of it or nothing",
        ),
        (
            row(1, tag="_") + "\n" + row(1),
            "3: tags in this sentence, but the text before it has none; tag all of it or nothing",
        ),
        ("# only a comment\n\n", " no sentence in it, expected at least one"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    assert refused(put(tmp_path, text)) == message


def test_several_roots_by_request(tmp_path: Path) -> None:
    corpus = read_conllu(put(tmp_path, row(1) + row(2)), allow_multiple_roots=True)
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [0, 0]


def test_a_very_long_chain_needs_no_recursion(tmp_path: Path) -> None:
    path = put(tmp_path, "".join(row(i, head=i - 1) for i in range(1, 10_001)))
    assert read_conllu(path).tokens == 10_000
    path = put(tmp_path, "".join(row(i, head=i - 1 or 10_000) for i in range(1, 10_001)))
    assert refused(path) == "1: the heads form a cycle through word 1, expected a tree"


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("en_ewt-ud-train", "xpos"),
        ("en_ewt-ud-dev", "upos"),
        ("zh_gsd_v1-ud-dev", "xpos"),
        ("fr_sequoia-ud-dev", "upos"),
    ],
)
def test_agrees_with_the_conllu_package(real_data: Path, name: str, tags: str) -> None:
    conllu = pytest.importorskip("conllu")
    path = real_data / "ud" / f"{name}.conllu.xz"
    corpus = read_conllu(path, tags=tags)  # type: ignore[arg-type]
    forms, names, heads, lengths = [], [], [], []
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for sentence in conllu.parse_incr(stream):
            words = [token for token in sentence if isinstance(token["id"], int)]
            forms += [token["form"] for token in words]
            names += [token[tags] for token in words]
            heads += [token["head"] for token in words]
            lengths.append(len(words))
    assert corpus.lengths.tolist() == lengths
    assert corpus.vocab.decode(corpus.words) == forms
    assert corpus.tagset is not None
    assert corpus.tags is not None
    assert corpus.heads is not None
    assert corpus.tagset.decode(corpus.tags) == names
    assert corpus.heads.tolist() == heads


def test_conllx(real_data: Path) -> None:
    corpus = read_conllu(real_data / "wsj_nltk_dep.conll.xz")
    assert (len(corpus), corpus.tokens) == (3914, 94084)
    assert corpus.heads is not None
    assert (corpus.heads == 0).sum() == 3914


@pytest.mark.parametrize(
    ("name", "tags", "sentences", "words", "types"),
    [
        ("en_ewt-ud-train", "xpos", 5378, 27967, 37),
        ("en_ewt-ud-test", "xpos", 1224, None, None),
        ("zh_gsd_v1-ud-train", "xpos", 426, None, 24),
        ("zh_gsd_v1-ud-test", "xpos", 56, None, None),
        ("fr_sequoia-ud-train", "upos", 676, None, 14),
        ("fr_sequoia-ud-test", "upos", 144, None, None),
    ],
)
def test_short_sentences_without_punctuation(
    real_data: Path, name: str, tags: str, sentences: int, words: int | None, types: int | None
) -> None:
    path = real_data / "ud" / f"{name}.conllu.xz"
    corpus = read_conllu(path, tags=tags, drop_upos={"PUNCT", "SYM"})  # type: ignore[arg-type]
    short = corpus.filter(max_length=10).compact()
    assert len(short) == sentences
    assert words is None or short.tokens == words
    assert short.tagset is not None
    assert types is None or len(short.tagset) == types
    assert Corpus(short.words, short.offsets, short.vocab, short.tags, short.tagset, short.heads) == short


def test_reading_is_fast(real_data: Path) -> None:
    start = time.perf_counter()
    corpus = read_conllu(real_data / "ud" / "en_ewt-ud-train.conllu.xz")
    assert time.perf_counter() - start < 4
    assert (len(corpus), corpus.tokens) == (12544, 204577)
    assert corpus.heads is not None
    assert np.count_nonzero(corpus.heads == 0) == 12544
