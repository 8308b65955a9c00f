"""Feature matrices: products against features spelled out cell by cell, gradients, sharing, sizes and errors."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import TableError
from pyro_unsup.estimate import Features, Template, same
from pyro_unsup.tables import Axis, Declaration, Layout

from .feature_cases import CELLS, SOURCES, TABLES, TARGETS, TEMPLATES, WORDS, one, spelled_out, tables_of

cases = pytest.mark.parametrize("templates", [t for k, t in TEMPLATES.items() if k != "vectorised"],
                                ids=[k for k in TEMPLATES if k != "vectorised"])  # fmt: skip


def named(features: Features, w: Tensor) -> dict[Any, Tensor]:
    """Weights by the name of the feature: the template and its values."""
    found: dict[Any, Tensor] = {}
    for family in features.names.families:
        for number in range(family.size):
            key, place = (family.template, *family.values(number)), int(family.at(number))
            assert key not in found or found[key] is w[place] or torch.equal(found[key], w[place])
            found[key] = w[place]
    return found


@cases
def test_tables_are_softmaxes_of_the_features_of_their_cells(templates: list[Template]) -> None:
    tables = tables_of(templates)
    features = Features(tables, templates)
    w = torch.randn(len(features))
    found = features.log_weights(w)
    for name, declaration in tables.items():
        expected = spelled_out(declaration, templates, named(features, w))
        torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-12)
        assert torch.equal(found[name] == -torch.inf, ~declaration.layout.allowed())
        torch.testing.assert_close(features.table(name, w), expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(features.table(name, w.float()), expected.float(), rtol=1e-5, atol=1e-5)


@cases
def test_gradients_are_features_counted_minus_expected(templates: list[Template]) -> None:
    tables = tables_of(templates)
    features = Features(tables, templates)
    counts = {name: 3 * torch.rand(d.layout.shape) * d.layout.allowed() for name, d in tables.items()}
    counts[next(iter(tables))].reshape(-1)[0] = 0.0
    w = torch.randn(len(features), requires_grad=True)
    by_hand = sum(torch.where(c > 0, c * features.table(name, w), 0.0).sum() for name, c in counts.items())
    assert isinstance(by_hand, Tensor)
    (expected,) = torch.autograd.grad(by_hand, w)
    flat = {name: c.reshape(-1).numpy() for name, c in counts.items()}
    value, gradient = features.expected(w.detach().numpy(), flat)
    assert value == pytest.approx(float(by_hand.detach()), abs=1e-10)
    torch.testing.assert_close(torch.from_numpy(gradient), expected, rtol=0, atol=1e-10)
    again = features.gradient(features.log_weights(w), counts)
    torch.testing.assert_close(torch.from_numpy(again), expected, rtol=0, atol=1e-10)


@cases
def test_products_are_differentiable_to_any_order(templates: list[Template]) -> None:
    tables = tables_of(templates)
    features = Features(tables, templates)
    w = torch.randn(len(features), requires_grad=True)
    for name, declaration in tables.items():
        allowed = declaration.layout.allowed()
        assert torch.autograd.gradcheck(lambda x, n=name, a=allowed: features.table(n, x)[a], (w,))
        assert torch.autograd.gradgradcheck(lambda x, n=name, a=allowed: features.table(n, x)[a].sum(), (w,))


def test_batches_of_weights() -> None:
    tables = {name: TABLES[name] for name in ("dictionary", "ragged")}
    features = Features(tables)
    w = torch.randn(3, 2, len(features))
    for name in tables:
        found = features.table(name, w)
        assert found.shape == (3, 2, *tables[name].layout.shape)
        torch.testing.assert_close(found[1, 0], features.table(name, w[1, 0]))


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.ragged(torch.randint(1, 9, (200,)))
    table = one("t", layout, Axis("row", 200), Axis("out", 50, torch.arange(int(layout.shape[0])) % 50))
    features = Features({"t": table}, [Template("t", "x", row=lambda r: r % 7, out=same)])
    w, counts = torch.randn(len(features)).numpy(), {"t": torch.rand(layout.shape).numpy()}
    alone = features.expected(w, counts)
    for room in ("plumbing", "threads"):
        monkeypatch.setattr(f"pyro_unsup.kernels.{room}.threads_for", lambda cells: 3)
    several = features.expected(w, counts)
    assert alone[0] == several[0]
    assert (alone[1] == several[1]).all()


def test_vectorised_joint_functions_see_columns_of_labels() -> None:
    features = Features({"ragged": TABLES["ragged"]}, TEMPLATES["vectorised"])
    lengths, numbers = features.names.families
    sizes = [len(SOURCES[r]) - len(TARGETS[c]) for r, c in zip([0, 0, 1, 2, 2, 2], CELLS, strict=True)]
    assert sorted(lengths.decisions) == sorted(set(sizes))
    assert sorted(numbers.decisions) == [0, 1]
    w = torch.zeros(len(features))
    w[lengths.at(lengths.decisions.index(1))] = 5.0  # "the" against "la"
    assert features.log_weights(w)["ragged"][0] > -0.01


def test_a_name_shared_between_tables_is_one_weight() -> None:
    features = Features({name: TABLES[name] for name in ("emission", "vector")}, [
        Template("emission", "end", word=lambda word: word[-1:] or None),
        Template("vector", "end", word=lambda word: word[-1:] or None),
    ])  # fmt: skip
    assert len(features) == 4  # g, s, t, 1
    w = torch.zeros(4)
    w[features.names.families[0].at(features.names.families[0].decisions.index("s"))] = 9.0
    tables = features.log_weights(w)
    assert tables["emission"][0].argmax() == tables["vector"].argmax() == WORDS.index("dogs")


def test_true_is_not_one() -> None:
    table = one("t", Layout.dense(4), Axis("x", 4))
    features = Features({"t": table}, [Template("t", "x", x=lambda x: [True, 1, False, 0][x])])
    assert len(features) == 4


def test_a_table_without_axes_has_a_feature_for_each_cell() -> None:
    dense = Declaration("dense", Layout.dense(2, 3), torch.tensor(1.0))
    ragged = Declaration("ragged", Layout.ragged([2, 1]), torch.tensor(1.0))
    features = Features({"dense": dense, "ragged": ragged})
    assert len(features) == 9
    assert features.names.families[0].axes == ("axis0", "axis1")
    assert features.names.families[1].axes == ("row", "cell")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (Template("emission", "t", tag=same, word=lambda w: None),
         "template 't' of table 'emission' fires nowhere: it returned nothing for every label"),
        (Template("emission", "t", tag=lambda t: [], word=same), "fires nowhere"),
        (Template("emission", "t", cells=lambda w: None, axes=("word",)), "fires nowhere"),
        (Template("emissions", "t", word=same),
         r"template 't' of table 'emissions': there is no such table; the model has \['emission'\]"),
        (Template("emission", "t", letter=same),
         r"template 't' of table 'emission': the table has no axis \['letter'\], it has \['tag', 'word'\]"),
        (Template("emission", "t", tag=same), "it does not look at 'word', so it would add the same to every outcome"),
        (Template("emission", "t", word=lambda w: w[0]),
         "its function failed for word='': IndexError: string index out of range"),
        (Template("emission", "t", word=lambda w: object()), "values must be strings, finite numbers or tuples"),
        (Template("emission", "t", word=lambda w: float("nan")), "values must be strings, finite numbers or tuples"),
        (Template("emission", "t", cells=lambda w: w.none, axes=("word",), vectorised=True), "its function failed: A"),
        (Template("emission", "t", cells=lambda w: [1], axes=("word",), vectorised=True),
         r"expected 10 values, one a cell, actual \[1\]"),
        (Template("emission", "t", cells=lambda w: 1, axes=("word",), vectorised=True),
         "expected 10 values, one a cell, actual 1"),
    ],
)  # fmt: skip
def test_templates_that_do_not_work(template: Template, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Features({"emission": TABLES["emission"]}, [template])


def test_templates_that_say_too_little_or_too_much() -> None:
    with pytest.raises(TableError, match=r"name functions by axis .*, or give one of whole cells"):
        Template("t", "x")
    with pytest.raises(TableError, match="and not both"):
        Template("t", "x", cells=len, axes=("word",), word=len)
    with pytest.raises(TableError, match="say which axes its cells are called with"):
        Template("t", "x", cells=len)
    with pytest.raises(TableError, match="template 'x' of table 't': expected a function, actual 3"):
        Template("t", "x", word=3)  # type: ignore[arg-type]


def test_a_table_without_axes_takes_no_templates() -> None:
    table = Declaration("t", Layout.dense(3), torch.tensor(1.0))
    with pytest.raises(TableError, match="the table was declared without axes, so templates have nothing to look at"):
        Features({"t": table}, [Template("t", "x", word=same)])


def test_labels_that_turn_out_to_be_too_few() -> None:
    table = one("t", Layout.dense(3), Axis("word", lambda: ["a", "b"]))
    with pytest.raises(TableError, match="table 't': axis 'word' needs 3 labels, actual 2"):
        Features({"t": table})
    ragged = one("t", Layout.ragged([2]), Axis("row", 1), Axis("word", 2, lambda: torch.tensor([0, 2])))
    with pytest.raises(TableError, match="axis 'word' needs 2 cells that are numbers of its 2 labels"):
        Features({"t": ragged})


def test_a_template_that_fires_only_where_nothing_may_happen_is_refused() -> None:
    support = torch.tensor([[True, True, False]] * 2)
    table = one("t", Layout.dense(2, 3, support=support), Axis("c", 2), Axis("d", ["p", "q", "r"]))
    with pytest.raises(TableError, match="fires nowhere: it returned nothing for every label that may occur"):
        Features({"t": table}, [Template("t", "x", c=same, d=lambda d: True if d == "r" else None)])


def test_the_size_of_a_joint_template_counts_a_feature_a_cell() -> None:
    table = one("t", Layout.dense(20, 2000), Axis("a", 20), Axis("b", 2000))
    joint = Template("t", "pair", cells=lambda a, b: (a, b), axes=("a", "b"))
    tracemalloc.start()
    features = Features({"t": table}, [joint])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    need = peak + len(features) * 8 * 20  # and what training adds
    with pytest.raises(TableError, match="most of it for template 'pair'"):
        Features({"t": table}, [joint], max_gib=need / 2**30 / 1.5)


def test_what_would_not_fit_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    V = 60_000
    table = one("t", Layout.dense(V, V), Axis("a", V), Axis("b", V))
    with pytest.raises(TableError, match=r"would need about 671 GiB, more than .*; most of it for template 'x' "):
        Features({"t": table}, [Template("t", "x", a=same, b=same)])
    small = TABLES["ragged"]
    with pytest.raises(TableError, match=r"more than 1e-07 GiB .half of what is free, or max_gib.*raise max_gib"):
        Features({"ragged": small}, TEMPLATES["ragged"], max_gib=1e-7)
    monkeypatch.setattr("pyro_unsup.estimate.features.plans._free_bytes", lambda: None)  # a system that does not tell
    assert len(Features({"ragged": small}))


def test_the_tables_of_the_librarys_models_have_basic_features() -> None:
    text = pu.data.toy.sentences(5, seed=0)
    for model in (pu.models.Tagger(2, text.vocab, order=2), pu.models.CCM.of(text, variant=2),
                  pu.models.Segmenter.of(text, max_length=2), pu.models.Clusterer(2, text.vocab)):  # fmt: skip
        tables = model.declarations()
        features = Features(tables)
        assert len(features) == sum(d.layout.shape.numel() for d in tables.values())
