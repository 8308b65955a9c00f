"""Which parameters have a closed-form M step, that it is the maximum, and that all others climb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import constraints
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import FitError
from pyro_unsup.infer.expectation import Marginal

N, K = 40, 2
positive = constraints.positive


def numbers() -> Tensor:
    return torch.cat([torch.randn(N // 2) - 2, 2 * torch.randn(N // 2) + 2])


def chain(emission: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
    """A hidden Markov model with an emission that is a function of the data."""

    def model(x: Tensor) -> None:
        start, steps = pu.table("start", K), pu.table("steps", K, K)
        with pyro.plate("series", 1):
            pyro.sample("x", pu.Chain(start, steps, emission(x), torch.tensor([len(x)]), flat=True), obs=x)

    return model


def loc(begin: Any = (-1.0, 1.0)) -> Tensor:
    return pyro.param("loc", torch.tensor(begin))


def scale(begin: Any = (1.0, 1.5)) -> Tensor:
    return pyro.param("scale", torch.tensor(begin), constraint=positive)


def mixture(x: Tensor) -> None:
    """Enumerated, with parameters that are looked up."""
    share, centre, spread = pu.table("share", K), loc(), scale()
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(centre[z], spread[z]), obs=x)


def mixture_one_scale(x: Tensor) -> None:
    share, centre, spread = pu.table("share", K), loc(), scale(1.0)
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(centre[z], spread), obs=x)


def mixture_vectors(x: Tensor) -> None:
    share = pu.table("share", K)
    centre = pyro.param("loc", torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    spread = pyro.param("cov", torch.eye(2).expand(K, 2, 2).clone(), constraint=constraints.positive_definite)
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.MultivariateNormal(centre[z], spread[z]), obs=x)


def two_sites(x: Tensor) -> None:
    """One mean in two sites of one family, with scales of their own."""
    share, centre = pu.table("share", K), loc()
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(centre[z], 1.0), obs=x)
        pyro.sample("y", dist.Normal(centre[z], 2.0), obs=x + 1)


def two_families(x: Tensor) -> None:
    share, rate = pu.table("share", K), pyro.param("rate", torch.tensor([1.0, 2.0]), constraint=positive)
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Exponential(rate[z]), obs=x.abs() + 0.01)
        pyro.sample("y", dist.Poisson(rate[z]), obs=x.abs().round())


def in_a_factor(x: Tensor) -> None:
    chain(lambda x: dist.Normal(loc(), scale()))(x)
    pyro.factor("ridge", -(pyro.param("loc") ** 2).sum())


def also_in_a_table(x: Tensor) -> None:
    """The mean decides the transitions too."""
    centre = loc()
    steps = torch.stack([torch.zeros(K), centre]).log_softmax(-1)
    pyro.sample("x", pu.Chain(pu.table("start", K), steps, dist.Normal(centre, scale()), len(x)), obs=x)


def with_prior(x: Tensor) -> None:
    centre = pyro.sample("loc", dist.Normal(torch.tensor([-1.0, 1.0]), 0.1).to_event(1))
    chain(lambda x: dist.Normal(centre, scale()))(x)


def with_another_prior(x: Tensor) -> None:
    centre = pyro.sample("loc", dist.Laplace(torch.tensor([-1.0, 1.0]), 0.1).to_event(1))
    chain(lambda x: dist.Normal(centre, scale()))(x)


def prior_on_scale(x: Tensor) -> None:
    spread = pyro.sample("scale", dist.LogNormal(torch.zeros(K), 0.1).to_event(1))
    chain(lambda x: dist.Normal(loc(), spread))(x)


def hyper(x: Tensor) -> None:
    """A prior that has a parameter of its own."""
    centre = pyro.sample("loc", dist.Normal(pyro.param("top", torch.tensor(0.5)), 1.0).expand([K]).to_event(1))
    chain(lambda x: dist.Normal(centre, scale()))(x)


def pairs(x: Tensor) -> Tensor:
    return torch.stack([x, -x + torch.randn(len(x))], -1)


def flags(x: Tensor) -> Tensor:
    return (x > 0).double()


def whole(x: Tensor) -> Tensor:
    return x.abs().round()


def probs(*size: int) -> Tensor:
    begin = torch.tensor([0.3, 0.6]).reshape(K, *(1 for _ in size)).expand(K, *size).clone()
    return pyro.param("probs", begin, constraint=constraints.unit_interval)


def mixture_classes(x: Tensor) -> None:
    share = pu.table("share", K)
    words = pyro.param("probs", torch.tensor([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]), constraint=constraints.simplex)
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Categorical(words[z]), obs=x)


def with_gaps(x: Tensor) -> Tensor:
    x = x.clone()
    x[[3, 17]] = torch.nan
    return x


def same(x: Tensor) -> Tensor:
    return x


def joint(x: Tensor) -> Any:
    return pu.Joint(dist.Normal(loc(), scale()), dist.Normal(pyro.param("other", torch.zeros(K)), 1.0))


def vector(x: Tensor) -> Any:
    return dist.Normal(pyro.param("loc", torch.tensor([[-1.0, 1.0], [1.0, -1.0]])), scale(((1.0,), (2.0,)))).to_event(1)


def tied(x: Tensor) -> Any:
    cov = pyro.param("cov", torch.eye(2), constraint=constraints.positive_definite)
    return dist.MultivariateNormal(pyro.param("loc", torch.tensor([[-1.0, 1.0], [1.0, -1.0]])), cov)


def regression(x: Tensor, begin: Any = (0.1, 0.2)) -> Any:
    slope = pyro.param("slope", torch.tensor(begin))
    return dist.Normal(loc() + slope * torch.linspace(-1, 1, len(x)).unsqueeze(-1), scale())


def twice(x: Tensor) -> Any:
    both = pyro.param("both", torch.tensor([0.5, 1.5]), constraint=positive)
    return dist.Normal(both, both)


CASES: dict[str, tuple[Callable[[Tensor], None], Callable[[Tensor], Tensor], set[str]]] = {
    # the model, what it sees of the numbers, and the parameters that have a closed form
    "chain": (chain(lambda x: dist.Normal(loc(), scale())), same, {"loc", "scale"}),
    "chain with gaps": (chain(lambda x: dist.Normal(loc(), scale())), with_gaps, {"loc", "scale"}),
    "one scale": (chain(lambda x: dist.Normal(loc(), scale(1.0))), same, {"loc", "scale"}),
    "one scale, expanded": (chain(lambda x: dist.Normal(loc(), scale([1.0]).expand(K))), same, {"loc", "scale"}),
    "mean only": (chain(lambda x: dist.Normal(loc(), torch.tensor([1.0, 2.0]))), same, {"loc"}),
    "states the other way round": (chain(lambda x: dist.Normal(loc().flip(0), scale())), same, {"loc", "scale"}),
    "parts of one": (chain(lambda x: dist.Normal(loc((-1.0, 1.0, 1.0, 1.5))[:2], scale())), same, {"loc", "scale"}),
    "vectors, spherical": (chain(vector), pairs, {"loc", "scale"}),
    "vectors, tied": (chain(tied), pairs, {"loc", "cov"}),
    "joint": (chain(joint), pairs, {"loc", "scale", "other"}),
    "joint with gaps": (chain(joint), lambda x: with_gaps(pairs(x)), {"loc", "scale", "other"}),
    "mixture": (mixture, same, {"loc", "scale"}),
    "mixture, one scale": (mixture_one_scale, same, {"loc", "scale"}),
    "mixture of vectors": (mixture_vectors, pairs, {"loc", "cov"}),
    "two sites": (two_sites, same, {"loc"}),
    "with a prior": (with_prior, same, {"loc", "scale"}),
    "bernoulli": (chain(lambda x: dist.Bernoulli(probs())), flags, {"probs"}),
    "bernoulli, logits": (chain(lambda x: dist.Bernoulli(logits=loc())), flags, {"loc"}),
    "bernoulli, vectors": (chain(lambda x: dist.Bernoulli(probs(2)).to_event(1)), lambda x: flags(pairs(x)), {"probs"}),
    "geometric": (chain(lambda x: dist.Geometric(probs())), whole, {"probs"}),
    "negative binomial": (chain(lambda x: dist.NegativeBinomial(4.0, probs())), whole, {"probs"}),
    "mixture of classes": (mixture_classes, lambda x: whole(x).clamp(max=2).long(), set()),  # divided by its sum
    # and what has none
    "regression": (chain(regression), same, set()),
    "regression, level at first": (chain(lambda x: regression(x, (0.0, 0.0))), same, set()),
    "affine": (chain(lambda x: dist.Normal(2 * loc() + 1, 1.0)), same, set()),
    "logs": (chain(lambda x: dist.Normal(loc(), loc().exp())), same, set()),
    "square": (chain(lambda x: dist.Normal(loc() ** 2, 1.0)), same, set()),
    "mean of means": (chain(lambda x: dist.Normal(loc().mean() * torch.ones(K), scale())), same, set()),
    "twice": (chain(twice), same, set()),
    "two families": (two_families, same, set()),
    "factor": (in_a_factor, same, set()),
    "table": (also_in_a_table, same, set()),
    "another prior": (with_another_prior, same, set()),
    "prior on a scale": (prior_on_scale, same, set()),
    "prior with a parameter": (hyper, same, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_has_a_closed_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, view, expected = CASES[name]
    x = view(numbers())
    engine = pu.EM(model, lbfgs_iterations=200)
    state = engine.init(x, seed=0)
    _, found = engine.e_step(state)
    names = found.plan.names if found.plan is not None else set()
    if expected:
        assert names == expected
    else:  # what does not qualify climbs; a parameter beside it may still have a closed form
        assert not names & {"loc", "slope", "both", "rate", "top"} or name in (
            "mean of means",
            "prior on a scale",
            "prior with a parameter",
        )
    now = engine.m_step(state, found)
    problem = state.problem

    def worth(some: Any) -> float:
        problem.parameters.write(some.unconstrained)
        return float(problem.marginal.expected_complete(state.tables, found.factors, *problem.data).detach())

    assert worth(now) >= worth(state) - 1e-9
    if expected:
        monkeypatch.setattr(Marginal, "closed_form", lambda *_: {})
        climbed = state
        for _ in range(6):  # on the same expectation, until nothing moves
            again = engine.m_step(climbed, found)
            climbed = type(climbed)(**{**climbed.__dict__, "unconstrained": again.unconstrained})
        monkeypatch.undo()
        room = 1.0 if name == "with a prior" else 1e-6  # there the mean is best given the scale before
        assert -room < worth(now) - worth(climbed) < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_objective_never_falls(name: str) -> None:
    model, view, _ = CASES[name]
    engine = pu.EM(model)
    state, trace = engine.init(view(numbers()), seed=0), []
    for _ in range(10):
        state, info = engine.step(state)
        trace.append(info.objective)
    trace = torch.tensor(trace)
    assert (trace.diff() > -1e-8).all()
    assert trace[-1] > trace[0]


def test_a_state_on_one_point_is_named() -> None:
    x = torch.cat([torch.randn(30), torch.tensor([50.0])])
    model = chain(lambda x: dist.Normal(loc((0.0, 50.0)), scale((1.0, 0.1))))
    with pytest.raises(FitError, match="element 1 of parameter 'scale' has run to the edge"):
        pu.EM(model).run(x, progress=False)
    room = chain(
        lambda x: dist.Normal(
            loc((0.0, 50.0)), pyro.param("scale", torch.tensor([1.0, 0.1]), constraint=constraints.greater_than(0.01))
        )
    )
    fit = pu.EM(room).run(x, progress=False)
    assert abs(fit.params["scale"][1] - 0.01) < 1e-6


def test_a_vector_state_on_one_point_is_named() -> None:
    x = torch.cat([torch.randn(30, 2), torch.tensor([[50.0, 50.0]])])
    for covariance, where in (("full", "element 1 of parameter 'covariance'"), ("diagonal", r"element \(1, 0\)")):
        model = pu.models.HMM(2, "multivariate_normal", dim=2, covariance=covariance)
        with pytest.raises(FitError, match=where):
            pu.EM(model).run(x, progress=False)


def test_a_state_of_zeros_is_no_error() -> None:
    x = torch.tensor([0.0] * 20 + [5.0, 7.0, 9.0, 6.0] + [0.0] * 20)
    fit = pu.EM(pu.models.HMM(2, "poisson", init={"rate": [0.1, 5.0]})).run(x, progress=False)
    assert fit.params["rate"][0] < 1e-100
    torch.testing.assert_close(fit.params["rate"][1], torch.tensor(6.75), rtol=1e-3, atol=0.0)


def test_a_family_that_gives_up_is_climbed_in_replayed_runs_too() -> None:
    """A gamma's shape alone has no formula: then the E step must find what L-BFGS needs, in every iteration."""
    torch.manual_seed(0)
    x = torch.cat([torch.distributions.Gamma(a, 1.0).sample((100,)) for a in (2.0, 20.0)]).double()

    class Shapes:
        replayable = True

        def __call__(self, x: Tensor) -> None:
            shape = pyro.param("shape", lambda: torch.tensor([1.0, 10.0]).double(), constraint=constraints.positive)
            chain = pu.Chain(pu.table("start", 2), pu.table("transition", 2, 2), dist.Gamma(shape, 1.0), len(x))
            pyro.sample("x", chain, obs=x)

    engine = pu.EM(Shapes())
    state = engine.init(x)
    found = engine.e_step(state)[1]
    assert found.plan is not None
    assert not found.plan.names
    fit = engine.run(x, progress=False)
    assert fit.report.converged
    assert fit.params["shape"].tolist() == pytest.approx([2.0, 20.0], rel=0.15)


CHAIN = (torch.tensor([0.5, 0.5]).double().log(), torch.tensor([[0.9, 0.1], [0.1, 0.9]]).double().log())


def two_levels() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(110, generator=generator, dtype=torch.float64)
    return noise * torch.tensor([1.0] * 40 + [2.0] * 40 + [1.0] * 30) + torch.tensor(
        [-2.0] * 40 + [2.0] * 40 + [-2.0] * 30
    )


def test_a_mean_that_states_share_is_weighed_by_their_covariances() -> None:
    x = torch.stack([two_levels(), two_levels().flip(0)], -1)

    def model(x: Tensor) -> None:
        loc = pyro.param("loc", torch.zeros(2).double())
        begin = torch.stack([torch.eye(2), 6 * torch.eye(2)]).double()
        covariance = pyro.param("covariance", begin, constraint=constraints.positive_definite)
        pyro.sample("x", pu.Chain(*CHAIN, dist.MultivariateNormal(loc, covariance_matrix=covariance), len(x)), obs=x)

    engine = pu.EM(model)
    found = engine.e_step(engine.init(x))[1]
    assert found.plan is not None
    assert not found.plan.names
    fit = engine.run(x, progress=False, iterations=200)
    loc = fit.params["loc"].clone().requires_grad_()
    emission = dist.MultivariateNormal(loc, covariance_matrix=fit.params["covariance"])
    (slope,) = torch.autograd.grad(pu.Chain(*CHAIN, emission, len(x)).log_prob(x), loc)
    assert float(slope.abs().max()) < 0.05


@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_a_prior_that_is_scaled_is_another_prior(scale: float) -> None:
    x = two_levels()

    def model(x: Tensor, spread: float, weight: float) -> None:
        with pyro.poutine.scale(scale=weight):
            loc = pyro.sample("loc", dist.Normal(torch.tensor([-1.0, 3.0]).double(), spread).to_event(1))
        pyro.sample("x", pu.Chain(*CHAIN, dist.Normal(loc, torch.tensor([1.0, 2.0]).double()), len(x)), obs=x)

    scaled = pu.EM(model).run(x, 0.3, scale, progress=False, tolerance=1e-11)
    plain = pu.EM(model).run(x, 0.3 / scale**0.5, 1.0, progress=False, tolerance=1e-11)
    torch.testing.assert_close(scaled.points["loc"], plain.points["loc"], rtol=1e-4, atol=1e-4)


def test_a_subclass_with_a_density_of_its_own_is_climbed() -> None:
    class Laplace(dist.Normal):
        def log_prob(self, value: Tensor) -> Tensor:
            found: Tensor = dist.Laplace(self.loc, self.scale).log_prob(value)
            return found

    def model(x: Tensor) -> None:
        loc = pyro.param("loc", torch.tensor([-1.0, 1.0]).double())
        spread = pyro.param("spread", torch.ones(2).double(), constraint=constraints.positive)
        pyro.sample("x", pu.Chain(*CHAIN, Laplace(loc, spread), len(x)), obs=x)

    engine = pu.EM(model)
    found = engine.e_step(engine.init(two_levels()))[1]
    assert found.plan is None or not found.plan.names


def test_a_parameter_may_end_at_the_edge_of_an_interval() -> None:
    def model(x: Tensor) -> None:
        loc = pyro.param("loc", torch.tensor([-0.1, 0.1]).double(), constraint=constraints.interval(-0.5, 0.5))
        pyro.sample("x", pu.Chain(*CHAIN, dist.Normal(loc, 1.0), len(x)), obs=x)

    fit = pu.EM(model).run(two_levels(), progress=False)
    assert fit.params["loc"].tolist() == pytest.approx([-0.5, 0.5], abs=1e-3)


def test_degrees_of_freedom_that_went_further_by_another_way_do_not_fall() -> None:
    """Data without tails want as many as there can be. The formula stops at some, but never goes back."""
    x = torch.linspace(-1.0, 1.0, 50, dtype=torch.float64)
    init = {"df": [1e6], "loc": [0.1], "scale": [0.5]}
    fit = pu.EM(pu.models.HMM(1, "student_t", init=init)).run(x, iterations=3, tolerance=0.0, progress=False)
    assert float(fit.params["df"]) == pytest.approx(1e6)
