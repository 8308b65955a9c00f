"""Engines keep the parameters of a model themselves: Pyro's global store is read and written only when asked."""

from __future__ import annotations

from collections.abc import Callable

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.nn import PyroModule, PyroParam
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu
from pyro_unsup import EM

DATA = torch.cat(
    [torch.randn(20, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + k for k in (-2, 3)]
)
QUIET = {"progress": False, "tolerance": 0.0}


def normals(components: int) -> Callable[[Tensor], None]:
    def model(x: Tensor) -> None:
        share = pu.table("share", components)
        mean = pyro.param("mean", lambda: torch.linspace(-1.0, 1.0, components))
        scale = pyro.param("scale", lambda: torch.ones(components), constraint=constraints.greater_than(0.01))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[z], scale[z]), obs=x)

    return model


def test_a_run_leaves_the_store_as_it_was() -> None:
    pyro.get_param_store()["mean"] = torch.tensor([50.0, 60.0])
    fit = EM(normals(2)).run(DATA, iterations=3, **QUIET)
    assert list(pyro.get_param_store()) == ["mean"]
    assert pyro.param("mean").tolist() == [50.0, 60.0]
    assert float(fit.params["mean"].detach().abs().max()) < 10


def test_nothing_leaks_between_engines_or_sizes_of_a_model() -> None:
    alone = EM(normals(3)).run(DATA, iterations=4, **QUIET)
    EM(normals(2)).run(DATA, iterations=4, **QUIET)
    after = EM(normals(3)).run(DATA, iterations=4, **QUIET)
    assert after.params["mean"].shape == (3,)
    assert torch.equal(alone.params["mean"], after.params["mean"])
    one, other = EM(normals(2)), EM(normals(2))
    first, second = one.init(DATA), other.init(DATA)
    for _ in range(3):  # steps of one do not move the other
        first, _ = one.step(first)
    assert torch.equal(second.unconstrained["mean"], torch.tensor([-1.0, 1.0]))
    second, info = other.step(second)
    assert info.objective == EM(normals(2)).run(DATA, iterations=0, **QUIET).objective


def test_a_state_is_not_changed_by_the_next_step() -> None:
    engine = EM(normals(2))
    state = engine.init(DATA)
    before = {name: x.clone() for name, x in state.unconstrained.items()}
    new, info = engine.step(state)
    assert all(torch.equal(state.unconstrained[name], x) for name, x in before.items())
    assert not torch.equal(new.unconstrained["mean"], before["mean"])
    assert engine.step(state)[1].objective == info.objective


def test_a_start_from_a_fit_has_its_parameters_whatever_the_store_holds() -> None:
    first = EM(normals(2)).run(DATA, iterations=3, **QUIET)
    pyro.clear_param_store()
    second = EM(normals(2), init=pu.init.from_weights(first)).run(DATA, iterations=3, **QUIET)
    assert second.rows[0]["objective"] == first.objective
    whole = EM(normals(2)).run(DATA, iterations=6, **QUIET)
    assert torch.equal(second.params["scale"], whole.params["scale"])


def test_a_start_without_a_parameter_or_with_another_shape_is_an_error_that_names_it() -> None:
    first = EM(normals(2)).run(DATA, iterations=1, **QUIET)
    init = pu.init.from_weights(first)
    del first.unconstrained["scale"]
    with pytest.raises(pu.FitError, match=r"the other fit has no parameter 'scale': it has \['mean'\]"):
        EM(normals(2), init=init).run(DATA, **QUIET)
    wider = EM(normals(3)).run(DATA, iterations=1, **QUIET)
    with pytest.raises(pu.FitError, match=r"parameter 'mean' of shape \(3,\), the model wants \(2,\)"):
        EM(normals(2), init=pu.init.from_weights(wider)).run(DATA, **QUIET)


def test_with_store_parameters_start_there_and_end_there() -> None:
    start = EM(normals(2)).run(DATA, iterations=2, **QUIET)
    start.to_param_store(DATA)
    assert torch.equal(pyro.param("mean"), start.params["mean"])
    assert isinstance(pyro.get_param_store()._constraints["scale"], type(constraints.greater_than(0.01)))
    fit = EM(normals(2)).run(DATA, iterations=2, store=True, **QUIET)
    assert torch.equal(pyro.param("scale").detach(), fit.params["scale"])
    assert not torch.equal(fit.params["mean"], start.params["mean"])
    plain = EM(normals(2)).run(DATA, iterations=2, **QUIET)
    assert not torch.equal(plain.params["mean"], fit.params["mean"])  # it did not start from the store
    with pytest.raises(pu.FitError, match="Pyro's parameter store has parameter 'mean' of shape"):
        EM(normals(3)).run(DATA, store=True, **QUIET)


class Line(PyroModule):
    """A module with a parameter under a constraint, which Pyro keeps in its store by private means."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = PyroParam(torch.tensor(1.0), constraint=constraints.positive)
        self.linear = PyroModule[torch.nn.Linear](1, 1)

    def forward(self, x: Tensor) -> None:
        share = pu.table("share", 2)
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            middle = self.linear(z.to(x.dtype).unsqueeze(-1)).squeeze(-1)
            pyro.sample("x", dist.Normal(middle, self.scale), obs=x)


def test_modules_learn_and_leave_the_store_alone() -> None:
    fit = EM(Line()).run(DATA, iterations=5, **QUIET)
    assert sorted(fit.params) == ["linear.bias", "linear.weight", "scale"]
    assert fit.objective > fit.rows[0]["objective"]
    assert not list(pyro.get_param_store())
