"""Unicode of every kind: what is read, learned from, saved, loaded, predicted and written comes back as it was."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import pyro_unsup as pu
from pyro_unsup.cli import app
from pyro_unsup.data import (
    Corpus,
    Documents,
    Segmented,
    TagDictionary,
    Vocab,
    read_brackets,
    read_conllu,
    read_documents,
    read_lines,
    read_segmented,
    read_tagged,
    write_brackets,
    write_conllu,
    write_labels,
    write_segmented,
    write_tagged,
)
from pyro_unsup.errors import InputError

#: Words that some program somewhere trips over.
ODD = {
    "accents apart": "cafe\u0301",
    "accents together": "caf\u00e9",
    "many accents": "Z\u0351\u036b\u0343a\u0363\u0368l\u034cg\u030c\u033do",
    "right to left": "\u0634\u0643\u0631\u0627",
    "vowel points": "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
    "direction marks": "\u202eabc\u202c",
    "zero width": "a\u200bb\u200cc\u200dd\u2060",
    "nothing but zero width": "\u200b",
    "soft hyphen": "co\u00adoperate",
    "byte order mark": "\ufeff",
    "begins with a byte order mark": "\ufeffa",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "skin": "\U0001f44d\U0001f3fd",
    "flag": "\U0001f1e9\U0001f1ea",
    "second plane": "\U00020000\U0002a6d6",
    "last plane": "\U0010ffff",
    "private": "\ue000\U000f0000",
    "no character": "\uffff\ufdd0",
    "null": "null",
    "NaN": "NaN",
    "infinity": "-inf",
    "number": "1e999",
    "JSON": '{"a":[1,"\\u0041"]}',
    "markup": "[red]<b>&amp;[/red]",
    "escapes": "\\n\\x00\\",
    "percent": "%s{0}{}$HOME`id`",
    "sharp s": "STRASSE\u1e9e\u00df",
    "Turkish": "\u0130\u0131iI",
    "ligature": "\ufb03",
    "digits": "\u0661\u0662\u0663\u00b2\u2460",
    "control": "\x01\x07\x1b[2J\x7f",
    "hash": "#",
    "dash": "-",
    "under": "_",
}
#: White space of Unicode, which words of plain text cannot hold, and columns can.
SPACES = ("\u0085", "\u00a0", "\u2028", "\u2029", "\u3000", "\x1c", "\x0b", "\x0c")
WORDS = list(ODD.values())


def tagged(words: list[str], tags: list[str] | None = None) -> Corpus:
    """Sentences of one, two, three ... words, with tags."""
    tags = words[::-1] if tags is None else tags
    vocab, tagset = Vocab(dict.fromkeys(words)), Vocab(dict.fromkeys(tags))
    ends = [0]
    while ends[-1] < len(words):
        ends.append(min(ends[-1] + len(ends), len(words)))
    heads = np.concatenate([np.arange(n) for n in np.diff(ends)])  # each on the word before
    return Corpus(vocab.encode(words), ends, vocab, tagset.encode(tags), tagset, heads.astype("i4"))


def strings(corpus: Corpus) -> list[tuple[list[str], list[str]]]:
    return [(corpus.sentence(i), corpus.sentence_tags(i)) for i in range(len(corpus))]


ROUND_TRIPS: dict[str, tuple[Callable[[Corpus, Path], None], Callable[[Path], Corpus]]] = {
    "columns": (lambda c, path: write_tagged(c, None, path), lambda path: read_tagged(path, "columns")),
    "slashes": (lambda c, path: write_tagged(c, None, path, "slashes"), lambda path: read_tagged(path, "slashes")),
    "conllu by tags": (lambda c, path: write_tagged(c, None, path, "conllu"), read_conllu),
    "conllu": (lambda c, path: write_conllu(c, None, path), read_conllu),
    "brackets": (lambda c, path: write_brackets(c, np.empty((0, 3)), path), read_brackets),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_every_writer_and_its_reader(tmp_path: Path, name: str) -> None:
    write, read = ROUND_TRIPS[name]
    words = [word for word in WORDS if not (name.startswith("conllu") and word == "_")]  # which says nothing there
    tags = [f"T{i % 7}\u0301\U0001f600" for i in range(len(words))]
    for corpus in (tagged(words, tags), tagged(words[::-1], tags)):
        write(corpus, tmp_path / "text")
        assert strings(read(tmp_path / "text")) == strings(corpus)


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_any_words(tmp_path: Path, name: str) -> None:
    """Whatever is written can be read back; what could not be is refused."""
    write, read = ROUND_TRIPS[name]
    path = tmp_path / "text"

    @example(["a\0b"])
    @example(["\ufeff", "a"])
    @example(["\ufeffa", "b"])
    @example(["\ufeff\ufeffa"])
    @example([" a", "b"])
    @example(["a ", "b"])
    @example(["\u00a0a", "b\u2028"])
    @example(["\ud800"])
    @settings(max_examples=50, derandomize=True, deadline=None, database=None)
    @given(
        st.lists(
            st.text(max_size=4) | st.sampled_from([*WORDS, *SPACES, "a\u2028b", " a", "a ", "\u0085"]),
            min_size=1,
            max_size=6,
        )
    )
    def check(words: list[str]) -> None:
        corpus = tagged(words, ["N"] * len(words))
        path.unlink(missing_ok=True)
        try:
            write(corpus, path)
        except InputError:
            assert not path.exists()
            return
        if (name.startswith("conllu") and "_" in words) or (name == "brackets" and {*"()"} & {*"".join(words)}):
            return  # which means nothing there, and is spelled otherwise here
        assert [words for words, _ in strings(read(path))] == [words for words, _ in strings(corpus)]

    check()


def test_labels_symbols_and_dictionaries(tmp_path: Path) -> None:
    labels = [word for word in WORDS if not word.isspace()]
    write_labels(labels, tmp_path / "labels")
    assert (tmp_path / "labels").read_bytes().decode().removeprefix("\ufeff").removesuffix("\n").split("\n") == labels
    symbols = [one for word in WORDS for one in word if one.split() == [one]]
    vocab = Vocab(dict.fromkeys(symbols))
    ends = np.arange(len(symbols)) % 3 == 2
    ends[-1] = True
    text = Segmented(Corpus(vocab.encode(symbols), [0, len(symbols)], vocab), ends)
    write_segmented(text, None, tmp_path / "symbols")
    assert read_segmented(tmp_path / "symbols").lines() == text.lines()
    dictionary = TagDictionary.from_corpus(tagged(WORDS))
    dictionary.save(tmp_path / "d.json")
    assert TagDictionary.load(tmp_path / "d.json") == dictionary
    tagged(WORDS).save(tmp_path / "corpus")
    assert Corpus.open(tmp_path / "corpus") == tagged(WORDS)


def test_plain_text_is_split_at_every_white_space(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for space in SPACES:
        path.write_bytes(f"a{space}b\nc\n".encode())
        corpus = read_lines(path)
        assert [corpus.sentence(i) for i in range(2)] == [["a", "b"], ["c"]]  # and never ends a line
        path.write_bytes(f"1\ta{space}b\t_\t_\tN\t_\t0\t_\t_\t_\n\n".encode())
        assert read_conllu(path).sentence(0) == [f"a{space}b"]


def test_forms_are_not_mixed_up(tmp_path: Path) -> None:
    """Nothing is normalised behind the user's back: two spellings are two words."""
    path = tmp_path / "text"
    path.write_text("cafe\u0301 caf\u00e9 \ufb03 ffi\n", encoding="utf-8")
    assert len(read_lines(path).vocab) == 4
    assert unicodedata.normalize("NFC", "cafe\u0301") == "caf\u00e9"


def test_read_fit_save_load_predict(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("".join(f"{word} {other}\n" for word in WORDS for other in WORDS[:3]), encoding="utf-8")
    corpus = read_lines(path)
    fit = pu.EM(pu.models.Tagger(3, corpus.vocab)).run(corpus, iterations=2, progress=False)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert list(back.model.vocab) == list(corpus.vocab)  # type: ignore[attr-defined]
    assert back.predict(corpus).tolist() == fit.predict(corpus).tolist()
    labels = [f"{word}{i}" for i, word in enumerate(WORDS[:3])]
    named = pu.load(tmp_path / "fit")
    named.config["labels"] = labels
    named.save(tmp_path / "named")
    assert pu.load(tmp_path / "named").labels == labels
    bags = Documents.count(corpus.words, corpus.offsets, corpus.vocab)
    pu.CollapsedGibbs(pu.models.Clusterer(2, bags.vocab)).run(bags, sweeps=2, progress=False).save(tmp_path / "s")
    assert list(pu.Samples.load(tmp_path / "s").model.vocab) == list(corpus.vocab)


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.stderr
    return result


def test_the_command_line(tmp_path: Path) -> None:
    text = tmp_path / "t\u00e9xt \U0001f600.txt"
    text.write_text("".join(f"{word} {other}\n" for word in WORDS for other in WORDS[:3]), encoding="utf-8")
    corpus = read_lines(text)
    model = tmp_path / "mod\u00e8le \u202e"
    run("fit", "tagger", text, "--tags", 2, "--max-iterations", 2, "--out", model)
    run("predict", model, text, "--out", tmp_path / "out.tagged", "--output-format", "slashes")
    found = read_tagged(tmp_path / "out.tagged", "slashes")
    assert [found.sentence(i) for i in range(len(found))] == [corpus.sentence(i) for i in range(len(corpus))]
    shown = json.loads(run("show", model, "--words", 1000, "--json").stdout)
    assert {one["word"] for state in shown["states"] for one in state["top_words"]} == {*corpus.vocab}
    page = run("show", model).stdout
    assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs") for one in page.replace("\n", ""))
    run("sample", "tagger", text, "--tags", 2, "--sweeps", 2, "--out", tmp_path / "samples")
    run("show", tmp_path / "samples", "--json")


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    """A name in another encoding, which Python spells with halves of pairs."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    text = folder / os.fsdecode(b"t\xe9xt.txt")
    text.write_text("a b\nb a\n")
    corpus = read_lines(text)
    corpus.save(folder / "corpus")
    assert Corpus.open(folder / "corpus") == corpus
    result = run("fit", "tagger", text, "--tags", 2, "--max-iterations", 1, "--out", folder / "m")
    assert "m" in result.stderr
    run("show", folder / "m")
    missing = CliRunner().invoke(app, ["show", str(folder / "no")])
    assert missing.exit_code == 2
    (folder / os.fsdecode(b"gr\xfc")).mkdir()
    (folder / os.fsdecode(b"gr\xfc") / "1").write_text("a car\n")
    for one in (text, folder / "corpus", folder / "m"):
        one.rename(tmp_path / one.name)
    documents = read_documents(folder)
    with pytest.raises(InputError, match="is no character") as caught:
        write_labels([documents.label(0)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert "\n" not in str(caught.value)
