"""Names of features: the frame of the largest weights, records there and back, and telling differences."""

from __future__ import annotations

import json

import pytest
import torch

from pyro_unsup.errors import TableError
from pyro_unsup.estimate import FeatureNames, Features, Template, same

from .feature_cases import TABLES, TEMPLATES, last, letters, tables_of

cases = pytest.mark.parametrize("templates", TEMPLATES.values(), ids=TEMPLATES)


def tagger() -> Features:
    tables = {name: TABLES[name] for name in ("emission", "vector")}
    return Features(tables, [
        Template("emission", "basic", tag=same, word=same),
        Template("emission", "letters", tag=same, word=letters),
        Template("emission", "last", word=last),
        Template("vector", "last", word=last),
    ])  # fmt: skip


def test_the_largest_weights_of_a_table() -> None:
    features = tagger()
    basic, by_letter, end, _ = features.names.families
    w = torch.zeros(len(features))
    for family, values, weight in ((basic, (1, "dogs"), 3.0), (by_letter, (0, "s"), 2.0), (end, ("t",), 1.0)):
        number = next(i for i in range(family.size) if family.values(i) == values)
        w[int(family.at(number))] = weight
    frame = features.top(w, "emission", n=3)
    assert frame.columns.tolist() == ["template", "tag", "word", "weight"]
    assert frame.values.tolist() == [["basic", 1, "dogs", 3.0], ["letters", 0, "s", 2.0], ["last", None, "t", 1.0]]
    assert features.top(w, "vector", n=1).values.tolist() == [["last", "t", 1.0]]  # one weight for both
    only = features.top(w, "emission", n=50, tag=0)
    assert set(only.tag) == {0}
    assert only.weight.is_monotonic_decreasing
    assert only.iloc[0].tolist() == ["letters", 0, "s", 2.0]
    assert len(only) == 5 + 9  # words, and letters in them
    assert features.top(w, "emission", tag=1, word="s").values.tolist() == [["letters", 1, "s", 0.0]]


def test_questions_without_an_answer() -> None:
    features = tagger()
    w = torch.zeros(len(features))
    with pytest.raises(
        TableError, match=r"table 'emit' has no features; these tables have some: \['emission', 'vector'\]"
    ):
        features.top(w, "emit")
    with pytest.raises(TableError, match=r"the features of table 'vector' have no axis \['tag'\], but \['word'\]"):
        features.top(w, "vector", tag=3)
    with pytest.raises(TableError, match=r"table 'emission' has no feature with {'tag': 7}"):
        features.top(w, "emission", tag=7)


@cases
def test_there_and_back(templates: list[Template]) -> None:
    features = Features(tables_of(templates), templates)
    plain, tensors = features.names.record()
    again = FeatureNames.of_record(json.loads(json.dumps(plain)), tensors)
    assert again.differs(features.names) is None
    w = torch.randn(len(features))
    for table in features.tables:
        assert again.top(w, table, n=7).equals(features.top(w, table, n=7))
        for family, other in zip(features.names.families, again.families, strict=True):
            assert [family.values(i) for i in range(family.size)] == [other.values(i) for i in range(other.size)]


def test_a_weight_knows_what_it_is_of() -> None:
    features = tagger()
    for family in features.names.families:
        place = int(family.at(family.size - 1))
        assert place in family
        values = family.values(family.size - 1)
        said = ", ".join(f"{axis}={value!r}" for axis, value in zip(family.axes, values, strict=True))
        assert family.describe(place) == f"'{family.template}' of table '{family.table}' with {said}"
    assert len(features) not in features.names.families[0]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([Template("emission", "a", tag=same, word=last)], None),
        ([Template("emission", "a", tag=same, word=len)], "template 'a' of table 'emission' has other features"),
        ([Template("emission", "b", tag=same, word=last)], "it has no template 'b' of table 'emission'"),
        ([Template("emission", "a", word=last)], "template 'a' of table 'emission' has other features"),
        (
            [Template("emission", "a", tag=same, word=last), Template("emission", "b", word=last)],
            "it has no template 'b' of table 'emission'",
        ),
    ],
)
def test_differences_in_words(other: list[Template], message: str | None) -> None:
    tables = {"emission": TABLES["emission"]}
    mine = Features(tables, [Template("emission", "a", tag=same, word=last)]).names
    theirs = Features(tables, other).names
    assert mine.differs(theirs) == message
    if message is not None and len(other) == 2:
        assert theirs.differs(mine) == "it has a template 'b' of table 'emission' besides"


@pytest.mark.parametrize("damage", ["size", "first", "contexts", "axes", "pairs", "more pairs"])
def test_a_record_whose_parts_do_not_agree(damage: str) -> None:
    features = Features({"ragged": TABLES["ragged"]}, [Template("ragged", "x", source=last, target=letters)])
    plain, tensors = features.names.record()
    family = plain["families"][0]
    if damage == "size":
        plain["size"] -= 1
    elif damage == "first":
        family["first"] = -1
    elif damage == "contexts":
        family["contexts"] = [["a", "b"]] * len(family["contexts"])
    elif damage == "axes":
        family["axes"] = []
    elif damage == "pairs":
        tensors["0.pairs"] = tensors["0.pairs"] + 100
    else:
        tensors["0.pairs"] = tensors["0.pairs"].repeat(2, 1)
    with pytest.raises(TableError, match="the features of template 'x' of table 'ragged' do not fit together"):
        FeatureNames.of_record(plain, tensors)
