"""The networks themselves: what they are refused for, and what they see of words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyro_unsup.errors import TableError
from pyro_unsup.estimate import Cells, Embeddings, Networks, Neural
from pyro_unsup.estimate.neural import pairs
from pyro_unsup.estimate.neural.label_vectors import LabelVectors, spell
from pyro_unsup.tables import Axis, Declaration, Layout

from ..features.feature_cases import TABLES

RAGGED = Declaration("pairs", Layout.ragged([2, 1]), torch.tensor(1.0))


@pytest.mark.parametrize(("settings", "message"), [
    ({"size": 0}, "size needs whole numbers, 1 or more, actual 0"),
    ({"hidden": (3, 0)}, r"hidden needs whole numbers, 1 or more, actual \(3, 0\)"),
    ({"hidden": 3}, "hidden must be a list, actual 3"),
    ({"spelled": "word"}, "spelled must be a list, actual 'word'"),
    ({"spelled": [1]}, "spelled must be a list of names of axes"),
    ({"longest": 0}, "longest needs whole numbers"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, actual 1.0"),
    ({"start": -1.0}, "start must be finite and not negative, actual -1.0"),
])  # fmt: skip
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        Embeddings(**settings)


@pytest.mark.parametrize("start", ["x", -1.0, float("nan"), True])
def test_wrong_scores_to_start_with(start: Any) -> None:
    with pytest.raises(TableError, match="Cells: start must be finite and not negative, actual"):
        Cells(start)


def test_a_ragged_table_needs_axes() -> None:
    with pytest.raises(TableError, match="table 'pairs' is ragged and has no axes, so a network cannot know which"):
        Networks({"pairs": RAGGED}, Embeddings())


def test_a_dense_table_needs_none() -> None:
    tables = {"t": Declaration("t", Layout.dense(2, 3, 4), torch.tensor(1.0))}
    networks = Networks(tables, Embeddings())
    assert networks.table("t", networks.start).shape == (2, 3, 4)


class Broken(nn.Module):
    def __init__(self, declaration: Declaration) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self) -> Tensor:
        return self.w


class Running(Broken):
    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        self.norm = nn.BatchNorm1d(3)


@pytest.mark.parametrize(("net", "message"), [
    (Broken, r"must return scores of the table's shape \(2, 5\) when it is called without arguments, actual \(1,\)"),
    (Running, "keeps running statistics of what it sees"),
    (lambda table: nn.Identity(), "has no parameters"),
    (lambda table: 3, "net must make a torch.nn.Module for a table, actual 3 for table 'emission'"),
])  # fmt: skip
def test_wrong_networks(net: Any, message: str) -> None:
    def score() -> None:
        networks = Networks({"emission": TABLES["emission"]}, net)
        networks.log_weights(networks.start)

    with pytest.raises(TableError, match=message):
        score()


def test_l_bfgs_refuses_dropout() -> None:
    with pytest.raises(TableError, match="L-BFGS compares values of one function, and dropout changes it"):
        Neural(Embeddings(dropout=0.1), optimiser="lbfgs").networks({"emission": TABLES["emission"]})


def test_words_share_the_vectors_of_their_spelling() -> None:
    axis = Axis("word", ["walks", "talks", "7-up"])
    vectors = LabelVectors(axis, size=4, spelled=["word"], longest=3)
    assert [key for key in vectors.spelling if key[0] == "ending"] == [
        ("ending", x) for x in ("s", "ks", "lks", "p", "up", "-up")
    ]
    with torch.no_grad():
        vectors.own.zero_()
    one, two, three = vectors()
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    (own, pieces) = torch.autograd.grad(one.sum(), [vectors.own, vectors.pieces_of])
    assert own.sum(1).tolist() == [4, 0, 0]
    used = [vectors.spelling[i] for i in pieces.sum(1).nonzero().flatten().tolist()]
    assert used == spell("walks", longest=3)


@pytest.mark.parametrize(
    "axis", [Axis("word", 3), Axis("tag", ["a", "b", "c"]), Axis("word", [("a",), ("b",), ("c",)])]
)
def test_what_is_no_word_is_not_spelled(axis: Axis) -> None:
    vectors = LabelVectors(axis, size=4, spelled=["word"], longest=3)
    assert vectors.spelling == []
    assert torch.equal(vectors(), vectors.own)


def test_labels_that_repeat_have_one_vector() -> None:
    vectors = LabelVectors(Axis("kind", ["a", "b", "a"]), size=4, spelled=(), longest=3)
    assert vectors.own.shape == (2, 4)
    assert torch.equal(vectors()[0], vectors()[2])


def test_pairs_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = torch.randn(3, 2, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    rows, columns = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([3, 3, 0, 1, 3])
    expected = (left @ right.T)[rows, columns]
    monkeypatch.setattr(pairs, "ROOM", 4)  # two pairs at a time
    found = pairs.dot_pairs(left, right, rows, columns)
    torch.testing.assert_close(found, expected)
    weigh = torch.randn(5)
    both = [torch.autograd.grad((weigh * x).sum(), [left, right]) for x in (found, expected)]
    torch.testing.assert_close(*both)


def test_tables_may_share_a_part() -> None:
    shared = nn.Linear(2, 3)

    class Head(nn.Module):
        def __init__(self, declaration: Declaration) -> None:
            super().__init__()
            self.shared, self.x = shared, nn.Parameter(torch.randn(2, 2))

        def forward(self) -> Tensor:
            return self.shared(self.x)

    tables = {name: Declaration(name, Layout.dense(2, 3), torch.tensor(1.0)) for name in ("a", "b.c")}
    networks = Networks(tables, Head)
    assert list(networks.named(networks.start)) == ["a.x", "a.shared.weight", "a.shared.bias", "b.c.x"]
    w = networks.start.requires_grad_()
    (slope,) = torch.autograd.grad(networks.table("b.c", w)[0, 0], w)
    assert bool(networks.named(slope)["a.shared.weight"].any())
    assert not bool(networks.named(slope)["a.x"].any())


def test_many_weights_at_once() -> None:
    networks = Networks({"ragged": TABLES["ragged"], "cube": TABLES["cube"]}, Embeddings(3))
    w = torch.randn(2, 2, len(networks))
    for name in networks.tables:
        many = networks.table(name, w)
        assert many.shape == (2, 2, *TABLES[name].layout.shape)
        assert torch.equal(many[1, 0], networks.table(name, w[1, 0]))
