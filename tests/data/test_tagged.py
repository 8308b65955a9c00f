"""Tagged text in both forms, and the writer: what is written is read back."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, Limits, Vocab, read_conllu, read_tagged, write_tagged
from pyro_unsup.data.tagged import split_slash
from pyro_unsup.errors import InputError


def put(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "text.pos"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, *args: object, **options: object) -> str:
    with pytest.raises(InputError) as error:
        read_tagged(path, *args, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}:")


def pairs(corpus: Corpus) -> list[list[tuple[str, str]]]:
    return [list(zip(corpus.sentence(i), corpus.sentence_tags(i), strict=True)) for i in range(len(corpus))]


@pytest.mark.parametrize(
    "text",
    [
        "the DT B\ndog NN I\n\n# # O\n",
        "\n\nthe  DT B\ndog\tNN\tI \n \n\n#\t#\tO",
        "the/DT dog/NN\n\n#/#\n",
    ],
)
def test_both_forms_are_told_apart(tmp_path: Path, text: str) -> None:
    assert pairs(read_tagged(put(tmp_path, text))) == [[("the", "DT"), ("dog", "NN")], [("#", "#")]]


def test_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "the DT B\ndog NN I\n")
    assert read_tagged(path, tag_column=2).sentence_tags(0) == ["B", "I"]
    assert pairs(read_tagged(put(tmp_path, "1 000\tCD\neuros\tNN\n"))) == [[("1 000", "CD"), ("euros", "NN")]]
    assert pairs(read_tagged(put(tmp_path, "and/or C/C\n"), form="columns")) == [[("and/or", "C/C")]]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("dog/NN", ("dog", "NN")),
        ("and/or/CC", ("and/or", "CC")),
        (r"and\/or/CC", ("and/or", "CC")),
        (r"\//:", ("/", ":")),
        ("//:", ("/", ":")),
        (r"\\/SYM", ("\\", "SYM")),
        (r"\*/SYM", (r"\*", "SYM")),
        (r"w/A\/B", ("w", "A/B")),
        ("w/T\\", ("w", "T\\")),
        ("dog", None),
        ("dog/", None),
        ("/NN", None),
        (r"dog\/NN", None),
        ("/", None),
        ("", None),
    ],
)
def test_the_last_slash_splits(piece: str, expected: tuple[str, str] | None) -> None:
    assert split_slash(piece) == expected


def test_many_escapes_take_linear_time() -> None:
    assert split_slash("\\/" * 300_000) is None
    assert split_slash("w/" + "\\" * 600_000) == ("w", "\\" * 300_000)


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        (
            "a A x\n\nb B\n",
            "auto",
            "3: expected 3 columns as on line 1, found 2; mend the line, or use tabs where words",
        ),
        (
            "a\n",
            "auto",
            "1: expected a tag in column 1 (from 0), found 1 columns; read text without tags as plain lines",
        ),
        ("a\tA\n\tB\n", "auto", "2: an empty word, expected at least one character"),
        ("a\tA\nb\t\n", "auto", "2: an empty tag, expected at least one character"),
        ("a/A\nb/B c\n", "auto", "2: expected word/TAG, found 'c'; put a tag after the last slash"),
        ("\na b/B\n", "slashes", "2: expected word/TAG, found 'a'; put a tag after the last slash"),
        ("\n", "auto", " no sentence in it, expected at least one"),
        ("\n", "slashes", " no sentence in it, expected at least one"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, form: str, message: str) -> None:
    assert refused(put(tmp_path, text), form).startswith(message)


def test_options(tmp_path: Path) -> None:
    for text, line in (("The DT\ndog NN\n", 2), ("The/DT dog/NN\n", 1)):
        path = put(tmp_path, text)
        assert read_tagged(path, lowercase=True).sentence(0) == ["the", "dog"]
        tagset = Vocab(["DT", "VB"])
        expected = f"{line}: the tag 'NN' is not in the given set of 2; expected one of DT, VB"
        assert refused(path, tagset=tagset) == expected
        assert refused(path, limits=Limits(max_sentence=1)).startswith("1: a sentence of more than 1 words")
    with pytest.raises(InputError, match="no form 'xml', expected auto, columns or slashes"):
        read_tagged(path, "xml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tag column 0, expected 1 or more; column 0 holds the words"):
        read_tagged(path, tag_column=0)


def test_real_text(real_data: Path) -> None:
    corpus = read_tagged(real_data / "wsj_conll2000.train.txt.gz")
    assert repr(corpus) == "Corpus(8,936 sentences, 211,727 tokens, 19,122 types, 44 tags)"
    test = read_tagged(real_data / "wsj_conll2000.test.txt.gz", tagset=corpus.tagset)
    assert (len(test), test.tokens) == (2012, 47377)


def small() -> Corpus:
    return Corpus(
        words=np.array([0, 1, 2]),
        offsets=np.array([0, 2, 3]),
        vocab=Vocab(["1/2", "1 000", "b\\"]),
        tags=np.array([0, 1, 0]),
        tagset=Vocab(["A", "B"]),
        heads=np.array([2, 0, -1]),
    )


def written(corpus: Corpus, tags: object = None, **options: object) -> str:
    stream = io.StringIO()
    write_tagged(corpus, tags, stream, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def test_what_is_written() -> None:
    corpus = small()
    assert written(corpus) == "1/2 A\n1 000\tB\n\nb\\ A\n\n"
    assert written(corpus.select([1]), format="slashes") == "b\\\\/A\n"
    assert written(corpus, format="conllu") == (
        "1\t1/2\t_\t_\tA\t_\t2\tdep\t_\t_\n2\t1 000\t_\t_\tB\t_\t0\troot\t_\t_\n\n1\tb\\\t_\t_\tA\t_\t_\t_\t_\t_\n\n"
    )
    assert written(corpus.select([1]), format="conllu", column="upos") == "1\tb\\\t_\tA\t_\t_\t_\t_\t_\t_\n\n"


def test_whose_tags_are_written() -> None:
    corpus = small().select([1])
    assert written(corpus, [1]) == "b\\ 1\n\n"  # induced tags have no names, and never borrow those of the gold tags
    assert written(corpus, np.array([1]), tagset=Vocab(["X", "Y"])) == "b\\ Y\n\n"
    assert written(corpus, ["noun"]) == "b\\ noun\n\n"


@pytest.mark.parametrize(
    ("corpus", "tags", "options", "message"),
    [
        (small(), [0], {}, "tags: expected shape (3,), found (1,)"),
        (small(), [0, 1, 2], {"tagset": Vocab(["A", "B"])}, "tags: expected ids from 0 to 1, found 0 to 2"),
        (small(), ["a", "b", "a\tb"], {}, "'a\\tb' cannot be written, expected text without tabs and line ends"),
        (small(), ["a", "b", ""], {}, "'' cannot be written, expected text without tabs and line ends; rename it"),
        (
            small(),
            None,
            {"format": "slashes"},
            "'1 000' holds white space, which word/TAG cannot show; write columns",
        ),
        (small(), None, {"format": "xml"}, "no format 'xml', expected one of columns, slashes, conllu"),
        (Corpus([0], [0, 1], Vocab(["a"])), None, {}, "this corpus has no tags to write; give some"),  # type: ignore
    ],
)
def test_refusals_of_the_writer(
    tmp_path: Path, corpus: Corpus, tags: object, options: dict[str, object], message: str
) -> None:
    path = tmp_path / "out"
    path.write_text("precious")
    with pytest.raises(InputError) as error:
        write_tagged(corpus, tags, path, **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)
    assert path.read_text() == "precious"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\r"), min_size=1, max_size=4)
WORD = WORD.filter(lambda word: not word.isspace())
SOLID = WORD.filter(lambda word: word.split() == [word])


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    sentences=st.lists(st.lists(st.tuples(WORD | st.text("\\/a", min_size=1), SOLID), min_size=1), min_size=1),
    format=st.sampled_from(["columns", "slashes", "conllu"]),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]], format: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "round"
    flat = [pair for sentence in sentences for pair in sentence]
    if format == "slashes":
        flat = [("".join(word.split()), tag) for word, tag in flat]
    if format == "conllu":
        flat = [(word, tag + "x") for word, tag in flat]  # there _ means that nothing is known
    vocab, tagset = Vocab(dict.fromkeys(word for word, _ in flat)), Vocab(dict.fromkeys(tag for _, tag in flat))
    corpus = Corpus(
        words=vocab.encode(word for word, _ in flat),
        offsets=np.cumsum([0, *map(len, sentences)]),
        vocab=vocab,
        tags=tagset.encode(tag for _, tag in flat),
        tagset=tagset,
    )
    write_tagged(corpus, None, path, format)  # type: ignore[arg-type]
    read = read_conllu(path) if format == "conllu" else read_tagged(path, format)  # type: ignore[arg-type]
    assert read == corpus


def test_a_real_treebank_survives_the_round_trip(real_data: Path, tmp_path: Path) -> None:
    corpus = read_conllu(real_data / "ud" / "fr_sequoia-ud-dev.conllu.xz", tags="upos")
    write_tagged(corpus, None, tmp_path / "a.conllu", "conllu", column="upos")
    assert read_conllu(tmp_path / "a.conllu", tags="upos") == corpus
    write_tagged(corpus, None, tmp_path / "a.tsv")
    read = read_tagged(tmp_path / "a.tsv")
    assert (read.words.tolist(), read.vocab) == (corpus.words.tolist(), corpus.vocab)
    assert (read.tagset, read.lengths.tolist()) == (corpus.tagset, corpus.lengths.tolist())
