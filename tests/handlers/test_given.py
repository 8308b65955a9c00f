"""``given``: known log-weights in place of latent tables."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

from pyro_unsup import Categorical, given, table
from pyro_unsup.errors import TableError
from pyro_unsup.handlers import Counting, GivenMessenger
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Layout, LazyTable

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])


def model(touched: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    return (
        table("dense", 2, 3, touched=touched),
        table("known", 2, 3, support=SUPPORT, touched=touched),
        table("ragged", row_lengths=[2, 3], touched=touched),
    )


def weights() -> dict[str, Tensor]:
    return {
        "dense": torch.randn(2, 3),
        "known": torch.randn(2, 3).masked_fill(~SUPPORT, -torch.inf),
        "ragged": torch.randn(5),
    }


def test_given_tables_are_returned_as_they_are_and_leave_no_site() -> None:
    w = weights()
    trace = poutine.trace(given(model, w)).get_trace()
    assert [n for n, s in trace.nodes.items() if s["type"] == "sample"] == []
    for found, expected in zip(trace.nodes["_RETURN"]["value"], w.values(), strict=True):
        assert torch.equal(found, expected)  # neither normalised nor masked again


def test_touched_parts_of_given_tables() -> None:
    w = weights()
    touched = torch.tensor([2, 0])
    for found, expected in zip(given(model, w)(touched), w.values(), strict=True):
        assert torch.equal(found, expected[..., touched])


def test_tables_that_are_not_named_keep_their_meaning() -> None:
    trace = poutine.trace(given(model, {"dense": torch.zeros(2, 3)})).get_trace()
    assert [n for n, s in trace.nodes.items() if s["type"] == "sample"] == ["known", "ragged"]


def test_inner_wins_over_outer() -> None:
    a, b = torch.zeros(2, 3), torch.ones(2, 3)
    assert torch.equal(given(given(model, {"dense": a}), {"dense": b})()[0], a)


def test_as_a_context_manager_and_inside_plates() -> None:
    w = weights()
    with poutine.trace() as traced, GivenMessenger(w), pyro.plate("items", 4):
        dense = table("dense", 2, 3)
        z = pyro.sample("z", Categorical(dense[0]))
    assert dense is w["dense"]
    assert z.shape == (4,)
    assert "dense" not in traced.trace.nodes


def test_gradients_flow_into_given_weights() -> None:
    dense = torch.randn(2, 3, requires_grad=True)
    found = given(model, {"dense": dense})()[0]
    (grad,) = torch.autograd.grad(found[0, 1] + 2 * found[1, 2], dense)
    assert grad.tolist() == [[0, 1, 0], [0, 0, 2]]


def test_weights_that_do_not_fit_are_refused() -> None:
    message = r"table 'dense': the model wants shape \(2, 3\), the given weights have \(3, 2\)"
    with pytest.raises(TableError, match=message):
        given(model, {"dense": torch.zeros(3, 2)})()
    with pytest.raises(
        TableError, match=r"table 'ragged': the model wants shape \(5,\), the given weights have \(2, 3\)"
    ):
        given(model, {"ragged": torch.zeros(2, 3)})()


@pytest.mark.parametrize("touched", [None, torch.tensor([2])])
def test_weight_on_a_structural_zero_is_refused(touched: Tensor | None) -> None:
    with pytest.raises(TableError, match="table 'known': the given weights allow what the model's support forbids"):
        given(model, {"known": torch.zeros(2, 3)})(touched)
    tampered = {"known": torch.zeros(2, 3).masked_fill(~SUPPORT, -torch.inf)}
    given(model, tampered)(touched)


def test_lazily_normalised_tables_answer_like_the_weights_they_stand_for() -> None:
    counts = {"dense": torch.rand(2, 3), "known": torch.rand(2, 3) * SUPPORT, "ragged": torch.rand(5)}
    layouts = {
        "dense": Layout.dense(2, 3),
        "known": Layout.dense(2, 3, support=SUPPORT),
        "ragged": Layout.ragged([2, 3]),
    }
    lazy = {name: LazyTable(layout, counts[name]) for name, layout in layouts.items()}
    plain = {name: layout.normalise(counts[name].log()) for name, layout in layouts.items()}
    for touched in (None, torch.tensor([2, 0])):
        for found, expected in zip(given(model, lazy)(touched), given(model, plain)(touched), strict=True):
            torch.testing.assert_close(found, expected)
    with pytest.raises(
        TableError, match=r"table 'dense': the model wants shape \(2, 3\), the given weights have \(3, 2\)"
    ):
        given(model, {"dense": LazyTable(Layout.dense(3, 2), torch.ones(3, 2))})()


def test_a_mini_batch_reads_and_updates_only_the_columns_of_its_words() -> None:
    tagger = Tagger(tags=2, vocab=100)
    sentences = [[5, 7], [7, 9, 5]]
    tables = {name: LazyTable(d.layout, torch.rand(d.layout.shape)) for name, d in tagger.declarations().items()}
    before = tables["emission"].unscaled.clone()
    with Counting(tables) as counting:
        trace = poutine.trace(tagger).get_trace(sentences)
        counts = counting.counts(trace.log_prob_sum())
    touched = counting.found["emission"].touched
    assert touched is not None
    assert touched.tolist() == [5, 7, 9]
    assert counts["emission"].shape == (2, 3)
    tables["emission"].update(counts["emission"], step=0.5, touched=touched)
    changed = (tables["emission"].unscaled != before).any(0).nonzero().squeeze(-1)
    assert changed.tolist() == [5, 7, 9]
    torch.testing.assert_close(tables["emission"].log_weights().exp().sum(-1), torch.ones(2))
