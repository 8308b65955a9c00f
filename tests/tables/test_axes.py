"""Axes of tables: what is checked at once, what is made only when asked for, and those of the library's models."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.errors import TableError
from pyro_unsup.handlers import declared
from pyro_unsup.models import CCM, Aligner, Clusterer, Segmenter, Tagger
from pyro_unsup.tables import Axis, Declaration, Layout, table

WORDS = pu.data.Vocab(["the", "dog", "sees"])


def axes_of(declaration: Declaration) -> dict[str, list[Any]]:
    assert declaration.axes is not None
    return {axis.name: list(axis.labels) for axis in declaration.axes}


def test_labels_by_name_numbers_and_functions() -> None:
    calls = []

    def words() -> list[str]:
        calls.append(1)
        return ["a", "b", "c"]

    def model() -> None:
        table("emission", 2, 3, axes={"tag": 2, "word": words})

    declaration = declared(model)["emission"]
    assert not calls  # nobody asked
    assert axes_of(declaration) == {"tag": [0, 1], "word": ["a", "b", "c"]}
    assert len(calls) == 1


def test_a_ragged_table_says_which_outcome_each_cell_is() -> None:
    cells = torch.tensor([0, 2, 1])

    def model() -> None:
        table("t", row_lengths=[2, 1], axes=[Axis("source", ["x", "y"]), Axis("target", WORDS, lambda: cells)])

    axes = declared(model)["t"].axes
    assert axes is not None
    assert axes[1].cells is cells


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"shape": (2, 3), "axes": {"tag": 2}}, "table 't': expected 2 axes, one a dimension of the shape .2, 3."),
        ({"shape": (2, 3), "axes": {"tag": 2, "word": 4}}, "table 't': axis 'word' needs 3 labels, actual 4"),
        ({"shape": (3,), "axes": [Axis("a", 3), Axis("a", 3)]}, "table 't': axes need different names"),
        ({"shape": (), "row_lengths": [1, 2], "axes": {"row": 2, "out": 2}}, "a last one that says by its cells"),
        (
            {"shape": (), "row_lengths": [1, 2], "axes": [Axis("row", 3), Axis("out", 2, torch.tensor([0, 0, 1]))]},
            "axis 'row' needs 2 labels, actual 3",
        ),
    ],
)  # fmt: skip
def test_axes_that_do_not_go_with_the_table(how: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        table("t", *how.pop("shape"), **how)


def test_axes_of_taggers() -> None:
    tables = Tagger(2, WORDS, order=2, stop=True).declarations()
    tags, ending = [0, 1], [0, 1, "stop"]
    assert axes_of(tables["start"]) == {"tag": tags}
    assert axes_of(tables["second"]) == {"previous": tags, "tag": ending}
    assert axes_of(tables["transition"]) == {"previous2": tags, "previous": tags, "tag": ending}
    assert axes_of(tables["emission"]) == {"tag": tags, "word": ["the", "dog", "sees"]}
    bigram = Tagger(["D", "N"], 3).declarations()
    assert axes_of(bigram["transition"]) == {"previous": ["D", "N"], "tag": ["D", "N"]}
    assert axes_of(bigram["emission"])["word"] == [0, 1, 2]


def test_axes_of_clusterers() -> None:
    tables = Clusterer(2, WORDS).declarations()
    assert axes_of(tables["cluster"]) == {"cluster": [0, 1]}
    assert axes_of(tables["words"]) == {"cluster": [0, 1], "word": ["the", "dog", "sees"]}


def test_axes_of_segmenters() -> None:
    letters = pu.data.Vocab(["a", "b"])
    tables = Segmenter.of([[0, 1]], vocab=letters).declarations()
    assert axes_of(tables["segments"]) == {"segment": ["a", "ab", "b", ""]}
    assert axes_of(tables["stop"]) == {"decision": ["go on", "stop"]}
    longer = Segmenter.of([[0, 1]], vocab=pu.data.Vocab(["aa", "b"])).declarations()
    assert axes_of(longer["segments"]) == {"segment": [("aa",), ("aa", "b"), ("b",), ()]}


def test_axes_of_bracketings() -> None:
    tags = pu.data.Vocab(["D", "N"])
    tables = CCM.of([[0, 1]], vocab=tags, empty_spans=True).declarations()
    unknown = ("<unknown>",)
    kinds = ["distituent", "constituent"]
    assert axes_of(tables["yield"]) == {"kind": kinds, "yield": [("D",), ("N",), ("D", "N"), unknown, ()]}
    contexts = {("<start>", "N"), ("D", "<end>"), ("<start>", "<end>"), ("<start>", "D"), ("D", "N"), ("N", "<end>")}
    assert set(axes_of(tables["context"])["context"]) == contexts | {unknown}
    model = CCM.of([[0, 1]], vocab=tags, variant=2)
    declaration = model.declarations()["yield"]
    assert axes_of(declaration) == {
        "kind": ["distituent"] * 3 + ["constituent"] * 3,
        "width": [1, 2, 3] * 2,
        "yield": [("D",), ("N",), ("D", "N"), unknown],
    }
    assert declaration.axes is not None
    assert declaration.axes[-1].cells is not None
    assert declaration.axes[-1].cells.tolist() == [0, 1, 3, 2, 3, 3] * 2
    # The cells that the model reads are those.
    columns = model.index([[0, 1]]).cells[:, 0]
    assert [axes_of(declaration)["yield"][int(declaration.axes[-1].cells[c])] for c in columns] == [
        ("D",),
        ("N",),
        ("D", "N"),
    ]


def test_axes_of_aligners() -> None:
    source, target = pu.data.Vocab(["the", "house", "unseen"]), pu.data.Vocab(["la", "maison", "livre"])
    model = Aligner.of(([[0, 1], [0]], [[0, 1], [2]]), source=source, target=target)
    forward, backward = model.declarations().values()
    assert forward.axes is not None
    assert backward.axes is not None
    assert list(forward.axes[0].labels) == ["the", "house", ""]
    assert list(backward.axes[0].labels) == ["la", "maison", "livre", ""]
    assert [a.name for a in forward.axes] == ["source", "target"]
    assert [a.name for a in backward.axes] == ["target", "source"]

    def pairs(declaration: Declaration) -> list[tuple[str, str]]:
        assert declaration.axes is not None
        rows, outcomes = declaration.axes
        lengths = declaration.layout.row_lengths
        assert lengths is not None
        assert outcomes.cells is not None
        owners = torch.repeat_interleave(lengths)
        return [(rows.labels[r], outcomes.labels[c]) for r, c in zip(owners, outcomes.cells, strict=True)]

    met = [("the", "la"), ("the", "maison"), ("the", "livre"), ("house", "la"), ("house", "maison")]
    assert pairs(forward) == met + [("", word) for word in target]
    turned = [("la", "the"), ("la", "house"), ("maison", "the"), ("maison", "house"), ("livre", "the")]
    assert pairs(backward) == turned + [("", word) for word in source]


@pytest.mark.parametrize(
    "model",
    [
        Tagger(2, WORDS),
        Segmenter.of([[0, 1]], vocab=2),
        CCM.of([[0, 1]], vocab=2, variant=2),
        Aligner.of(([[0]], [[0]]), source=1, target=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_still_travel_between_processes(model: Any) -> None:
    for declaration in model.declarations().values():
        for axis in declaration.axes:
            assert len(axis.labels)  # made, and not carried along
    again = pickle.loads(pickle.dumps(model))
    for name, declaration in model.declarations().items():
        assert axes_of(again.declarations()[name]) == axes_of(declaration)


def test_a_mini_batch_keeps_its_axes() -> None:
    found = declared(Tagger(2, WORDS), [[0]])["emission"]
    assert found.touched is not None
    assert axes_of(found)["word"] == ["the", "dog", "sees"]
    assert isinstance(found.layout, Layout)
