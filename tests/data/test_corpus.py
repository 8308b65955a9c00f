"""Corpus and Vocab: cutting, mapping, checking, saving."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data.corpus import Corpus, Vocab, find_cycle
from pyro_unsup.errors import InputError

FUZZ = settings(max_examples=200, derandomize=True, deadline=None)


def small() -> Corpus:
    """Two trees and a word: the dog barks . / it , stopped / yes"""
    return Corpus(
        words=np.array([0, 1, 2, 3, 4, 5, 6, 7]),
        offsets=np.array([0, 4, 7, 8]),
        vocab=Vocab(["the", "dog", "barks", ".", "it", ",", "stopped", "yes"]),
        tags=np.array([0, 1, 2, 3, 1, 3, 2, 4]),
        tagset=Vocab(["D", "N", "V", "P", "X"]),
        heads=np.array([2, 3, 0, 3, 2, 3, 0, -1]),
        spans=np.array([[0, 2], [0, 3], [0, 4], [0, 2], [0, 3]]),
        span_offsets=np.array([0, 3, 5, 5]),
    )


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


def test_a_corpus_knows_its_sentences() -> None:
    corpus = small()
    assert (len(corpus), corpus.tokens, corpus.lengths.tolist()) == (3, 8, [4, 3, 1])
    assert corpus.sentence(1) == ["it", ",", "stopped"] == corpus.sentence(-2)
    assert corpus.sentence_tags(0) == ["D", "N", "V", "P"]
    assert repr(corpus) == "Corpus(3 sentences, 8 tokens, 8 types, 5 tags, heads, brackets)"
    with pytest.raises(IndexError):
        corpus.sentence(3)
    assert corpus == small()
    assert corpus != corpus.select([0, 1])
    kinds = {name: getattr(corpus, name).dtype.name for name in ("words", "offsets", "tags", "heads", "spans")}
    assert kinds == {"words": "int32", "offsets": "int64", "tags": "int32", "heads": "int32", "spans": "int32"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": [0, 9]}, "words: expected values from 0 to 1, found 9 at position 1"),
        ({"words": [0.0, 1.0]}, "words: expected integers of shape (count,), found float64 of shape (2,)"),
        ({"words": [0, 2**40]}, "words: expected values that fit 32 bits, found 0 to 1099511627776"),
        ({"offsets": []}, "offsets: expected numbers from 0 to the 2 words, found none"),
        ({"offsets": [0, 1]}, "offsets: expected numbers from 0 to the 2 words, found 0 to 1"),
        ({"offsets": [0, 3, 2]}, "offsets: expected numbers that never fall, found a fall after position 1"),
        ({"tags": [0, 0]}, "tags and tagset belong together, found only one of them; give both or neither"),
        ({"tags": [0], "tagset": Vocab(["T"])}, "tags: expected shape (2,), found (1,)"),
        ({"tags": [0, 1], "tagset": Vocab(["T"])}, "tags: expected values from 0 to 0, found 1 at position 1"),
        ({"heads": [0, 3]}, "heads: expected values from -1 to 2, found 3 at position 1"),
        ({"heads": [2, 1]}, "the heads of sentence 0 form a cycle, expected a tree"),
        ({"spans": [[0, 2]]}, "spans and span_offsets belong together, found only one of them; give both or neither"),
        ({"spans": [[0, 3]], "span_offsets": [0, 1]}, "spans: expected values from 1 to 2, found 3 at position 0"),
        ({"spans": [[1, 1]], "span_offsets": [0, 1]}, "spans: expected values from 0 to 0, found 1 at position 0"),
        ({"spans": [0, 2], "span_offsets": [0, 1]}, "spans: expected integers of shape (brackets, 2), found int64"),
    ],
)
def test_a_corpus_checks_what_it_gets(changes: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"words": [0, 1], "offsets": [0, 2], "vocab": Vocab(["a", "b"])}
    with pytest.raises(InputError) as error:
        Corpus(**(fields | changes))  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_select_takes_sentences_in_any_order() -> None:
    corpus = small().select([2, 0, 0])
    assert [corpus.sentence(i)[0] for i in range(3)] == ["yes", "the", "the"]
    assert corpus.offsets.tolist() == [0, 1, 5, 9]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [-1, 2, 3, 0, 3, 2, 3, 0, 3]
    assert corpus.spans is not None
    assert corpus.span_offsets is not None
    assert (corpus.spans.tolist(), corpus.span_offsets.tolist()) == ([[0, 2], [0, 3], [0, 4]] * 2, [0, 0, 3, 6])
    assert small().select(np.array([True, False, True])) == small().select([0, 2])
    assert len(small().select([])) == 0
    with pytest.raises(InputError, match=r"the mask over sentences: expected shape \(3,\), found \(2,\)"):
        small().select([True, False])


def test_filter_by_length() -> None:
    assert small().filter(max_length=3) == small().select([1, 2])
    assert small().filter(min_length=2, max_length=3) == small().select([1])
    empty = Corpus([0], [0, 0, 1], Vocab(["a"]))  # type: ignore[arg-type]
    assert len(empty) == 2
    assert len(empty.filter()) == 1


def test_split_is_a_partition_by_seed() -> None:
    corpus = Corpus(np.arange(50), np.arange(51), Vocab(map(str, range(50))))
    first, second = corpus.split(0.8, seed=3)
    assert (len(first), len(second)) == (40, 10)
    assert sorted([*first.words, *second.words]) == list(range(50))
    assert (np.diff(first.words) > 0).all()
    assert (np.diff(second.words) > 0).all()
    assert corpus.split(0.8, seed=3)[0] == first != corpus.split(0.8, seed=4)[0]
    with pytest.raises(InputError, match=r"a split of 50 sentences by 1\.0 leaves one side empty; change the fraction"):
        corpus.split(1.0)


def test_drop_tags_mends_heads_and_brackets() -> None:
    corpus = small().drop_tags("P", "X", "not there")
    assert [corpus.sentence(i) for i in range(len(corpus))] == [["the", "dog", "barks"], ["it", "stopped"]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [2, 3, 0, 2, 0]
    assert corpus.spans is not None
    assert corpus.spans.tolist() == [[0, 2], [0, 3], [0, 2]]
    assert corpus.span_offsets is not None
    assert corpus.span_offsets.tolist() == [0, 2, 3]
    assert small().drop_tags("P").compact().tagset == Vocab(["D", "N", "V", "X"])
    with pytest.raises(InputError, match="this corpus has no tags; read it from a tagged file"):
        Corpus([0], [0, 1], Vocab(["a"])).drop_tags("P")  # type: ignore[arg-type]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    """Random dependency trees (words attached in random order to an earlier one), some unknown heads, and a mask."""
    sentences = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 8))
        order = draw(st.permutations(range(1, n + 1)))
        heads = [0] * n
        for place, word in enumerate(order):
            heads[word - 1] = draw(st.sampled_from([0, -1, *order[:place]]))
        sentences.append(heads)
    total = sum(map(len, sentences))
    return sentences, draw(st.lists(st.booleans(), min_size=total, max_size=total))


@FUZZ
@given(trees())
def test_kept_words_climb_to_the_nearest_kept_ancestor(case: tuple[list[list[int]], list[bool]]) -> None:
    sentences, mask = case
    lengths = [len(heads) for heads in sentences]
    flat = np.array([head for heads in sentences for head in heads])
    corpus = Corpus(np.zeros(len(flat), int), np.cumsum([0, *lengths]), Vocab(["w"]), heads=flat)
    expected, start = [], 0
    for heads in sentences:
        kept = mask[start : start + len(heads)]
        start += len(heads)
        rank = np.cumsum(kept)
        for word, head in enumerate(heads):
            if kept[word]:
                while head > 0 and not kept[head - 1]:
                    head = heads[head - 1]
                expected.append(rank[head - 1] if head > 0 else head)
    smaller = corpus.keep_tokens(np.array(mask))
    assert smaller.heads is not None
    assert smaller.heads.tolist() == expected
    assert smaller.lengths.tolist() == [
        count for i, n in enumerate(lengths) if (count := sum(mask[sum(lengths[:i]) : sum(lengths[:i]) + n]))
    ]
    assert Corpus(smaller.words, smaller.offsets, smaller.vocab, heads=smaller.heads) == smaller  # passes the checks


@FUZZ
@given(st.lists(st.lists(st.integers(-1, 6), min_size=6, max_size=6), min_size=1, max_size=3))
def test_find_cycle_agrees_with_walking(sentences: list[list[int]]) -> None:
    def on_cycle(heads: list[int], word: int) -> bool:
        at = heads[word - 1]
        for _ in heads:
            if at == word or at <= 0:
                break
            at = heads[at - 1]
        return at == word

    cyclic = [on_cycle(heads, word) for heads in sentences for word in range(1, 7)]
    found = find_cycle(np.array(sentences, dtype=np.int32).ravel(), np.arange(0, 6 * len(sentences) + 1, 6))
    assert found == (cyclic.index(True) if any(cyclic) else None)


def test_with_vocab_and_rare_words() -> None:
    corpus = Corpus(np.array([0, 1, 0, 2]), np.array([0, 4]), Vocab(["a", "b", "c", "unused"]))
    merged = corpus.merge_rare(2)
    assert merged.vocab == Vocab(["a", "<unk>"], unknown="<unk>")
    assert merged.sentence(0) == ["a", "<unk>", "a", "<unk>"]
    assert corpus.with_vocab(merged.vocab) == merged
    assert corpus.with_vocab(Vocab(["c", "b", "a"])).words.tolist() == [2, 1, 2, 0]
    assert merged.merge_rare(1).vocab == merged.vocab
    with pytest.raises(InputError, match=r"^'b' is not among the 1 known types"):
        corpus.with_vocab(Vocab(["a"]))
    assert corpus.compact().vocab == Vocab(["a", "b", "c"])
    assert merged.select([]).compact().vocab == Vocab(["<unk>"], unknown="<unk>")


def test_with_tags_gives_the_same_ids_to_every_corpus() -> None:
    mapping = {"V": "pred", "N": "arg", "D": "arg", "P": "other", "X": "other"}
    corpus = small().with_tags(mapping)
    assert corpus.tagset == Vocab(["pred", "arg", "other"]) == small().select([2]).with_tags(mapping).tagset
    assert corpus.sentence_tags(0) == ["arg", "arg", "pred", "other"]
    with pytest.raises(InputError, match="the tag map has no entry for 'D', 'N'; add one for each tag"):
        small().with_tags({"V": "v", "P": "p", "X": "x"})
    words = small().tags_as_words()
    assert words.vocab == small().tagset
    assert words.sentence(1) == ["N", "P", "V"]


@pytest.mark.parametrize("mmap", [True, False])
def test_save_and_open(tmp_path: Path, mmap: bool) -> None:
    folder = tmp_path / "deep" / "corpus"
    small().save(folder)
    assert Corpus.open(folder, mmap=mmap) == small()
    assert {one.name for one in folder.parent.iterdir()} == {"corpus"}
    names = {"corpus.json", *(f"{name}.npy" for name in ("words", "offsets", "tags", "heads", "spans", "span_offsets"))}
    assert {one.name for one in folder.iterdir()} == names
    plain = Corpus(np.array([0]), np.array([0, 1]), Vocab(["\ud800 lone"], unknown=None))
    plain.save(folder)  # an older corpus is replaced, with nothing of it left
    assert Corpus.open(folder, mmap=mmap) == plain
    assert {one.name for one in folder.iterdir()} == {"corpus.json", "words.npy", "offsets.npy"}


def test_a_mapped_corpus_is_an_ordinary_one(tmp_path: Path) -> None:
    import torch

    small().save(tmp_path / "c")
    corpus = Corpus.open(tmp_path / "c")
    assert type(corpus.words) is np.ndarray
    assert not corpus.words.flags.owndata
    assert torch.from_numpy(corpus.words).sum() == 28  # no warning about arrays that cannot be written
    corpus.select([0]).save(tmp_path / "c")  # replacing the files under a mapped corpus leaves it whole
    assert corpus == small()
    assert pickle.loads(pickle.dumps(corpus)) == small()


def test_empty_arrays_are_mapped_too(tmp_path: Path) -> None:
    corpus = small().select([2])
    corpus.save(tmp_path / "c")
    assert corpus.spans is not None
    assert corpus.spans.shape == (0, 2)
    assert Corpus.open(tmp_path / "c") == corpus


def test_save_overwrites_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    small().save(tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("dear")
    (tmp_path / "lookalike").mkdir()
    (tmp_path / "lookalike" / "corpus.json").write_text("{}")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("mine", "lookalike", "file", "link"):
        with pytest.raises(InputError, match=r"exists and is not a corpus folder; choose another name or remove it$"):
            small().save(tmp_path / name)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "dear"
    assert {one.name for one in tmp_path.iterdir()} == {"empty", "mine", "lookalike", "file", "link"}


def test_a_failed_save_leaves_the_old_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(tmp_path / "c")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match=r"c: cannot be written: No space left on device$"):
        small().select([0]).save(tmp_path / "c")
    assert [one.name for one in tmp_path.iterdir()] == ["c"]
    assert Corpus.open(tmp_path / "c") == small()


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_open_never_unpickles(tmp_path: Path) -> None:
    small().save(tmp_path / "c")
    trap = tmp_path / "trap"
    (tmp_path / "c" / "words.npy").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(InputError, match=r"words\.npy: not a \.npy array; save it again$"):
        Corpus.open(tmp_path / "c")
    np.save(tmp_path / "c" / "words.npy", np.array([Trap(trap)]), allow_pickle=True)
    with pytest.raises(InputError, match=r"words\.npy: is damaged; save it again$"):
        Corpus.open(tmp_path / "c")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (c / "corpus.json").unlink(), "no corpus.json here, expected a corpus folder"),
        (lambda c: (c / "corpus.json").write_text("{"), "corpus.json: cannot be read as JSON; save it again"),
        (lambda c: (c / "corpus.json").write_text("[" * 100_000), "corpus.json: cannot be read as JSON; save it again"),
        (lambda c: (c / "corpus.json").write_text("[]"), "corpus.json: not a description of a corpus; save it again"),
        (lambda c: edit(c, version=9), "corpus.json: version 9, expected 1; read it with the release that wrote it"),
        (lambda c: edit(c, arrays=["../x"]), "corpus.json: expected arrays among words, offsets, tags, heads"),
        (lambda c: edit(c, arrays=["words"]), "corpus.json does not describe a corpus; save the corpus again"),
        (lambda c: edit(c, vocab=None), "corpus.json does not describe a corpus; save the corpus again"),
        (lambda c: edit(c, vocab={"types": ["a"], "unknown": None}), "words: expected values from 0 to 0, found 1"),
        (lambda c: edit(c, vocab={"types": ["a", "a"], "unknown": None}), "'a' is twice in the vocabulary"),
        (lambda c: edit(c, vocab={"types": 3, "unknown": None}), "corpus.json does not describe a corpus"),
        (lambda c: (c / "tags.npy").unlink(), "tags.npy: cannot be read: No such file or directory"),
        (lambda c: (c / "tags.npy").write_bytes((c / "tags.npy").read_bytes()[:-4]), "tags.npy: is damaged"),
        (lambda c: np.save(c / "tags.npy", np.zeros(8)), "tags.npy: expected an array of int32, found float64"),
        (lambda c: np.save(c / "tags.npy", np.zeros(7, np.int32)), "tags: expected shape (8,), found (7,)"),
        (lambda c: np.save(c / "tags.npy", np.full(8, -1, np.int32)), "tags: expected values from 0 to 4, found -1"),
    ],
)
@pytest.mark.parametrize("mmap", [True, False])
def test_open_names_what_is_wrong_in_a_folder(tmp_path: Path, change: object, message: str, mmap: bool) -> None:
    small().save(tmp_path / "c")
    change(tmp_path / "c")  # type: ignore[operator]
    with pytest.raises(InputError) as error:
        Corpus.open(tmp_path / "c", mmap=mmap)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tmp_path / "c") in str(error.value)


def edit(folder: Path, **changes: object) -> None:
    head = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps(head | changes))


@settings(FUZZ, max_examples=500)
@given(data=st.data())
def test_a_damaged_folder_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    shutil.rmtree(folder, ignore_errors=True)
    small().save(folder)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    mmap = data.draw(st.booleans())
    message = ""
    try:
        assert isinstance(Corpus.open(folder, mmap=mmap), Corpus)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
