"""Texts that become corpora on disk: the same corpora, and the same errors, as by the ordinary reader."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, Limits, Vocab, opening, pack_lines, packing, read_lines
from pyro_unsup.errors import InputError

SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace() and chr(code) not in "\r\n"]
# Characters that share bytes with spaces stand beside them.
NEAR = [*"aAé1", "\u200b", "\u205e", "\u2060", "\u3001", "\u1681", "\u00a1", "\u0084", "\ud7ff", "\U0001f600"]


def same(path: Path, **options: Any) -> None:
    """Both readers make the same corpus of a text, or say the same of it."""
    folder = path.with_name("corpus")
    shutil.rmtree(folder, ignore_errors=True)
    wanted: Any = None
    try:
        wanted = read_lines(path, **options)
    except InputError as error:
        said = str(error)
    if wanted is None:
        with pytest.raises(InputError) as found:
            pack_lines(path, folder, **options)
        assert str(found.value) == said
        assert not folder.exists()
        return
    corpus = pack_lines(path, folder, **options)
    assert corpus == wanted
    assert corpus.on_disk
    assert corpus.words.dtype == wanted.words.dtype


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.text(st.sampled_from(NEAR), min_size=1, max_size=4), min_size=1, max_size=5, unique=True),
    picks=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([*SPACES, "\n", "\r\n", "\n\n", " \n"])), max_size=40),
    options=st.sampled_from(
        [
            {},
            {"min_count": 2},
            {"unknown": "?"},
            {"min_count": 2, "unknown": "a"},
            {"lowercase": True, "strip_accents": True},
            {"numbers": True, "prefix": 1, "min_count": 2},
        ]
    ),
)
def test_any_text(
    tmp_path_factory: pytest.TempPathFactory, chunk: int, words: list[str], picks: Any, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("text") / "text"
    text = "".join(words[k % len(words)] + space for k, space in picks)
    path.write_bytes(text.encode())
    before, opening.CHUNK = opening.CHUNK, chunk
    try:
        same(path, **options)
    finally:
        opening.CHUNK = before


def test_every_space_splits_words_and_nothing_else_does(tmp_path: Path) -> None:
    every = [chr(code) for code in (*range(1, 0x3100), *range(0xFE00, 0x10100)) if chr(code) not in "\r\n"]
    (tmp_path / "text").write_text("\n".join(f"a{one}b" for one in every), encoding="utf-8")
    same(tmp_path / "text")
    assert sum(read_lines(tmp_path / "text").lengths == 2) == len(SPACES)


def test_tables_grow_with_the_number_of_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"{k:x}" * int(rng.integers(1, 30)) for k in range(30_000)]
    lines = [" ".join(words[k] for k in rng.integers(0, len(words), rng.integers(0, 40))) for _ in range(4000)]
    (tmp_path / "text").write_text("\n".join(lines))
    same(tmp_path / "text")
    same(tmp_path / "text", min_count=3)


def test_words_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    """All words of a table that is as full as it gets, so that look-ups go past others."""
    (tmp_path / "text").write_text(
        " ".join(f"w{k}" for k in range(2047)) + "\n" + " ".join(f"w{k}" for k in range(2047))
    )
    same(tmp_path / "text")


def test_a_given_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b\nb c\n\nd a\n")
    same(path, vocab=Vocab(["b", "<unk>", "a"], unknown="<unk>"))
    same(path, vocab=Vocab(["d", "c", "b", "a", "never"]))
    same(path, vocab=Vocab(["a", "b"]))  # the word 'c' in line 2
    same(path, vocab=Vocab(["a", "b"]), min_count=2)


def test_limits(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b\n" * 3 + "a b c d\n")
    for limits in (Limits(max_sentence=3), Limits(max_sentence=4), Limits(max_line=6), Limits(max_bytes=15)):
        same(path, limits=limits)


def test_packed_text_standard_input_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"\xef\xbb\xbfthe dog\nsees the cat"
    (tmp_path / "text.gz").write_bytes(gzip.compress(text))
    same(tmp_path / "text.gz")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    seen: list[int] = []
    assert pack_lines("-", tmp_path / "c", on_bytes=seen.append) == read_lines(tmp_path / "text.gz")
    assert sum(seen) in (len(text), len(text) + 1)


def test_an_older_corpus_stays_if_the_text_is_bad(tmp_path: Path) -> None:
    path, folder = tmp_path / "text", tmp_path / "corpus"
    path.write_text("a b\n")
    pack_lines(path, folder)
    path.write_bytes(b"a b\n\xff\n")
    with pytest.raises(InputError, match="text:2: byte 0xff is not UTF-8"):
        pack_lines(path, folder)
    assert Corpus.open(folder).sentence(0) == ["a", "b"]
    assert sorted(one.name for one in tmp_path.iterdir() if not one.name.endswith("lock")) == ["corpus", "text"]


def test_numbers_change_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BLOCK", 3)
    (tmp_path / "text").write_text("A b a\nB c a c\n" * 3)
    same(tmp_path / "text", lowercase=True)
