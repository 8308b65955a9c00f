"""Chains that emit anything, against enumeration of all paths in plain loops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from scipy import integrate, special, stats
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import Chain
from pyro_unsup.distributions.ragged import pad
from pyro_unsup.distributions.series import ChainPosterior
from pyro_unsup.errors import StructureError

from .series_oracle import KINDS, Enumerated, Kind

K, LENGTHS = 3, [3, 0, 1, 2]
ROWS, LONGEST = sum(LENGTHS), max(LENGTHS)
close = {"rtol": 1e-10, "atol": 1e-10}
#: The shape of the batch of the parameters, for values that lie flat and for padded ones.
LAYOUTS = {
    "one": ((K,), (K,)),
    "by step": ((ROWS, K), (LONGEST, K)),
    "by series": ((len(LENGTHS), 1, K), (len(LENGTHS), 1, K)),
    "by series and step": ((len(LENGTHS), LONGEST, K), (len(LENGTHS), LONGEST, K)),
    "draws": ((2, 1, 1, K), (2, 1, 1, K)),
    "draws by step": ((2, 1, ROWS, K), (2, 1, LONGEST, K)),
}


@pytest.fixture(params=["kernel", "definition"], autouse=True)
def _both(request: Any) -> Iterator[None]:
    with pu.kernels.switched_off() if request.param == "definition" else nullcontext():
        yield


def distributions(*shape: int) -> Tensor:
    return torch.randn(*shape).log_softmax(-1).requires_grad_()


class Tried:
    """A chain over several series, and all paths of each of them."""

    def __init__(self, kind: Kind, layout: str, flat: bool, gaps: bool = False, by_step: bool = False) -> None:
        self.parameters = kind.draw(*LAYOUTS[layout][0 if flat else 1])
        self.start = distributions(K)
        if by_step:
            self.transition = distributions(*((ROWS,) if flat else (len(LENGTHS), LONGEST)), K, K)
        else:
            self.transition = distributions(K, K)
        self.flat, self.lengths, self.draws = flat, torch.tensor(LENGTHS), 2 if "draws" in layout else 1
        self.has_draws = "draws" in layout
        x = kind.values(ROWS)
        if gaps:
            x[[1, 4]] = torch.nan
        self.value = x if flat else pad(x, self.lengths, fill=x[0].flatten()[0].item())
        self.chain = Chain(
            self.start, self.transition, kind.build(**self.parameters), self.lengths, flat=flat, by_step=by_step
        )
        self.series = [
            [self._series(kind, layout, x, d, b, by_step) for b in range(len(LENGTHS))] for d in range(self.draws)
        ]

    def _series(self, kind: Kind, layout: str, x: Tensor, d: int, b: int, by_step: bool) -> Enumerated:
        begin, rows = sum(LENGTHS[:b]), []
        for t in range(LENGTHS[b]):
            at = begin + t if self.flat and layout != "by series and step" else t
            seen = not bool(x[begin + t].isnan().any())
            each = [kind.one(self.parameters, d, b, at, k).log_prob(x[begin + t]) for k in range(K)] if seen else []
            rows.append(torch.stack(each) if seen else torch.zeros(K))
        density = torch.stack(rows) if rows else torch.zeros(0, K)
        if not by_step:
            steps = self.transition.expand(max(LENGTHS[b], 1), K, K)
        else:
            steps = self.transition[begin : begin + LENGTHS[b]] if self.flat else self.transition[b]
        return Enumerated(self.start, steps, density)

    def laid_out(self, name: str) -> Tensor:
        """A result of all series end to end, after an axis of draws."""
        each = [torch.cat([getattr(one, name) for one in row if one.length]) for row in self.series]
        return torch.stack(each)

    def as_found(self, found: Tensor) -> Tensor:
        """What the chain found, in the same form."""
        found = found if self.has_draws else found.unsqueeze(0)
        if self.flat:
            return found
        return torch.stack([torch.cat([one[b, :n] for b, n in enumerate(LENGTHS)]) for one in found])


def check(tried: Tried) -> None:
    """Every query about the states."""
    total = tried.chain.log_prob(tried.value)
    expected = torch.stack([torch.stack([one.log_z for one in row]) for row in tried.series])
    torch.testing.assert_close(total if tried.has_draws else total.unsqueeze(0), expected, **close)
    leaves = [tried.start, tried.transition, *tried.parameters.values()]
    found = torch.autograd.grad(total.sum(), leaves)
    wanted = torch.autograd.grad(expected.sum(), leaves)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **close)
    posterior = tried.chain.posterior(tried.value)
    for name in ("filtered", "predicted", "smoothed", "pairwise", "step_log_likelihood"):
        torch.testing.assert_close(tried.as_found(getattr(posterior, name)), tried.laid_out(name), msg=name, **close)
    assert torch.equal(tried.as_found(posterior.mode()), tried.laid_out("mode"))
    assert torch.equal(tried.as_found(posterior.mbr()), tried.laid_out("smoothed").argmax(-1))
    entropy = torch.stack([torch.stack([one.entropy for one in row]) for row in tried.series])
    torch.testing.assert_close(
        posterior.entropy if tried.has_draws else posterior.entropy.unsqueeze(0), entropy, **close
    )
    assert posterior.sample().shape == posterior.mode().shape


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "padded"])
@pytest.mark.parametrize("kind", KINDS)
def test_families(kind: str, flat: bool) -> None:
    check(Tried(KINDS[kind], "one", flat))


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "padded"])
@pytest.mark.parametrize("kind", ["normal", "multivariate normal", "joint"])
@pytest.mark.parametrize("layout", list(LAYOUTS)[1:])
def test_parameters_of_their_own(kind: str, layout: str, flat: bool) -> None:
    check(Tried(KINDS[kind], layout, flat))


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "padded"])
@pytest.mark.parametrize("layout", ["one", "by step", "by series", "draws"])
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
def test_transitions_by_step(layout: str, gaps: bool, flat: bool) -> None:
    check(Tried(KINDS["normal"], layout, flat, gaps, by_step=True))


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "padded"])
@pytest.mark.parametrize("kind", KINDS)
def test_missing_steps(kind: str, flat: bool) -> None:
    check(Tried(KINDS[kind], "one", flat, gaps=True))


def test_padding_may_hold_anything() -> None:
    rate = torch.rand(LONGEST, K) + 1
    chain = Chain(distributions(K), distributions(K, K), dist.Poisson(rate), torch.tensor([2, 3]))
    x = torch.tensor([[1.0, 2.0, 0.0], [0.0, 4.0, 1.0]])
    expected, states = chain.log_prob(x), chain.posterior(x).smoothed
    for fill in (torch.nan, -7.0):
        x[0, 2] = fill
        torch.testing.assert_close(chain.log_prob(x), expected)
        torch.testing.assert_close(chain.posterior(x).smoothed, states)
        torch.testing.assert_close(chain.posterior(torch.nn.functional.pad(x, (0, 2), value=fill)).mode()[:, :3],
                                   chain.posterior(x).mode())  # fmt: skip


@pytest.mark.parametrize("second", [False, True], ids=["first order", "second order"])
@pytest.mark.parametrize("holes", [False, True], ids=["all", "holes"])
def test_stop_events_second_order_and_any_weights(second: bool, holes: bool) -> None:
    loc, x, lengths = torch.randn(K), torch.randn(6), [1, 2, 3]

    def table(*shape: int) -> Tensor:  # not normalised
        found = 3 * torch.randn(*shape)
        return found.masked_fill(torch.rand(shape) < 0.2, -torch.inf) if holes else found

    start, first = table(K), table(K, K + 1)
    later = table(K, K, K + 1) if second else None
    transition, into = (later, first) if later is not None else (first, None)
    chain = Chain(start, transition, dist.Normal(loc, 1.0), torch.tensor(lengths), into, flat=True)
    posterior, total, begin = chain.posterior(x), chain.log_prob(x), 0
    for b, n in enumerate(lengths):
        part = slice(begin, begin + n)
        steps = first[:, :K].expand(n, K, K)
        more = {} if later is None else {"second": later[..., :K], "stop_second": later[..., K]}
        density = dist.Normal(loc, 1.0).log_prob(x[part, None])
        one = Enumerated(start, steps, density, first[:, K], **more)
        torch.testing.assert_close(total[b], one.log_z, **close)
        if math.isfinite(float(one.log_z)):
            torch.testing.assert_close(posterior.smoothed[part], one.smoothed, **close)
            torch.testing.assert_close(posterior.entropy[b], one.entropy, **close)
            assert torch.equal(posterior.mode()[part], one.mode)
            torch.testing.assert_close(posterior.pairwise[part], one.pairwise, **close)
        else:
            assert (posterior.mode()[part] == -1).all()
        begin += n


def test_second_order_filtered() -> None:
    first, later, loc, x = distributions(K, K), distributions(K, K, K), torch.randn(K), torch.randn(4)
    start = distributions(K)
    posterior = Chain(start, later, dist.Normal(loc, 1.0), 4, first).posterior(x)
    one = Enumerated(start, first.expand(4, K, K), dist.Normal(loc, 1.0).log_prob(x[:, None]), second=later)
    torch.testing.assert_close(posterior.filtered, one.filtered, **close)
    torch.testing.assert_close(posterior.step_log_likelihood, one.step_log_likelihood, **close)
    torch.testing.assert_close(posterior.pairwise, one.pairwise, **close)


def test_second_order_predicted_forecast_and_residuals() -> None:
    """What comes next is a chain that goes on, with nothing observed there."""
    start, first, later, loc = distributions(K), distributions(K, K), distributions(K, K, K), torch.randn(K)
    x, normal, lengths = torch.randn(5), dist.Normal(loc, 1.0), [4, 1]
    posterior = Chain(start, later, normal, torch.tensor(lengths), first, flat=True).posterior(x)
    states, begin = posterior.forecast(3).states, 0
    for b, n in enumerate(lengths):
        density = torch.cat([normal.log_prob(x[begin : begin + n, None]), torch.zeros(3, K)])
        for t in range(n + 3):  # with t observations before
            known = torch.cat([density[: min(t, n)], torch.zeros(max(t - n, 0) + 1, K)])
            expected = Enumerated(start, first.expand(t + 1, K, K), known, second=later).filtered[-1]
            if t < n:
                torch.testing.assert_close(posterior.predicted[begin + t], expected, **close)
                below = (expected * normal.cdf(x[begin + t])).sum()
                residual = dist.Normal(0.0, 1.0).icdf(below)
                torch.testing.assert_close(posterior.residuals()[begin + t], residual, **close)
            else:
                torch.testing.assert_close(states[b, t - n], expected, **close)
                mean = (expected * loc).sum()
                torch.testing.assert_close(posterior.forecast(3).mean[b, t - n], mean, **close)
        begin += n
    with pytest.raises(StructureError, match="transitions of a second-order chain do not vary by step: leave"):
        posterior.forecast(1, transition=first.unsqueeze(0))


def test_second_order_queries_of_several_series_draws_and_constraints() -> None:
    draws, start, first, later = 2, distributions(2, 1, K), distributions(2, 1, K, K), distributions(2, 1, K, K, K)
    loc, x = torch.randn(K), torch.randn(2, 3)
    x[0, 1] = torch.nan
    wide = Chain(start, later, dist.Normal(loc, 1.0), torch.tensor([3, 2]), first).posterior(x)
    for draw in range(draws):
        one = Chain(start[draw, 0], later[draw, 0], dist.Normal(loc, 1.0), torch.tensor([3, 2]), first[draw, 0])
        found = one.posterior(x)
        for name in ("predicted", "pairwise", "filtered"):
            torch.testing.assert_close(getattr(wide, name)[draw], getattr(found, name), **close)
        torch.testing.assert_close(wide.forecast(2).states[draw], found.forecast(2).states, **close)
    # A constraint on a state is a density of zero elsewhere.
    flat = Chain(start[0, 0], later[0, 0], dist.Normal(loc, 1.0), torch.tensor([3]), first[0, 0], flat=True)
    never = torch.zeros(3, K).index_put((torch.tensor([1]), torch.tensor([0])), torch.tensor(-torch.inf))
    values = torch.tensor([0.1, -0.3, 0.8])
    density = dist.Normal(loc, 1.0).log_prob(values[:, None]) + never
    known = Enumerated(start[0, 0], first[0, 0].expand(3, K, K), density, second=later[0, 0])
    bound, places = flat.laid_flat(values)
    found = ChainPosterior(bound.with_potentials(states=never), places)
    torch.testing.assert_close(found.pairwise, known.pairwise, **close)
    torch.testing.assert_close(found.filtered, known.filtered, **close)


def test_paths_are_drawn_by_their_probability() -> None:
    start, steps, loc, x = distributions(2), distributions(2, 2), torch.randn(2), torch.randn(3)
    one = Enumerated(start, steps.expand(3, 2, 2), dist.Normal(loc, 1.0).log_prob(x[:, None]))
    drawn = Chain(start, steps, dist.Normal(loc, 1.0), 3).posterior(x).sample((1000,))
    number = (drawn * torch.tensor([4, 2, 1])).sum(-1)
    counts = torch.bincount(number, minlength=8)
    assert stats.chisquare(counts.numpy(), 1000 * one.posterior.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("by_step", [False, True])
def test_new_data_follow_the_chain(by_step: bool) -> None:
    start, steps = torch.tensor([0.8, 0.2]), torch.tensor([[0.9, 0.1], [0.4, 0.6]])
    moves = (steps.log().expand(5, 2, 2) if by_step else steps.log()).clone()
    chain = Chain(start.log(), moves, dist.Normal(torch.tensor([-9.0, 9.0]), 1.0), torch.tensor([2, 3]), flat=True,
                  by_step=by_step)  # fmt: skip
    states = (chain.sample((800,)) > 0).long()  # (draws, 5): far enough apart to tell
    for series, weights in ((states[:, :2], [2, 1]), (states[:, 2:], [4, 2, 1])):
        n = series.shape[1]
        one = Enumerated(start.log(), steps.log().expand(n, 2, 2), torch.zeros(n, 2))
        counts = torch.bincount((series * torch.tensor(weights)).sum(-1), minlength=2**n)
        assert stats.chisquare(counts.numpy(), 800 * one.posterior.numpy()).pvalue > 1e-4


# -- forecasts


@pytest.mark.parametrize("kind", ["normal", "gamma", "poisson", "student", "mixture", "von Mises", "bernoulli"])
def test_forecasts(kind: str) -> None:
    family = KINDS[kind]
    parameters, x = {name: p.detach() for name, p in family.draw(K).items()}, family.values(3)
    if "df" in parameters:
        parameters["df"] += 3  # so that there is a variance
    start, steps = distributions(K).detach(), distributions(K, K).detach()
    emission = family.build(**parameters)
    one = Enumerated(start, steps.expand(3, K, K), emission.log_prob(x[:, None]))
    found = Chain(start, steps, emission, 3).posterior(x).forecast(4)
    now = one.filtered[-1]
    for step in range(4):
        now = now @ steps.exp()
        torch.testing.assert_close(found.states[step], now, **close)
        if kind != "von Mises":
            mean = (now * emission.mean).sum()
            torch.testing.assert_close(found.mean[step], mean, **close)
            square = (now * (emission.variance + emission.mean**2)).sum()
            torch.testing.assert_close(found.variance[step], square - mean**2, **close)
    grid = family.values(5).unsqueeze(-1)  # a value for all steps
    functions = {
        "normal": lambda k, v: stats.norm.cdf(v, parameters["loc"][k], parameters["scale"][k]),
        "gamma": lambda k, v: stats.gamma.cdf(v, parameters["concentration"][k], scale=1 / parameters["rate"][k]),
        "poisson": lambda k, v: stats.poisson.cdf(v, parameters["rate"][k]),
        "student": lambda k, v: stats.t.cdf(v, parameters["df"][k], parameters["loc"][k], parameters["scale"][k]),
        "bernoulli": lambda k, v: stats.bernoulli.cdf(v, parameters["probs"][k]),
        "mixture": lambda k, v: sum(
            float(w) * stats.norm.cdf(v, m, 0.7)
            for w, m in zip(parameters["logits"][k].softmax(-1), parameters["loc"][k], strict=True)
        ),
        "von Mises": lambda k, v: _angle(v, float(parameters["loc"][k]), float(parameters["concentration"][k])),
    }
    each = torch.stack([torch.as_tensor(functions[kind](k, grid.numpy())) for k in range(K)], -1)  # (5, 1, K)
    torch.testing.assert_close(found.cdf(grid), (each * found.states).sum(-1), rtol=1e-6, atol=1e-6)
    if kind == "von Mises":
        return
    levels = torch.tensor([0.01, 0.1, 0.5, 0.9, 0.999])
    quantiles = found.quantile(levels)
    assert quantiles.shape == (5, 4)
    for level, row in zip(levels, quantiles, strict=True):
        if kind in ("poisson", "bernoulli"):
            assert (found.cdf(row) >= level - 1e-9).all()
            assert (found.cdf(row - 1) < level + 1e-9).all()
            assert torch.equal(row, row.round())
        else:
            torch.testing.assert_close(found.cdf(row), level.expand(4), rtol=1e-9, atol=1e-9)


def _angle(v: Any, loc: float, concentration: float) -> Any:
    """P(-pi < X <= v), by integration."""
    family = stats.vonmises(concentration, loc)
    return np.array([[integrate.quad(family.pdf, -math.pi, a)[0]] for a in v.ravel()])


def test_forecasts_of_several_series_draws_and_what_varies() -> None:
    x = torch.randn(5)
    start, steps, loc = distributions(K).detach(), distributions(K, K).detach(), torch.randn(K)
    both = Chain(start, steps, dist.Normal(loc, 1.0), torch.tensor([2, 3]), flat=True).posterior(x).forecast(2)
    assert both.states.shape == (2, 2, K)
    assert both.mean.shape == (2, 2)
    alone = Chain(start, steps, dist.Normal(loc, 1.0), 3).posterior(x[2:]).forecast(2)
    torch.testing.assert_close(both.states[1], alone.states, **close)
    torch.testing.assert_close(both.quantile(0.3)[1], alone.quantile(0.3), **close)
    many = Chain(start, steps, dist.Normal(torch.stack([loc, -loc]).reshape(2, 1, 1, K), 1.0), torch.tensor([2, 3]),
                 flat=True).posterior(x).forecast(2)  # fmt: skip
    assert many.states.shape == (2, 2, 2, K)
    torch.testing.assert_close(many.states[0], both.states, **close)
    torch.testing.assert_close(many.mean[0], both.mean, **close)
    moves = steps.expand(3, K, K).contiguous()
    varying = Chain(start, moves, dist.Normal(loc.expand(3, K), 1.0), 3, by_step=True).posterior(x[2:])
    with pytest.raises(StructureError, match="transition="):
        varying.forecast(2)
    with pytest.raises(StructureError, match="emission="):
        varying.forecast(2, transition=moves[:2])
    with pytest.raises(StructureError, match=r"shape \(\.\.\., 2, 3, 3\), actual \(3, 3, 3\)"):
        varying.forecast(2, transition=moves, emission=dist.Normal(loc, 1.0))
    found = varying.forecast(2, transition=moves[:2], emission=dist.Normal(loc.expand(2, K), 1.0))
    torch.testing.assert_close(found.mean, alone.mean, **close)
    with pytest.raises(StructureError, match="at least 1 step, actual 0"):
        varying.forecast(0)


def test_a_series_that_has_not_begun_is_forecast_from_its_start() -> None:
    start, steps, loc, x = distributions(K).detach(), distributions(K, K).detach(), torch.randn(K), torch.randn(2)
    for lengths in ([2, 0], [0, 2], [0, 0]):
        chain = Chain(start, steps, dist.Normal(loc, 1.0), torch.tensor(lengths), flat=True)
        found = chain.posterior(x[: sum(lengths)]).forecast(2).states[lengths.index(0)]
        torch.testing.assert_close(found, torch.stack([start.exp(), start.exp() @ steps.exp()]), **close)


# -- residuals


@pytest.mark.parametrize("kind", ["normal", "gamma", "poisson", "student", "exponential", "geometric",
                                  "negative binomial", "log normal", "bernoulli"])  # fmt: skip
def test_residuals(kind: str) -> None:
    family = KINDS[kind]
    p, x = {name: p.detach() for name, p in family.draw(2).items()}, family.values(3)
    start, steps = distributions(2), distributions(2, 2)
    emission = family.build(**p)
    one = Enumerated(start, steps.expand(3, 2, 2), emission.log_prob(x[:, None]))
    rivals = {
        "normal": lambda k: stats.norm(p["loc"][k], p["scale"][k]),
        "gamma": lambda k: stats.gamma(p["concentration"][k], scale=1 / p["rate"][k]),
        "poisson": lambda k: stats.poisson(p["rate"][k]),
        "student": lambda k: stats.t(p["df"][k], p["loc"][k], p["scale"][k]),
        "exponential": lambda k: stats.expon(scale=1 / p["rate"][k]),
        "geometric": lambda k: stats.geom(p["probs"][k], -1),
        "negative binomial": lambda k: stats.nbinom(p["total_count"][k], 1 - p["probs"][k]),
        "log normal": lambda k: stats.lognorm(p["scale"][k], scale=p["loc"][k].exp()),
        "bernoulli": lambda k: stats.bernoulli(p["probs"][k]),
    }
    whole = kind in ("poisson", "geometric", "negative binomial", "bernoulli")
    expected = []
    for t in range(3):
        upper = sum(float(one.predicted[t, k]) * rivals[kind](k).cdf(float(x[t])) for k in range(2))
        lower = sum(float(one.predicted[t, k]) * rivals[kind](k).cdf(float(x[t]) - 1) for k in range(2))
        expected.append(stats.norm.ppf((upper + lower) / 2 if whole else upper))
    posterior = Chain(start, steps, emission, 3).posterior(x)
    torch.testing.assert_close(posterior.residuals(), torch.tensor(expected), rtol=1e-7, atol=1e-7)
    if whole:
        assert not torch.equal(posterior.residuals(randomise=True), posterior.residuals())


def exponential(minus_log: float) -> float:
    """The standard normal's quantile that so little probability lies above."""
    return -float(special.ndtri_exp(-minus_log))


@pytest.mark.parametrize(
    ("emission", "far", "expected"),
    [
        (dist.Normal(torch.zeros(2).double(), 1.0), 30.0, 30.0),
        (dist.Normal(torch.zeros(2).double(), 1.0), -30.0, -30.0),
        (dist.Poisson(torch.ones(2).double()), 200.0, None),
        (dist.StudentT(torch.full((2,), 5.0).double()), 1e6, None),
        (dist.Gamma(torch.ones(2).double(), 1.0), 500.0, None),
        (dist.Gamma(torch.ones(2).double(), 1.0), 5000.0, exponential(5000.0)),
        (dist.Laplace(torch.zeros(2).double(), 1.0), 2000.0, exponential(2000.0 + math.log(2))),
        (dist.Laplace(torch.zeros(2).double(), 1.0), -2000.0, -exponential(2000.0 + math.log(2))),
        (dist.Gumbel(torch.zeros(2).double(), 1.0), 1000.0, exponential(1000.0)),
        (dist.Gumbel(torch.zeros(2).double(), 1.0), -5.0, -exponential(math.exp(5.0))),
        (dist.Logistic(torch.zeros(2).double(), 1.0), 900.0, exponential(900.0)),
        (dist.SoftLaplace(torch.zeros(2).double(), 1.0), 900.0, exponential(900.0 + math.log(math.pi / 2))),
        (
            dist.MixtureSameFamily(dist.Categorical(torch.ones(2, 2)), dist.Gumbel(torch.zeros(2, 2).double(), 1.0)),
            1000.0,
            exponential(1000.0),
        ),
    ],
)
def test_residuals_far_out_are_finite(emission: Any, far: float, expected: float | None) -> None:
    steps = torch.full((2, 2), 0.5).double().log()
    found = Chain(steps[0], steps, emission, 1).posterior(torch.tensor([far]).double()).residuals()
    assert bool(found.isfinite().all())
    assert abs(float(found)) > 3
    if expected is not None:
        torch.testing.assert_close(found, torch.tensor([expected]).double(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("emission", "far", "expected"),
    [
        (dist.HalfNormal(torch.ones(2).double()), 60.0, exponential(-math.log(2) - stats.norm.logsf(60.0))),
        (dist.InverseGamma(torch.ones(2).double(), 1.0), 1e-4, -exponential(1e4)),
    ],
)
def test_residuals_farther_out_than_numbers_go(emission: Any, far: float, expected: float) -> None:
    """Tails that bend are known by their first term, to about one part in the square of how far out they are."""
    start, steps = torch.zeros(2).double(), torch.zeros(2, 2).double()
    found = Chain(start, steps, emission, 1).posterior(torch.tensor([far]).double()).residuals()
    torch.testing.assert_close(found, torch.tensor([expected]).double(), rtol=1e-6, atol=0.0)


def test_residuals_of_numbers_and_counts_side_by_side() -> None:
    steps = torch.full((2, 2), 0.5).double().log()
    normal, poisson = dist.Normal(torch.zeros(2).double(), 1.0), dist.Poisson(torch.full((2,), 3.0).double())
    found = (
        Chain(steps[0], steps, pu.Joint(normal, poisson), 1).posterior(torch.tensor([[0.7, 2.0]]).double()).residuals()
    )
    middle = (stats.poisson.cdf(1, 3.0) + stats.poisson.cdf(2, 3.0)) / 2
    torch.testing.assert_close(found[0], torch.tensor([0.7, stats.norm.ppf(middle)]).double(), rtol=1e-9, atol=1e-9)


def test_residuals_of_a_right_model_are_standard_normal() -> None:
    start, steps = torch.tensor([0.5, 0.5]).log(), torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    chain = Chain(start, steps, dist.Poisson(torch.tensor([2.0, 9.0])), 3000)
    found = chain.posterior(chain.sample()).residuals(randomise=True)
    assert stats.kstest(found.numpy(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "padded"])
def test_residuals_of_vectors_gaps_and_several_series(flat: bool) -> None:
    x, lengths = torch.randn(5, 2), torch.tensor([2, 3])
    x[1, 0] = torch.nan
    start, steps, loc = distributions(2).detach(), distributions(2, 2).detach(), torch.randn(2, 2)
    chain = Chain(start, steps, dist.Normal(loc, 1.0).to_event(1), lengths, flat=flat)
    found = chain.posterior(x if flat else pad(x, lengths)).residuals()
    assert found.shape == ((5, 2) if flat else (2, 3, 2))
    flat_found = found if flat else torch.cat([found[0, :2], found[1]])
    assert flat_found.isnan().nonzero().tolist() == [[1, 0]]
    first = (start.exp()[:, None] * torch.special.ndtr(x[0] - loc)).sum(0)
    torch.testing.assert_close(flat_found[0], torch.special.ndtri(first), **close)


def test_what_words_do_not_have() -> None:
    posterior = Chain(distributions(2), distributions(2, 2), distributions(2, 4), 3).posterior(torch.tensor([0, 3, 1]))
    for ask in (posterior.residuals, posterior.simulate):
        with pytest.raises(StructureError, match="give it a distribution as its emission"):
            ask()
    with pytest.raises(StructureError, match="table of words"):
        _ = posterior.forecast(2).mean
    assert posterior.filtered.shape == (3, 2)


def test_predictions_given_that_a_sequence_goes_on() -> None:
    """Rows with a stop event do not sum to one: predicted times density is filtered, once normalised."""
    transition = torch.tensor([[0.5, 0.1, 0.4], [0.2, 0.2, 0.6]]).double().log()
    emission = dist.Normal(torch.tensor([-1.0, 1.0]).double(), 1.0)
    x = torch.tensor([0.3, -0.2, 0.5]).double()
    found = pu.Chain(torch.tensor([0.5, 0.5]).double().log(), transition, emission, 3).posterior(x)
    joint = found.predicted * emission.log_prob(x.unsqueeze(-1)).exp()
    torch.testing.assert_close(joint / joint.sum(-1, keepdim=True), found.filtered)
    ahead = found.filtered[-1] @ transition[:, :2].exp()
    torch.testing.assert_close(found.forecast(1).states[0], ahead / ahead.sum())


def test_quantiles_without_a_variance() -> None:
    emission = dist.StudentT(torch.tensor([1.0, 2.0]).double(), torch.tensor([-1.0, 1.0]).double(), 1.0)
    x = torch.tensor([0.3, -0.2, 0.5]).double()
    start, stay = torch.zeros(2).double(), torch.tensor([[0.9, 0.1], [0.1, 0.9]]).double().log()
    forecast = pu.Chain(start, stay, emission, 3).posterior(x).forecast(2)
    torch.testing.assert_close(forecast.cdf(forecast.quantile(0.9)), torch.full((2,), 0.9).double())


def test_a_state_that_nothing_can_follow_is_an_error() -> None:
    steps = torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]])
    with pytest.raises(StructureError, match="nothing can follow state 1: row 1 of transition is -inf everywhere"):
        Chain(torch.zeros(2), steps, dist.Normal(torch.zeros(2), 1.0), 5).log_prob(torch.randn(5))


def test_a_step_or_a_pair_that_nothing_can_follow_is_an_error() -> None:
    start, normal = torch.zeros(2), dist.Normal(torch.zeros(2), 1.0)
    steps = torch.zeros(4, 2, 2)
    steps[2, 1] = -torch.inf
    with pytest.raises(StructureError, match=r"nothing can follow state 1 at step 2: row 1 of transition\[2\] is -inf"):
        Chain(start, steps, normal, 4, by_step=True).log_prob(torch.zeros(4))
    flat = torch.cat([torch.zeros(1, 2, 2), steps])
    with pytest.raises(StructureError, match="nothing can follow state 1 at step 3"):
        Chain(start, flat, normal, torch.tensor([1, 4]), flat=True, by_step=True).log_prob(torch.zeros(5))
    unused = torch.zeros(4, 2, 2)
    unused[0] = -torch.inf  # no step leads to a first position
    assert Chain(start, unused, normal, 4, by_step=True).log_prob(torch.zeros(4)).isfinite()
    assert Chain(start, unused, normal, torch.tensor([4]), flat=True, by_step=True).log_prob(torch.zeros(4)).isfinite()
    later = torch.zeros(2, 2, 2)
    later[1, 0] = -torch.inf
    with pytest.raises(StructureError, match="nothing can follow state 0 after state 1"):
        Chain(start, later, normal, 4, torch.zeros(2, 2)).log_prob(torch.zeros(4))


def test_transitions_by_step_may_be_as_wide_as_the_padding() -> None:
    steps, x = torch.randn(2, 6, 2, 2).double(), torch.randn(2, 6).double()
    normal, lengths = dist.Normal(torch.zeros(2).double(), 1.0), torch.tensor([3, 5])
    wide = Chain(torch.zeros(2).double(), steps, normal, lengths, by_step=True).log_prob(x)
    narrow = Chain(torch.zeros(2).double(), steps[:, :5], normal, lengths, by_step=True).log_prob(x[:, :5])
    assert torch.equal(wide, narrow)


@pytest.mark.parametrize("x", [[-800.0, 400.0, 300.0, 50.0], [-720.0, 600.0, 50.0, 30.0], [900.0, -900.0, 2.0, 0.0]])
def test_filters_of_weights_that_are_far_apart(x: list[float]) -> None:
    start, steps = torch.full((2,), 0.5).double().log(), torch.eye(2).double().log()
    value = torch.tensor(x).double() + 0.5
    normal = dist.Normal(torch.tensor([0.0, 1.0]).double(), 1.0)
    found = Chain(start, steps, normal, 4).posterior(value)
    each = normal.log_prob(value.unsqueeze(-1)).cumsum(0) + start  # two states that never change
    torch.testing.assert_close(found.filtered, each.softmax(-1), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.step_log_likelihood.sum(), found.log_partition)


def test_residuals_of_whole_numbers_and_of_mixtures_of_vectors() -> None:
    poisson, steps = dist.Poisson(torch.tensor([2.0, 3.0])), torch.zeros(2, 2)
    counts = torch.tensor([0, 2, 5])
    found = Chain(torch.zeros(2), steps, poisson, 3).posterior(counts).residuals()
    torch.testing.assert_close(found, Chain(torch.zeros(2), steps, poisson, 3).posterior(counts.float()).residuals())
    loc = torch.tensor([[[0.0, 1.0], [2.0, -1.0], [5.0, 5.0]]]).double()
    mixture = dist.MixtureSameFamily(
        dist.Categorical(torch.tensor([[0.2, 0.5, 0.3]]).double()), dist.Normal(loc, 1.0).to_event(1)
    )
    x = torch.tensor([[0.5, 0.3]]).double()
    found = Chain(torch.zeros(1).double(), torch.zeros(1, 1).double(), mixture, 1).posterior(x).residuals()
    u = [
        sum(w * stats.norm.cdf(float(x[0, d]), float(loc[0, c, d])) for c, w in enumerate((0.2, 0.5, 0.3)))
        for d in (0, 1)
    ]
    torch.testing.assert_close(found[0], torch.tensor(stats.norm.ppf(u)).double(), rtol=1e-9, atol=1e-9)


def test_what_only_some_states_can_emit() -> None:
    uniform = dist.Uniform(torch.zeros(2), torch.tensor([2.0, 3.0]))
    chain = Chain(torch.full((2,), 0.5).log(), torch.full((2, 2), 0.5).log(), uniform, 2)
    expected = math.log(0.5 / 3 * (0.5 / 2 + 0.5 / 3))
    assert float(chain.log_prob(torch.tensor([2.5, 1.0]))) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(StructureError, match=r"observation 1 is 3\.5, which a Uniform cannot emit"):
        chain.log_prob(torch.tensor([2.5, 3.5]))
