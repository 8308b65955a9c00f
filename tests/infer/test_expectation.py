"""What the E step takes from Pyro by private means: these tests notice if a new version has it no more."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import TraceEnum_ELBO
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM
from pyro_unsup.errors import FitError, TableError, without_shapes
from pyro_unsup.infer.expectation import at_iteration


def test_pyro_still_has_the_methods_that_are_overridden() -> None:
    assert callable(TraceEnum_ELBO._get_trace)
    assert callable(TraceEnum_ELBO._get_traces)


def test_packed_tensors_still_carry_the_names_of_their_axes() -> None:
    """Weights that sum to less than one under a mask: without the axis names, masked cells would count."""

    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        with pyro.plate("data", 3), pyro.poutine.mask(mask=torch.tensor([True, False, True])):
            z = pyro.sample("z", pu.Categorical(share - 1.0))
            pyro.sample("x", dist.Normal(z.double(), 1.0), obs=x)

    engine = EM(model, init=pu.init.uniform())
    _, expected = engine.e_step(engine.init(torch.zeros(3)))
    assert float(expected.counts["share"].sum()) == pytest.approx(2.0)


def test_data_that_depend_on_nothing_learned_say_so() -> None:
    def model(x: Tensor) -> None:
        pu.table("share", 2)
        pyro.sample("x", dist.Normal(0.0, 1.0), obs=x)

    with pytest.raises(FitError, match="the data do not depend on anything that the model could learn"):
        EM(model).session().step(torch.tensor(0.0))


def test_an_error_of_a_model_is_not_taken_for_that() -> None:
    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        pyro.sample("x", pu.Categorical(share), obs=x)
        if float(share.detach().exp().max()) > 0.500001:  # in the first E step, not in the first look at the model
            raise ValueError("no such thing")

    with pytest.raises(FitError, match=r"^iteration 0: no such thing\n") as told:
        EM(model).session().step(torch.tensor(0))
    assert "Sample Sites:" in str(told.value)  # Pyro's table of shapes, for the user's own error


def test_errors_lose_the_shapes_that_pyro_adds() -> None:
    def model() -> None:
        pyro.sample("x", dist.Normal(0.0, 1.0))
        raise TableError("wrong")

    with pytest.raises(TableError, match=r"^wrong$"), without_shapes():
        pyro.poutine.trace(model).get_trace()
    with pytest.raises(FitError, match=r"^iteration 3: wrong$"), at_iteration(3, has_parameters=True):
        pyro.poutine.trace(model).get_trace()


def test_only_errors_of_others_get_a_hint_about_parameters() -> None:
    with (
        pytest.raises(FitError, match=r"iteration 1: bad scale \(a parameter that runs to the edge"),
        at_iteration(1, True),
    ):
        raise ValueError("bad scale")
    with pytest.raises(FitError, match=r"^iteration 1: bad scale$"), at_iteration(1):
        raise ValueError("bad scale")
