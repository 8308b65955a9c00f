"""``declared``: which tables a model has."""

from __future__ import annotations

import pyro
import pytest
import torch
from torch import Tensor

from pyro_unsup import Categorical, table
from pyro_unsup.errors import TableError
from pyro_unsup.handlers import DeclaredMessenger, declared, given

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])


def model(n: int = 3) -> Tensor:
    start = table("start", 2, prior=2.5)
    known = table("known", 2, n, support=SUPPORT, unvisited="keep")
    table("ragged", row_lengths=[1, 4])
    with pyro.plate("items", 5):
        z = pyro.sample("z", Categorical(start))
        x: Tensor = pyro.sample("x", Categorical(known[z]))
    return x


def test_declarations_come_in_order_and_say_all() -> None:
    found = declared(model, n=3)
    assert list(found) == ["start", "known", "ragged"]
    assert found["start"].layout.shape == (2,)
    assert float(found["start"].prior) == 2.5
    assert found["known"].unvisited == "keep"
    assert found["start"].unvisited == "error"
    assert found["known"].layout.support is not None
    assert torch.equal(found["known"].layout.support, SUPPORT)
    assert found["ragged"].layout.row_lengths is not None
    assert found["ragged"].layout.row_lengths.tolist() == [1, 4]
    assert found["known"].concentration(torch.float32).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_answer_is_uniform_and_respects_touched(dtype: torch.dtype) -> None:
    with DeclaredMessenger(dtype) as tables:
        known = table("known", 2, 3, support=SUPPORT)
        part = table("part", 2, 3, support=SUPPORT, touched=torch.tensor([2]))
        ragged = table("ragged", row_lengths=[1, 4], touched=torch.tensor([0, 3]))
    assert known.dtype == dtype
    assert known.exp().tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    assert part.exp().tolist() == [[0.0], [0.5]]
    assert ragged.exp().tolist() == pytest.approx([1, 0.25])
    assert tables.found["part"].touched is not None


def test_no_latent_site_is_left_for_outer_handlers() -> None:
    with pyro.poutine.trace() as traced:
        declared(model)
    assert not {"start", "known", "ragged"} & set(traced.trace.nodes)


def test_declaring_twice_is_an_error() -> None:
    def twice() -> None:
        table("t", 2)
        table("u", 2)
        table("t", 2)

    with pytest.raises(TableError, match="table 't' is declared twice in one run of the model: declare it once"):
        declared(twice)


def test_two_runs_of_one_messenger_start_afresh() -> None:
    tables = DeclaredMessenger()
    for _ in range(2):
        with tables:
            table("t", 2)
        assert list(tables.found) == ["t"]


def test_given_tables_are_not_declared() -> None:
    """What is given inside is fixed: engines around it learn the rest."""
    assert list(declared(given(model, {"start": torch.zeros(2)}))) == ["known", "ragged"]
