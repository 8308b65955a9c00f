"""Tag dictionaries: built, diluted, read, measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, TagDictionary, Vocab, read_brackets
from pyro_unsup.data.tagmaps import SMITH_EISNER_17
from pyro_unsup.errors import InputError

TAGSET = Vocab(["D", "N", "V"])


def corpus() -> Corpus:
    """the run / the run runs"""
    return Corpus(
        words=np.array([0, 1, 0, 1, 2]),
        offsets=np.array([0, 2, 5]),
        vocab=Vocab(["the", "run", "runs"]),
        tags=np.array([0, 1, 0, 2, 2]),
        tagset=TAGSET,
    )


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "words.dict"
    path.write_text(text, encoding="utf-8")
    return path


def test_from_a_corpus() -> None:
    dictionary = TagDictionary.from_corpus(corpus())
    assert (dictionary["the"], dictionary["run"], dictionary["runs"]) == (("D",), ("N", "V"), ("V",))
    assert dictionary["unseen"] == ("D", "N", "V")
    mask = dictionary.mask(Vocab(["unseen", "runs", "run", "the"]))
    assert mask.dtype == np.bool_
    assert mask.T.tolist() == [[True, True, True], [False, False, True], [False, True, True], [True, False, False]]
    assert repr(dictionary) == "TagDictionary(3 words, 3 tags)"


@pytest.mark.parametrize(("count", "listed"), [(1, 3), (2, 2), (2.5, 0), (np.inf, 0)])
def test_rare_words_are_open(count: float, listed: int) -> None:
    dictionary = TagDictionary.from_corpus(corpus(), min_count=count)
    assert len(dictionary) == listed
    assert dictionary.mask(corpus().vocab).all(axis=0).sum() == 3 - listed


def test_counts_may_come_from_the_training_text() -> None:
    training = corpus().select([1])
    dictionary = TagDictionary.from_corpus(corpus(), min_count=1, counted_in=training.compact())
    assert len(dictionary) == 3
    dictionary = TagDictionary.from_corpus(corpus(), min_count=1, counted_in=corpus().select([0]).compact())
    assert dictionary["run"] == ("N", "V")
    assert dictionary["runs"] == ("D", "N", "V")


def test_the_unknown_symbol_is_open() -> None:
    dictionary = TagDictionary.from_corpus(corpus().merge_rare(2))
    assert dictionary.words == Vocab(["the", "run"])
    assert dictionary["<unk>"] == ("D", "N", "V")


def test_statistics() -> None:
    dictionary = TagDictionary.from_corpus(corpus())
    assert dictionary.types_per_tag(corpus().vocab).tolist() == [1, 1, 2]
    assert dictionary.types_per_tag(Vocab(["run", "new"])).tolist() == [1, 2, 2]  # open words count for every tag
    assert dictionary.ambiguity(corpus()) == (7 / 5, 2 / 5)
    open_to_all = TagDictionary.from_corpus(corpus(), min_count=np.inf)
    assert open_to_all.ambiguity(corpus()) == (3, 1)
    assert open_to_all.types_per_tag(corpus().vocab).tolist() == [3, 3, 3]
    with pytest.raises(InputError, match="an empty corpus has no ambiguity; give one with words"):
        dictionary.ambiguity(corpus().select([]))


def test_coarser_tags() -> None:
    dictionary = TagDictionary.from_corpus(corpus()).with_tags({"D": "f", "N": "c", "V": "c"})
    assert dictionary.tagset == Vocab(["f", "c"])
    assert (dictionary["the"], dictionary["run"]) == (("f",), ("c",))
    with pytest.raises(InputError, match="the tag map has no entry for 'N', 'V'; add one for each tag"):
        dictionary = TagDictionary.from_corpus(corpus()).with_tags({"D": "f"})


def test_from_a_file(tmp_path: Path) -> None:
    path = put(tmp_path, "the D\n\nrun V N\n1 000\tN D\n")
    dictionary = TagDictionary.read(path, TAGSET)
    assert dictionary.tagset is TAGSET
    assert (dictionary["run"], dictionary["1 000"]) == (("N", "V"), ("D", "N"))
    assert TagDictionary.read(path).tagset == Vocab(["D", "V", "N"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the D\nrun N X\n", ":2: the tag 'X' is not among the 3 known tags"),
        ("the D\nrun\n", ":2: the word 'run' has no allowed tag; add one or drop the line"),
        ("run\t\n", ":1: the word 'run' has no allowed tag; add one or drop the line"),
        ("the D\nrun N\nthe V\n", ":3: the word 'the' is listed twice, first on line 1"),
        ("\tN\n", ":1: a line starts with a tab, expected a word before it"),
        ("\n", ": no word in it, expected lines of a word and its tags"),
        ("the D\nrun\0N", ":2: a NUL byte, expected UTF-8 text; is this a binary file?"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(InputError) as error:
        TagDictionary.read(path, TAGSET)
    assert str(error.value) == f"{path}{message}"


def test_bad_tables() -> None:
    with pytest.raises(InputError, match=r"table: expected shape \(3, 1\), found \(1, 3\)"):
        TagDictionary(TAGSET, Vocab(["a"]), np.ones((1, 3), bool))
    with pytest.raises(InputError, match="the word 'b' has no allowed tag; give it one or leave it out"):
        TagDictionary(TAGSET, Vocab(["a", "b"]), np.array([[1, 0], [0, 0], [1, 0]], bool))
    with pytest.raises(InputError, match="a dictionary needs a corpus with tags, found none"):
        TagDictionary.from_corpus(Corpus(np.array([0]), np.array([0, 1]), Vocab(["a"])))


def test_save_and_load(tmp_path: Path) -> None:
    for count in (1, np.inf):
        dictionary = TagDictionary.from_corpus(corpus(), min_count=count)
        dictionary.save(tmp_path / "d.json")
        assert TagDictionary.load(tmp_path / "d.json") == dictionary
        assert [one.name for one in tmp_path.iterdir()] == ["d.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "not a tag dictionary of version 1; save the dictionary again"),
        ({"format": "x"}, "not a tag dictionary of version 1; save the dictionary again"),
        (
            {"words": {"a": []}},
            "the word 'a' has no allowed tag; give it one or leave it out; save the dictionary again",
        ),
        ({"words": {"a": [7]}}, "not a tag dictionary of version 1; save the dictionary again"),
        ({"words": {"a": [-1]}}, "not a tag dictionary of version 1; save the dictionary again"),
        ({"words": {"a": [True]}}, "not a tag dictionary of version 1; save the dictionary again"),
        ({"words": ["a"]}, "not a tag dictionary of version 1; save the dictionary again"),
        ({"tagset": ["D", "D"]}, "'D' is twice in the vocabulary, expected distinct strings; drop one of them"),
        ({"tagset": 3}, "not a tag dictionary of version 1; save the dictionary again"),
    ],
)
def test_load_names_what_is_wrong(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "d.json"
    TagDictionary.from_corpus(corpus()).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError) as error:
        TagDictionary.load(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_load_of_other_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        TagDictionary.load(tmp_path / "nowhere")
    for content in (b"{", b"\xff", b"[" * 100_000):
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(InputError, match="not JSON; save the dictionary again"):
            TagDictionary.load(tmp_path / "d")
    (tmp_path / "d").write_bytes(b"[]")
    with pytest.raises(InputError, match="not a tag dictionary of version 1"):
        TagDictionary.load(tmp_path / "d")


@settings(max_examples=500, derandomize=True, deadline=None)
@given(content=st.binary(max_size=60) | st.text("the D\tN\nr \u00a0", max_size=60).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "dict"
    path.write_bytes(content)
    for read in (TagDictionary.read, TagDictionary.load):
        message = f"{path}:"
        try:
            assert isinstance(read(path), TagDictionary)
        except InputError as error:
            message = str(error)
        assert message.startswith(f"{path}:")
        assert "\n" not in message


def test_the_treebank_sample(real_data: Path) -> None:
    treebank = read_brackets(real_data / "wsj_nltk.mrg.xz")
    dictionary = TagDictionary.from_corpus(treebank)
    tags, ambiguous = dictionary.ambiguity(treebank)
    assert ambiguous == pytest.approx(0.365, abs=5e-4)
    assert tags == pytest.approx(1.68, abs=0.02)
    choices = dictionary.mask(treebank.vocab).sum(axis=0)[treebank.words]
    assert (1 / choices).mean() == pytest.approx(0.775, abs=0.005)  # a tag drawn at random from the allowed ones
    assert (1 / choices)[choices > 1].mean() == pytest.approx(0.384, abs=0.005)
    shares = [
        TagDictionary.from_corpus(treebank, d).with_tags(SMITH_EISNER_17).ambiguity(treebank)
        for d in (1, 2, 3, 5, 10, np.inf)
    ]
    assert shares == sorted(shares)  # the more diluted, the more ambiguous
    assert shares[-1] == (17, 1)


def test_a_mapping_of_words_to_tags() -> None:
    from pyro_unsup.data import toy

    dictionary = TagDictionary.from_mapping(toy.tag_dictionary(), toy.TAGSET)
    assert dictionary["walk"] == ("NOUN", "VERB")
    assert dictionary.mask(toy.VOCAB).sum() == sum(len(tags) for tags in toy.tag_dictionary().values())
    with pytest.raises(InputError, match="'X' is not among the 1 known types"):
        TagDictionary.from_mapping({"a": ["X"]}, Vocab(["D"]))
    with pytest.raises(InputError, match="'a' has no allowed tag"):
        TagDictionary.from_mapping({"a": [], "b": ["D"]})
