"""Corpus: cutting, mapping, checking."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

from .cases import small


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
