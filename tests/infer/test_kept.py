"""Parameters that are not tables under engines that look at examples or mini-batches one by one, and by gradient."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.distributions import Chain
from pyro_unsup.errors import FitError
from pyro_unsup.infer.kept import Kept
from pyro_unsup.models import HMM, Series

from ..matrix.models import COLOUR, SIZE, marbles

QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0}


def made_up(D: int | None = None, series: int = 8) -> Series:
    """Series that go between two levels."""
    torch.manual_seed(3)
    found = []
    for length in torch.randint(2, 7, (series,)).tolist():
        level = 4.0 * torch.randint(2, (length,)).double()
        found.append(torch.randn(length).double() + level if D is None else torch.randn(length, D) + level[:, None])
    return Series.of(found)


NUMBERS, VECTORS = made_up(), made_up(2)
COUNTS = Series((NUMBERS.values.abs() * 2).round(), NUMBERS.lengths)
TAILS = Series(NUMBERS.values.clone(), NUMBERS.lengths)
TAILS.values[::7] -= 9.0
GAPS = Series(VECTORS.values.clone(), VECTORS.lengths)
GAPS.values[3, 0] = torch.nan
GAPS.values[5] = torch.nan
#: By name: a model, its data, and whether all of its parameters have a formula.
CASES: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "normal": (HMM(2), (NUMBERS,), True),
    "Poisson": (HMM(2, "poisson"), (COUNTS,), True),
    "gamma": (HMM(2, "gamma"), (Series(NUMBERS.values.abs() + 0.1, NUMBERS.lengths),), True),
    "vectors": (HMM(2, "multivariate_normal", dim=2), (VECTORS,), True),
    "tied": (HMM(2, "multivariate_normal", dim=2, covariance="tied"), (VECTORS,), True),
    "one state": (HMM(1, init={"loc": [1.0], "scale": [2.0]}), (NUMBERS,), True),
    "prior": (HMM(2, prior={"loc": dist.Normal(torch.tensor(0.0).double(), 5.0)}), (NUMBERS,), True),
    "own": (marbles, (COLOUR, SIZE), True),
    "Student": (HMM(2, "student_t"), (TAILS,), False),
    "gaps": (HMM(2, "multivariate_normal", dim=2), (GAPS,), False),
    "stationary": (HMM(2, start="stationary"), (NUMBERS,), False),
}
every = pytest.mark.parametrize("case", CASES)


def first_bound(engine: Any, state: Any) -> float:
    """The bound before the first M step, when the running counts are still those of the start."""
    tables: float = state.by_batch.bound(state.tables) + state.log_prior()
    return tables + float(engine._expected_of_parameters(state))


@every
def test_incremental_em_raises_its_bound_at_every_visit(case: str) -> None:
    model, data, by_formula = CASES[case]
    engine = pu.IncrementalEM(model, batch_size=3)
    state: Any = engine.init(*data, seed=1)
    start = engine.e_step(state)[0].objective
    assert state.kept.by_formula == by_formula
    rounding = 1e-7 if case == "own" else 1e-11  # its mean is float32
    assert first_bound(engine, state) == pytest.approx(start, rel=rounding)  # exact, to begin with
    last = start
    for number in range(9):
        if number % 3 == 0:
            engine.add_up(state)
        engine.visit(state, number % len(state.by_batch))
        bound = engine.bound(state)
        assert bound >= last - rounding * abs(last)
        last = bound
    state.problem.parameters.write(state.unconstrained)
    exact = state.problem.marginal.log_marginal(state.weights, data, {}) + state.log_prior()
    assert bound <= exact + rounding * abs(exact)
    assert bound > start


@every
def test_where_incremental_em_ends_em_does_not_move(case: str) -> None:
    model, data, by_formula = CASES[case]
    fit = pu.IncrementalEM(model, batch_size=3).run(*data, iterations=40 if by_formula else 25, **QUIET)
    on = pu.EM(model, init=pu.init.from_weights(fit)).run(*data, iterations=1, **QUIET)
    assert on.rows[0]["objective"] == pytest.approx(fit.objective, rel=1e-5)
    assert on.rows[1]["objective"] == pytest.approx(fit.objective, rel=1e-5)


@pytest.mark.parametrize("case", [name for name, (_, _, by_formula) in CASES.items() if by_formula and name != "prior"])
def test_one_mini_batch_of_all_is_batch_em(case: str) -> None:
    model, data, _ = CASES[case]
    one = pu.IncrementalEM(model, batch_size=100).run(*data, iterations=4, **QUIET)
    other = pu.EM(model).run(*data, iterations=5, **QUIET)
    for name, x in {**other.params, **other.points}.items():
        found = {**one.params, **one.points}[name]
        torch.testing.assert_close(found, x, rtol=1e-5 if case == "own" else 1e-9, atol=1e-11)


@pytest.mark.parametrize("case", ["normal", "Poisson", "gamma", "vectors"])
def test_points_and_posteriors_say_the_same(case: str) -> None:
    """A few points a mini-batch give the bound that the whole posteriors give, and the same M step."""
    model, data, _ = CASES[case]
    found = []
    for by_formula in (True, False):
        engine = pu.IncrementalEM(model, batch_size=3, init=pu.init.uniform())
        engine.lbfgs_iterations = 200
        state: Any = engine.init(*data)
        state.kept = Kept(by_formula)
        engine.e_step(state)
        before = first_bound(engine, state)
        engine.add_up(state)
        found.append((before, engine.bound(state), state.unconstrained))
    (one, after, values), (other, then, climbed) = found
    assert one == pytest.approx(other, rel=1e-12)
    assert after == pytest.approx(then, rel=1e-9)
    for name, x in values.items():
        torch.testing.assert_close(x, climbed[name], rtol=1e-4, atol=1e-4)


def test_from_zero_the_first_pass_is_stepwise_em_with_power_one() -> None:
    one = pu.IncrementalEM(HMM(2), from_zero=True)
    other = pu.StepwiseEM(HMM(2), power=1.0, batch_size=1).session(seed=5)
    state: Any = one.init(NUMBERS, seed=5)
    # Both start with k-means of all data.
    other.state = other.engine.on(other.engine.start(((NUMBERS,), {}), 5), ((NUMBERS.select([0]),), {}))
    for i in range(len(NUMBERS)):
        loss = other.step(NUMBERS.select([i]))
        assert one.visit(state, i) == pytest.approx(-loss, rel=1e-9)
        for name, x in state.unconstrained.items():
            torch.testing.assert_close(x, other.state.unconstrained[name], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", ["normal", "stationary", "prior"])
def test_a_run_that_stops_and_goes_on_ends_bit_for_bit_where_it_would_have(case: str, tmp_path: Path) -> None:
    model, data, _ = CASES[case]
    engine = pu.IncrementalEM(model, batch_size=3)
    whole = engine.run(*data, iterations=4, **QUIET)
    engine.run(*data, iterations=2, **QUIET).save(tmp_path / "half")
    half = pu.load(tmp_path / "half", model=model)
    again = engine.run(*data, iterations=4, resume=half, **QUIET)
    assert [row["objective"] for row in again.rows] == [row["objective"] for row in whole.rows]
    assert all(torch.equal(x, again.unconstrained[name]) for name, x in whole.unconstrained.items())


def test_what_is_kept_counts_as_memory_and_must_be_whole() -> None:
    engine = pu.IncrementalEM(HMM(2), batch_size=3)
    points = 3 * (2 * 2 * 2) * 8  # three mini-batches, a mean to either side and its weight, two states
    state: Any = engine.init(NUMBERS)
    assert engine.memory(NUMBERS) > points
    engine.e_step(state)
    assert sum(x.nbytes for part in state.kept.parts.values() for x in part.values()) == points
    with pytest.raises(FitError, match=r"counts of 3 mini-batches would take about .* more than max_gib = 1e-09"):
        pu.IncrementalEM(HMM(2), batch_size=3, max_gib=1e-9).run(NUMBERS, **QUIET)
    fit = engine.run(NUMBERS, iterations=1, **QUIET)
    del fit.state["kept.values.0.weights"]
    with pytest.raises(FitError, match="the fit to go on from does not hold the posteriors of its parts"):
        engine.run(NUMBERS, resume=fit, **QUIET)


@every
def test_the_gradient_is_that_of_the_log_likelihood(case: str) -> None:
    model, data, _ = CASES[case]
    if case == "own":
        pytest.skip("its mean is float32")
    engine = pu.Gradient(model)
    state: Any = engine.init(*data, seed=1)
    slopes = engine.gradient(state)
    assert slopes.keys() == {*state.memory, *state.unconstrained}
    for name, x in state.unconstrained.items():
        for i in range(x.numel()):
            ends = []
            for step in (1e-5, -1e-5):
                moved = x.clone().reshape(-1)
                moved[i] += step
                values = {**state.unconstrained, name: moved.reshape(x.shape)}
                ends.append(state.problem.log_likelihood(state.tables, values))
            assert float(slopes[name].flatten()[i]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


@every
def test_the_gradient_climbs_to_where_em_does_not_move(case: str) -> None:
    model, data, _ = CASES[case]
    fit = pu.Gradient(model).run(*data, iterations=150, tolerance=1e-13, progress=False)
    climbed = [row["objective"] for row in fit.rows]
    assert all(b >= a for a, b in itertools.pairwise(climbed))
    on = pu.EM(model, init=pu.init.from_weights(fit)).run(*data, iterations=1, **QUIET)
    assert on.rows[1]["objective"] == pytest.approx(fit.objective, rel=1e-7)


def test_a_start_that_is_impossible_is_told() -> None:
    with pytest.raises(FitError, match=r"iteration 0: .*(observation|support|zero)"):
        pu.Gradient(HMM(2, "gamma")).run(torch.tensor([1.0, -2.0, 3.0]), **QUIET)


@pytest.mark.parametrize("case", [name for name in CASES if name not in ("stationary", "one state")])
def test_hierarchical_em_raises_its_bound_with_parameters_that_examples_share(case: str) -> None:
    model, data, by_formula = CASES[case]
    fit = pu.HierarchicalEM(model).run(*data, iterations=8 if by_formula else 3, **QUIET)
    bounds = [row["objective"] for row in fit.rows]
    assert all(b > a for a, b in itertools.pairwise(bounds))


def test_shared_parameters_are_weighed_by_the_posteriors_of_all_examples() -> None:
    engine = pu.HierarchicalEM(HMM(2, "poisson"))
    state: Any = engine.init(COUNTS, seed=2)
    for _ in range(3):
        state, _ = engine.step(state)
    weights = engine._weights(state, state.posteriors)
    rate: Tensor = state.unconstrained["rate"].exp()
    above = below = torch.zeros(2).double()
    for i in range(len(COUNTS)):
        own, x = weights(i, i + 1), COUNTS.select([i]).values
        chain = Chain(own["start"][0], own["transition"][0], dist.Poisson(rate), len(x))
        share = chain.posterior(x).smoothed
        above, below = above + (share * x[:, None]).sum(0), below + share.sum(0)
    state, _ = engine.step(state)
    torch.testing.assert_close(state.unconstrained["rate"].exp(), above / below, rtol=1e-10, atol=0.0)
