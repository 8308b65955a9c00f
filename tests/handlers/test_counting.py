"""``Counting``: expected counts are gradients, here against counting by hand."""

from __future__ import annotations

import itertools

import pyro
import pytest
import torch
from pyro.infer import TraceEnum_ELBO, config_enumerate
from torch import Tensor

from pyro_unsup import Categorical, given, table
from pyro_unsup.errors import TableError
from pyro_unsup.handlers import Counting

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])


def test_counts_of_a_table_used_by_hand() -> None:
    with Counting({"a": torch.randn(2, 3), "b": torch.randn(4)}) as counting:
        a, b = table("a", 2, 3), table("b", row_lengths=[1, 3])
        log_marginal = 2 * a[0, 1] + a[1, 2] + 3 * b[3]
    counts = counting.counts(log_marginal)
    assert counts["a"].tolist() == [[0, 2, 0], [0, 0, 1]]
    assert counts["b"].tolist() == [0, 0, 0, 3]
    assert torch.equal(counting.counts(log_marginal)["a"], counts["a"])  # may be asked again


def test_counts_of_touched_parts_go_back_to_their_places() -> None:
    weights = {"a": torch.randn(2, 5), "b": torch.randn(6)}
    with Counting(weights) as counting:
        a = table("a", 2, 5, touched=torch.tensor([4, 1]))
        b = table("b", row_lengths=[2, 4], touched=torch.tensor([5]))
        log_marginal = a[0, 0] + 2 * a[1, 1] + 3 * b[0]
    assert torch.equal(a, weights["a"][:, [4, 1]])
    counts = counting.counts(log_marginal)
    assert counts["a"].tolist() == [[1, 0], [0, 2]]
    assert counting.found["a"].whole(counts["a"]).tolist() == [[0, 0, 0, 0, 1], [0, 2, 0, 0, 0]]
    assert counting.found["b"].whole(counts["b"]).tolist() == [0, 0, 0, 0, 0, 3]
    assert counting.leaves["a"].shape == (2, 2)  # the gradient is as small as what is touched


def hidden(words: Tensor) -> None:
    start = table("start", 2)
    emission = table("emission", 2, 3, support=SUPPORT)
    with pyro.plate("items", len(words)):
        z = pyro.sample("z", Categorical(start))
        pyro.sample("x", Categorical(emission[z]), obs=words)


def no_guide(*args: object) -> None:
    pass


def test_expected_counts_of_a_mixture_equal_enumeration() -> None:
    weights = {"start": torch.randn(2), "emission": torch.randn(2, 3).masked_fill(~SUPPORT, -torch.inf)}
    words = torch.tensor([0, 1, 1, 2, 1])
    with Counting(weights) as counting:
        loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(config_enumerate(hidden), no_guide, words)
    counts = counting.counts(-loss)
    total, start, emission = 0.0, torch.zeros(2), torch.zeros(2, 3)
    for path in itertools.product(range(2), repeat=5):  # the slow way: every assignment of the five items
        score = sum(float(weights["start"][z] + weights["emission"][z, x]) for z, x in zip(path, words, strict=True))
        p = float(torch.tensor(score).exp())
        total += p
        for z, x in zip(path, words, strict=True):
            start[z] += p
            emission[z, x] += p
    torch.testing.assert_close(-loss.detach(), torch.tensor(total).log())
    torch.testing.assert_close(counts["start"], start / total)
    torch.testing.assert_close(counts["emission"], emission / total)
    assert (counts["emission"][~SUPPORT] == 0).all()


def test_the_weights_themselves_are_left_alone() -> None:
    weights = {"a": torch.zeros(2)}
    with Counting(weights) as counting:
        log_marginal = table("a", 2)[0]
    counting.counts(log_marginal)
    assert not weights["a"].requires_grad
    assert weights["a"].grad is None


def test_a_table_that_the_marginal_does_not_use_has_no_counts() -> None:
    with Counting({"a": torch.zeros(2), "b": torch.zeros(3)}) as counting:
        a, _ = table("a", 2), table("b", 3)
    assert counting.counts(a[0])["b"].tolist() == [0, 0, 0]
    found = counting.counts(torch.tensor(1.0))
    assert found["a"].tolist() == [0, 0]
    with Counting({}) as counting:
        pass
    assert counting.counts(torch.tensor(1.0)) == {}


def test_tables_given_inside_are_not_counted() -> None:
    model = given(lambda: (table("a", 2), table("b", 2)), {"a": torch.zeros(2)})
    with Counting({"b": torch.zeros(2)}) as counting:
        a, b = model()
    assert list(counting.counts(a[0] + b[1])) == ["b"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"u": torch.zeros(2, 3)}, r"table 't' has no weights to count with: there are \['u'\]\. A model must declare"),
        ({"t": torch.zeros(3)}, r"table 't': the model wants shape \(2, 3\), the given weights have \(3,\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: dict[str, Tensor], message: str) -> None:
    with pytest.raises(TableError, match=message), Counting(weights):
        table("t", 2, 3, support=SUPPORT)


def test_declaring_twice_is_an_error() -> None:
    with Counting({"t": torch.zeros(2)}):
        table("t", 2)
        with pytest.raises(TableError, match="table 't' is declared twice"):
            table("t", 2)


def test_a_second_run_starts_afresh() -> None:
    counting = Counting({"a": torch.zeros(2)})
    for factor in (1.0, 5.0):
        with counting:
            log_marginal = factor * table("a", 2)[0]
        assert counting.counts(log_marginal)["a"].tolist() == [factor, 0]
