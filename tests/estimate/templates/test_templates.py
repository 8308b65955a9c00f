"""The templates of the paper: what fires for which labels, on the tables of the library's models."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup import templates
from pyro_unsup.errors import TableError, UnsupError
from pyro_unsup.estimate import Features, Template
from pyro_unsup.estimate.templates.alignment import edit_distances
from pyro_unsup.models import Aligner, Segmenter, Tagger
from pyro_unsup.tables import Axis, Declaration, Layout


def by_name(found: list[Template]) -> dict[str, Template]:
    assert len({template.name for template in found}) == len(found)
    return {template.name: template for template in found}


def test_tagging() -> None:
    found = by_name(templates.tagging())
    word = {name: template.functions["word"] for name, template in found.items()}
    assert [word["digit"]("a1"), word["digit"]("a"), word["hyphen"]("a-b"), word["hyphen"]("ab")] == [True, False] * 2
    assert [word["capital"](one) for one in ("The", "the", "", "1")] == [True, False, False, False]
    assert word["suffix"]("running") == ["g", "ng", "ing"]
    assert word["suffix"]("at") == ["t", "at"]
    anywhere = by_name(templates.tagging(ngram="any", longest=2))["n-gram"].functions["word"]
    assert anywhere("aab") == ["a", "b", "aa", "ab"]
    assert "suffix" not in by_name(templates.tagging(ngram=None))
    with pytest.raises(TableError, match="ngram must be 'suffix', 'any' or None, actual 'prefix'"):
        templates.tagging(ngram="prefix")  # type: ignore[arg-type]
    model = Tagger(3, pu.data.Vocab(["run", "runs", "Ohio", "3-4"]))
    features = Features(model.declarations(), templates.tagging())
    suffixes = {"n", "un", "run", "s", "ns", "uns", "o", "io", "hio", "4", "-4", "3-4"}
    assert len(features) == 3 + 9 + 3 * (4 + 2 + 2 + 2 + len(suffixes))


def test_shapes_and_words_without_a_feature_of_their_own() -> None:
    found = by_name(templates.tagging(shape=True, known=["the", "Ohio"]))
    word = {name: template.functions["word"] for name, template in found.items()}
    assert [word["basic"](one) for one in ("the", "The", "Ohio", "run")] == ["the", None, "Ohio", None]
    shapes = {"École": "Xx", "U.S.": "X.X.", "...": ".", "中文": "x", "": "", "a1b2c3d4e5": "x9x9x9x9", "٣": "9"}
    assert {one: word["shape"](one) for one in shapes} == shapes
    assert [*by_name(templates.tagging())] == ["basic", "digit", "hyphen", "capital", "suffix"]
    with pytest.raises(TableError, match="known must be a collection of words, actual the string 'the'"):
        templates.tagging(known="the")


def grammar() -> dict[str, Declaration]:
    import torch

    tags = ["NN", "VB", "DT"]
    head, child, side = Axis("head", tags), Axis("child", tags), Axis("direction", ("left", "right"))
    near, end = Axis("adjacency", ("adjacent", "beyond")), Axis("decision", ("stop", "continue"))
    shapes = {"root": (child,), "attach": (head, side, child), "stop": (head, side, near, end)}
    return {
        name: Declaration(name, Layout.dense(*(len(a.labels) for a in axes)), torch.tensor(1.0), axes=axes)
        for name, axes in shapes.items()
    }


def test_dependency() -> None:
    found = by_name(templates.dependency())
    assert len(found) == 2 * 10 + 3 * 4 + 4
    noun = found["noun both"]
    assert noun.axes == ("direction", "head", "child")
    assert [noun.functions["head"](tag) for tag in ("NN", "PRP", "VB", "DT")] == [True, True, False, False]
    assert found["noun-verb head"].functions["head"]("MD") is True
    assert found["verb child, any direction"].axes == ("head", "child")
    assert found["stop verb, any adjacency"].axes == ("head", "direction", "decision")
    features = Features(grammar(), list(found.values()))
    sizes = {family.template: family.size for family in features.names.families}
    assert sizes["attach"] == 3 * 2 * 3
    assert sizes["noun head"] == 2 * 2 * 3
    assert sizes["noun both, any direction"] == 2 * 2
    assert sizes["stop"] == 3 * 2 * 2 * 2
    assert sizes["stop noun, any direction"] == 2 * 2 * 2
    assert sizes["root verb"] == 2


def test_dependency_with_other_classes() -> None:
    assert len(templates.dependency(back_off=False)) == 10 + 4 + 4
    true = by_name(templates.dependency(only_true=True))["noun child"].functions["child"]
    assert (true("NN"), true("VB")) == (True, None)
    upos = by_name(templates.dependency("upos"))["noun head"].functions["head"]
    assert (upos("PROPN"), upos("NN")) == (True, False)
    ctb = by_name(templates.dependency("ctb"))["verb head"].functions["head"]
    assert (ctb("VC"), ctb("NR")) == (True, False)
    own = by_name(templates.dependency((["X"], ["Y"])))["noun-verb head"].functions["head"]
    assert [own(tag) for tag in "XYZ"] == [True, True, False]
    with pytest.raises(TableError, match=r"classes must be one of \['ctb', 'penn', 'upos'\], or .nouns, verbs.,"):
        templates.dependency("brown")


def test_segmentation() -> None:
    found = by_name(templates.segmentation())
    call = {name: template.functions["segment"] for name, template in found.items()}
    assert call["length"]("WAts") == 4
    assert call["vowels"]("lItL") == 2
    assert call["prefix 6"]("lIt") == [("liquid or glide",), ("liquid or glide", "vowel"),
                                       ("liquid or glide", "vowel", "stop")]  # fmt: skip
    assert call["suffix 2"]("&n") == [("consonant",), ("vowel", "consonant")]
    assert call["prefix 6"]("") == []
    own = by_name(templates.segmentation([{"a": "V", "b": "C"}], longest=1, vowel="V"))
    assert own["vowels"].functions["segment"]("abax") == 2
    assert own["suffix 2"].functions["segment"]("abx") == [("x",)]
    model = Segmenter.of([[0, 1, 2]], vocab=pu.data.Vocab(["D", "6", "n"]))
    features = Features(model.declarations(), templates.segmentation())
    assert {family.table for family in features.names.families} == {"segments", "stop"}


def test_every_phoneme_of_the_corpus_has_a_class(real_data: Any) -> None:
    symbols = set((real_data / "br-phono.txt").read_text()) - set(" \n")
    assert symbols == set(templates.FINE) == set(templates.BROAD)
    assert set(templates.FINE.values()) == {"vowel", "stop", "fricative", "nasal", "liquid or glide", "other"}
    assert {name for symbol, name in templates.BROAD.items() if templates.FINE[symbol] == "vowel"} == {"vowel"}


def aligner() -> Aligner:
    source, target = pu.data.Vocab(["the", "nations", "nation"]), pu.data.Vocab(["la", "nation", "nations"])
    return Aligner.of(([[0, 1], [0, 2]], [[0, 2], [0, 1]]), source=source, target=target, agreement=None)


def seen(family: Any, axis: str) -> set[str]:
    place = family.axes.index(axis)
    return {family.values(i)[place] for i in range(family.size)}


def test_alignment() -> None:
    for table in ("translation_forward", "translation_backward"):
        tables = {table: aligner().declarations()[table]}
        found = templates.alignment(table, dictionary=[("the", "la")])
        features = Features(tables, found)
        families = {family.template.removesuffix(f" {table}"): family for family in features.names.families}
        assert families["basic"].size == tables[table].layout.shape.numel()
        assert families["dictionary"].decisions == [True]
        assert set(families["edit distance"].decisions) == {0, 3, 5, 6}
        assert seen(families["stem"], "source") == {"the", "nation"}  # and none for the null word
        assert seen(families["prefix"], "source") == {"the", "nati"}
        assert seen(families["character"], "target") == set("lanations")
        assert seen(families["basic"], "source") >= {"the", "nations", "nation"}


def test_alignment_with_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    few = templates.alignment("t", stem=None, prefix=None, characters=False, edit_distance=False)
    assert [template.name for template in few] == ["basic t"]
    cut = by_name(templates.alignment("t", stem=lambda word: word[:2]))["stem t"].functions["source"]
    assert (cut("house"), cut("")) == ("ho", None)
    with pytest.raises(UnsupError, match="stem must be a function, 'porter' or None, actual 'snowball'"):
        templates.alignment("t", stem="snowball")
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("nltk"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupError, match=r"pip install nltk, or give another .stem=function. or none .stem=None."):
        templates.alignment("t")


def test_edit_distances_by_hand() -> None:
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0]))

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abé"), rng.integers(0, 6))) for _ in range(40)]
    left, right = np.array(words[:20], object), np.array(words[20:], object)
    expected = [slow(a, b) if a and b else None for a, b in zip(left, right, strict=True)]
    assert None in expected
    assert edit_distances(left, right) == expected
