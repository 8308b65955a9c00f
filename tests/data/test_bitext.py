"""Sentences and their translations: from one file or two, with links, or refused with file and line."""

from __future__ import annotations

import gzip
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyro_unsup.data import Bitext, Corpus, Links, Vocab, read_bitext, toy
from pyro_unsup.data.bitext import concatenate
from pyro_unsup.data.forms import Forms
from pyro_unsup.errors import InputError


def put(tmp_path: Path, text: str, name: str = "text") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_one_file_or_two(tmp_path: Path) -> None:
    one = read_bitext(put(tmp_path, "the house ||| das Haus\na  book|||ein Buch\n"))
    assert [one.source.sentence(i) for i in range(2)] == [["the", "house"], ["a", "book"]]
    assert [one.target.sentence(i) for i in range(2)] == [["das", "Haus"], ["ein", "Buch"]]
    assert repr(one) == "Bitext(2 pairs, 4 and 4 tokens, 4 and 4 types)"
    source, target = put(tmp_path, "the house\na book\n", "s"), put(tmp_path, "das Haus\nein Buch\n", "t")
    assert read_bitext(source, target) == one
    target.write_bytes(gzip.compress(target.read_bytes()))
    assert read_bitext(source, target) == one
    assert read_bitext(source, target) != one.select([1, 0])
    assert weakref.ref(one)() is one


def test_options(tmp_path: Path) -> None:
    path = put(tmp_path, "The the a ||| Das das\n")
    text = read_bitext(path, lowercase=True, min_count=2, unknown="?")
    assert text.source.sentence(0) == ["the", "the", "?"]
    assert text.target.vocab == Vocab(["das", "?"], unknown="?")
    other = put(tmp_path, "a the ||| das Haus\n", "other")
    again = read_bitext(other, source_vocab=text.source.vocab, target_vocab=text.target.vocab)
    assert (again.source.words.tolist(), again.target.words.tolist()) == ([1, 0], [0, 1])


def test_what_a_model_sees_of_words(tmp_path: Path) -> None:
    path = put(tmp_path, "Élections 1997 naïve ||| Élection 12 3.5 \u0301\n")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"lowercase": True}, "élections 1997 naïve", "élection 12 3.5 \u0301"),
        ({"strip_accents": True}, "Elections 1997 naive", "Election 12 3.5 \u0301"),
        ({"numbers": True}, "Élections 0000 naïve", "Élection 00 0.0 \u0301"),
        ({"prefix": 3}, "Éle 199 naï", "Éle 12 3.5 \u0301"),
        ({"lowercase": True, "strip_accents": True, "numbers": True, "prefix": 8}, "election 0000 naive",
         "election 00 0.0 \u0301"),
    ]  # fmt: skip
    for options, source, target in cases:
        text = read_bitext(path, **options)
        assert (text.source.sentence(0), text.target.sentence(0)) == (source.split(), target.split())
        assert Bitext.of([("Élections 1997 naïve", "Élection 12 3.5 \u0301")], **options) == text
    # accents may also be characters of their own, which count as none
    assert Forms(strip_accents=True, prefix=2)("e\u0301te\u0301") == "et"
    for wrong in (0, True, "5"):
        with pytest.raises(InputError, match="prefix is the number of characters to keep, 1 or more, actual"):
            read_bitext(path, prefix=wrong)  # type: ignore[arg-type]


def test_links_come_along(tmp_path: Path) -> None:
    text = read_bitext(put(tmp_path, "a b ||| c\nd ||| e f\n"), links=put(tmp_path, "1-0\n0-0 0?1\n", "gold"))
    assert text.links == Links(2, [[0, 1, 0], [1, 0, 0], [1, 0, 1]], [True, True, False])
    assert repr(text) == "Bitext(2 pairs, 3 and 3 tokens, 3 and 3 types, 2 sure links and 1 possible ones)"
    assert text.select([1]).links == Links(1, [[0, 0, 0], [0, 0, 1]], [True, False])
    turned = text.turned()
    assert turned.source == text.target
    assert turned.links is not None
    assert turned.links.rows.tolist() == [[0, 0, 1], [1, 0, 0], [1, 1, 0]]
    assert turned.turned() == text


def test_the_toy_world() -> None:
    text = toy.bitext(20, seed=1)
    assert len(text) == 20
    assert text.links is not None
    assert bool(text.links.sure.all())
    half = text.select(np.arange(20) < 10)
    assert half.links is not None
    assert half.source_lengths.tolist() == text.source_lengths[:10].tolist()
    assert half.links.rows.tolist() == text.links.rows[text.links.rows[:, 0] < 10].tolist()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a ||| b\nc d\n", 2, "expected one ||| between source and target, found none in 'c d'"),
        ("a ||| b ||| c\n", 1, "expected one ||| between source and target, found 2 in 'a ||| b ||| c'"),
        ("a ||| b\n\nc ||| d\n", 2, "expected one ||| between source and target, found none in ''"),
        ("a ||| b\n ||| c\n", 2, "the source side is empty, expected at least one word; drop the pair"),
        ("a ||| \n", 1, "the target side is empty, expected at least one word; drop the pair"),
        ("", None, "no sentence in it, expected at least one"),
    ],
)
def test_bad_lines(tmp_path: Path, text: str, line: int | None, what: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_bitext(path)
    assert str(error.value) == (f"{path}: " if line is None else f"{path}:{line}: ") + what


def test_files_that_are_not_parallel(tmp_path: Path) -> None:
    two, three = put(tmp_path, "a\nb\n", "two"), put(tmp_path, "a\nb\nc\n", "three")
    for files in ((two, three), (three, two)):
        with pytest.raises(InputError) as error:
            read_bitext(*files)
        assert str(error.value) == f"{two}:3: ends before line 3, which {three} has; the files should be parallel"
    hole = put(tmp_path, "a\n\n", "hole")
    with pytest.raises(InputError) as error:
        read_bitext(two, hole)
    assert str(error.value) == f"{hole}:2: the target side is empty, expected at least one word; drop the pair"
    with pytest.raises(InputError, match="the same file for source and target"):
        read_bitext(two, two)
    with pytest.raises(InputError, match="cannot be read"):
        read_bitext(two, tmp_path / "none")


def test_sides_that_do_not_match() -> None:
    one = Corpus([0], [0, 1], Vocab(["a"]))
    with pytest.raises(InputError, match="1 source sentences but 2 target sentences: they should be pairs"):
        Bitext(one, Corpus([0, 0], [0, 1, 2], Vocab(["a"])))
    with pytest.raises(InputError, match="a link to source word 1 of pair 0, which has 1 words"):
        Bitext(one, one, [[0, 1, 0]])  # type: ignore[arg-type]


def test_one_text_after_the_other(tmp_path: Path) -> None:
    first, second = read_bitext(put(tmp_path, "a b ||| x\n")), read_bitext(put(tmp_path, "c a ||| y\n", "more"))
    both = concatenate(first, second)
    assert [both.source.sentence(i) for i in range(2)] == [["a", "b"], ["c", "a"]]
    assert both.source.vocab.types == ("a", "b", "c")
    assert both.target.words.tolist() == [0, 1]


def test_hansards(real_data: Path) -> None:
    folder = real_data / "align"
    for part, pairs, sure, possible in (("test", 447, 4038, 13400), ("trial", 37, 338, 1446)):
        gold = folder / f"naacl2003-enfr.{part}"
        text = read_bitext(f"{gold}.lc-ascii.en-fr", links=f"{gold}.wa")
        assert len(text) == pairs
        assert text.links is not None
        assert (int(text.links.sure.sum()), int((~text.links.sure).sum())) == (sure, possible)
