"""Closed-form M steps against a numerical maximiser of the weighted log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor
from torch.distributions import transform_to

from pyro_unsup.estimate.closed_forms import Cells, Observations, closed_form, has_closed_form
from pyro_unsup.infer.closed_form import BLOCKS, CONJUGATE

N, K = 60, 2
RATES = torch.tensor([30.0, 3.0], dtype=torch.float64)


def maximised(build: Callable[..., Any], begin: dict[str, Tensor], goal: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    """The parameters that make a goal largest, by L-BFGS in unconstrained space."""
    maps = {name: transform_to(build(**begin).arg_constraints[name]) for name in begin}
    leaves = {name: maps[name].inv(x).clone().requires_grad_() for name, x in begin.items()}
    how = torch.optim.LBFGS(list(leaves.values()), max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16,
                            history_size=20, line_search_fn="strong_wolfe")  # fmt: skip

    def loss() -> Tensor:
        how.zero_grad()
        found = -goal(build(**{name: maps[name](x) for name, x in leaves.items()}))
        found.backward()
        return found

    for _ in range(3):
        how.step(loss)
    return {name: maps[name](x).detach() for name, x in leaves.items()}


def counts() -> Tensor:
    return torch.poisson(torch.full((N, 1), 3.0))


FAMILIES: dict[str, tuple[type, dict[str, Tensor], dict[str, Any], Callable[[], Tensor]]] = {
    # the class, parameters that are estimated, others, and observations
    "normal": (dist.Normal, {"loc": torch.zeros(K), "scale": torch.ones(K)}, {}, lambda: torch.randn(N, 1)),
    "normal, loc": (
        dist.Normal,
        {"loc": torch.zeros(K)},
        {"scale": torch.tensor([0.5, 2.0])},
        lambda: torch.randn(N, 1),
    ),
    "normal, scale": (
        dist.Normal,
        {"scale": torch.ones(K)},
        {"loc": torch.tensor([0.5, 2.0])},
        lambda: torch.randn(N, 1),
    ),
    "log normal": (
        dist.LogNormal,
        {"loc": torch.zeros(K), "scale": torch.ones(K)},
        {},
        lambda: torch.randn(N, 1).exp(),
    ),
    "laplace, scale": (
        dist.Laplace,
        {"scale": torch.ones(K)},
        {"loc": torch.tensor([0.5, 2.0])},
        lambda: torch.randn(N, 1),
    ),
    "exponential": (dist.Exponential, {"rate": torch.ones(K)}, {}, lambda: torch.rand(N, 1)),
    "gamma": (dist.Gamma, {"concentration": torch.ones(K), "rate": torch.ones(K)}, {}, lambda: torch.rand(N, 1) + 0.1),
    "gamma, steep": (
        dist.Gamma,
        {"concentration": torch.ones(K), "rate": torch.ones(K)},
        {},
        lambda: torch.rand(N, 1) ** 6 + 1e-9,
    ),
    "gamma, rate": (
        dist.Gamma,
        {"rate": torch.ones(K)},
        {"concentration": torch.tensor([0.5, 3.0])},
        lambda: torch.rand(N, 1) + 0.1,
    ),
    "von Mises": (
        dist.VonMises,
        {"loc": torch.zeros(K), "concentration": torch.ones(K)},
        {},
        lambda: torch.randn(N, 1) + 0.3,
    ),
    "von Mises, concentration": (
        dist.VonMises,
        {"concentration": torch.ones(K)},
        {"loc": torch.tensor([0.1, 0.5])},
        lambda: torch.randn(N, 1),
    ),
    "poisson": (dist.Poisson, {"rate": torch.ones(K)}, {}, counts),
    "bernoulli": (dist.Bernoulli, {"probs": torch.full((K,), 0.5)}, {}, lambda: (torch.rand(N, 1) < 0.3).double()),
    "bernoulli, logits": (dist.Bernoulli, {"logits": torch.zeros(K)}, {}, lambda: (torch.rand(N, 1) < 0.3).double()),
    "binomial": (
        dist.Binomial,
        {"probs": torch.full((K,), 0.5)},
        {"total_count": torch.tensor(9.0)},
        lambda: counts().clamp(max=9),
    ),
    "geometric": (dist.Geometric, {"probs": torch.full((K,), 0.5)}, {}, counts),
    "geometric, logits": (dist.Geometric, {"logits": torch.zeros(K)}, {}, counts),
    "negative binomial, probs": (
        dist.NegativeBinomial,
        {"probs": torch.full((K,), 0.5)},
        {"total_count": torch.tensor([1.0, 4.5])},
        counts,
    ),
    "negative binomial, logits": (
        dist.NegativeBinomial,
        {"logits": torch.zeros(K)},
        {"total_count": torch.tensor([1.0, 4.5])},
        counts,
    ),
    "categorical": (dist.Categorical, {"probs": torch.full((K, 3), 1 / 3)}, {}, lambda: torch.randint(3, (N, 1))),
    "multivariate normal": (
        dist.MultivariateNormal,
        {"loc": torch.zeros(K, 2), "covariance_matrix": torch.eye(2).expand(K, 2, 2)},
        {},
        lambda: torch.randn(N, 1, 2),
    ),
    "multivariate normal, tril": (
        dist.MultivariateNormal,
        {"loc": torch.zeros(K, 2), "scale_tril": torch.eye(2).expand(K, 2, 2)},
        {},
        lambda: torch.randn(N, 1, 2),
    ),
    "multivariate normal, precision": (
        dist.MultivariateNormal,
        {"precision_matrix": torch.eye(2).expand(K, 2, 2)},
        {"loc": torch.zeros(K, 2)},
        lambda: torch.randn(N, 1, 2),
    ),
    "multivariate normal, loc": (
        dist.MultivariateNormal,
        {"loc": torch.zeros(K, 2)},
        {"covariance_matrix": torch.eye(2) + 0.4},
        lambda: torch.randn(N, 1, 2),
    ),
}


def family_of(kind: type) -> type:
    return next(one for one in kind.__mro__ if one.__module__.startswith("torch.distributions"))


def step(
    kind: type, dists: list[Any], value: Tensor, weights: list[Tensor], index: dict[str, Tensor | None],
    shapes: dict[str, torch.Size], priors: dict[str, Any] | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """The closed form."""
    sites = [Observations(one, value, w, index) for one, w in zip(dists, weights, strict=True)]
    blocks = {name: BLOCKS.get((family_of(kind), name), 0) for name in shapes}
    found = closed_form(kind)
    assert found is not None
    return found(Cells(sites, shapes, blocks, priors or {}), set(shapes))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_closed_form_is_the_maximum(name: str) -> None:
    kind, begin, others, values = FAMILIES[name]
    begin, others = ({key: x.double() for key, x in some.items()} for some in (begin, others))
    x, weight = values(), torch.rand(N, K)
    weight[:5, 0] = 0.0
    found = step(
        kind, [kind(**begin, **others)], x, [weight], dict.fromkeys(begin), {n: p.shape for n, p in begin.items()}
    )
    expected = maximised(lambda **own: kind(**own, **others), begin, lambda d: (weight * d.log_prob(x)).sum())
    assert found.keys() == expected.keys()
    for key, best in expected.items():
        torch.testing.assert_close(found[key], best, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["normal", "log normal", "gamma", "von Mises", "poisson", "exponential", "bernoulli"])
def test_one_element_for_all_states(name: str) -> None:
    kind, begin, _, values = FAMILIES[name]
    x, weight, index = values(), torch.rand(N, K), torch.zeros(K, dtype=torch.long)
    one = {key: p.double()[:1] for key, p in begin.items()}
    found = step(kind, [kind(**{key: p.double() for key, p in begin.items()})], x, [weight], dict.fromkeys(one, index),
                 {key: p.shape for key, p in one.items()})  # fmt: skip
    expected = maximised(kind, one, lambda d: (weight * d.log_prob(x)).sum())
    for key, best in expected.items():
        torch.testing.assert_close(found[key], best, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tied", ["loc", "scale"])
def test_means_of_states_and_one_scale(tied: str) -> None:
    """A joint maximum where only the scale is shared; where the mean is, one step of a climb."""
    x, weight = torch.randn(N, 1), torch.rand(N, K)
    index = {"loc": None, "scale": None, tied: torch.zeros(K, dtype=torch.long)}
    begin = {"loc": torch.zeros(K), "scale": torch.tensor([0.5, 2.0])}
    shared = begin | {tied: begin[tied][:1]}

    def goal(p: dict[str, Tensor]) -> Tensor:
        return (weight * dist.Normal(p["loc"].expand(K), p["scale"].expand(K)).log_prob(x)).sum()

    before, wide = goal(shared), begin | {tied: begin[tied][:1].expand(K).contiguous()}
    for _ in range(60):
        shapes = {"loc": shared["loc"].shape, "scale": shared["scale"].shape}
        shared = step(dist.Normal, [dist.Normal(**wide)], x, [weight], index, shapes)
        assert goal(shared) >= before - 1e-12
        before, wide = goal(shared), {key: p.expand(K).contiguous() for key, p in shared.items()}
    best = maximised(
        lambda loc, scale: dist.Normal(loc.expand(K), scale.expand(K)),
        {key: p[: len(shared[key])] for key, p in begin.items()},
        lambda d: (weight * d.log_prob(x)).sum(),
    )
    for key in shared:
        torch.testing.assert_close(shared[key], best[key], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "name", "prior", "values"),
    [
        (dist.Normal, "loc", dist.Normal(1.5, 0.2), lambda: torch.randn(N, 1)),
        (dist.Poisson, "rate", dist.Gamma(*RATES), counts),
        (dist.Exponential, "rate", dist.Gamma(*RATES), lambda: torch.rand(N, 1)),
        (dist.Bernoulli, "probs", dist.Beta(20.0, 3.0), lambda: (torch.rand(N, 1) < 0.3).double()),
        (dist.Categorical, "probs", dist.Dirichlet(torch.tensor([9.0, 2.0, 30.0])), lambda: torch.randint(3, (N, 1))),
    ],
)
def test_conjugate_priors(kind: type, name: str, prior: Any, values: Callable[[], Tensor]) -> None:
    assert isinstance(prior, CONJUGATE[family_of(kind), name])
    x, weight = values(), torch.rand(N, K)
    begin = {name: prior.expand([K]).sample().double()}
    others = {"scale": torch.tensor([0.7, 1.4])} if kind is dist.Normal else {}
    found = step(kind, [kind(**begin, **others)], x, [weight], {name: None}, {name: begin[name].shape}, {name: prior})
    expected = maximised(
        lambda **own: kind(**own, **others),
        begin,
        lambda d: (weight * d.log_prob(x)).sum() + prior.log_prob(getattr(d, name)).sum(),
    )
    torch.testing.assert_close(found[name], expected[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wanted", [("loc",), ("loc", "scale"), ("df", "loc", "scale"), ("df",)])
def test_steps_of_a_student_climb_to_the_maximum(wanted: tuple[str, ...]) -> None:
    x, weight = dist.StudentT(4.0, 1.0, 0.5).sample((N, 1)).double(), torch.rand(N, K)
    now = {"df": torch.tensor([3.0, 8.0]), "loc": torch.zeros(K), "scale": torch.ones(K)}
    fixed = {key: p for key, p in now.items() if key not in wanted}
    begin, last = {key: now[key] for key in wanted}, -torch.inf
    for i in range(200):
        total = float((weight * dist.StudentT(**now).log_prob(x)).sum())
        assert total >= last - 1e-10, i
        last = total
        now |= step(
            dist.StudentT, [dist.StudentT(**now)], x, [weight], dict.fromkeys(wanted), {n: now[n].shape for n in wanted}
        )
    expected = maximised(lambda **own: dist.StudentT(**own, **fixed), begin, lambda d: (weight * d.log_prob(x)).sum())
    best = float((weight * dist.StudentT(**fixed, **expected).log_prob(x)).sum())
    assert last > best - (1.0 if "df" in wanted else 1e-9)  # df rises slowly towards infinity


def test_elements_that_no_data_reach_have_no_value() -> None:
    x, weight = torch.randn(N, 1), torch.stack([torch.rand(N), torch.zeros(N)], -1)
    found = step(
        dist.Normal, [dist.Normal(torch.zeros(K), torch.ones(K))], x, [weight], {"loc": None}, {"loc": torch.Size([K])}
    )
    assert found["loc"].isnan().tolist() == [False, True]


def test_families_without_one() -> None:
    assert not has_closed_form(dist.Weibull)
    assert has_closed_form(dist.Normal)
