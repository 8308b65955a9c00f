"""Dirichlet priors fitted to data: the bound never falls, and the fit is the best there is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import DirichletVB, EmpiricalDirichlet, TableError
from pyro_unsup.estimate.empirical_dirichlet import _Cells, _rising, fitted_concentration
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration, Layout

from .normal.normal_cases import KINDS, table

kinds = pytest.mark.parametrize("kind", KINDS)
pers = pytest.mark.parametrize("per", ["table", "outcome"])


def some_counts(layout: Layout, seed: int, scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    counts = scale * torch.rand(layout.shape, generator=generator) ** 4
    return counts * (torch.rand(layout.shape, generator=generator) < 0.8) * layout.allowed()


def objective(how: EmpiricalDirichlet, declaration: Declaration, counts: Tensor, memory: dict[str, Tensor]) -> float:
    weights = how.tables({"t": declaration}, memory)["t"]
    return float((counts * weights.where(counts > 0, 0.0)).sum()) + how.log_prior(memory)


@kinds
@pers
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(-3, 5), start=st.floats(-4, 4))
def test_the_bound_never_falls(kind: str, per: str, seed: int, scale: float, start: float) -> None:
    declaration, how = table(kind), EmpiricalDirichlet(per, 10**start)  # type: ignore[arg-type]
    layout, tables = declaration.layout, {"t": declaration}
    counts = some_counts(layout, seed, 10**scale)
    memory = how.begin(tables, {"t": layout.uniform()}, torch.Generator())
    assert how.log_prior(memory) == -math.inf  # a point
    fixed = DirichletVB(10**start)
    before = fixed.weights(declaration, counts, layout.uniform())
    least = float((counts * before.where(counts > 0, 0.0)).sum() + fixed.log_prior(declaration, before))
    for step in range(3):
        memory = how.update(tables, {"t": counts}, memory)
        found = objective(how, declaration, counts, memory)
        assert found >= least - 1e-9 * max(1, abs(least))
        counts = some_counts(layout, seed + step, 10**scale)
        least = objective(how, declaration, counts, memory)
    layout.check("t", memory["t.weights"])


@kinds
@pers
def test_the_log_prior_is_minus_the_divergence(kind: str, per: str) -> None:
    declaration, how = table(kind), EmpiricalDirichlet(per)  # type: ignore[arg-type]
    layout = declaration.layout
    counts = some_counts(layout, 2, 20)
    memory = how.begin({"t": declaration}, {"t": layout.uniform()}, torch.Generator())
    memory = how.update({"t": declaration}, {"t": counts}, memory)
    alpha = _Cells(declaration, per).spread(memory["t.concentration"])
    same = Declaration("t", layout, alpha.where(layout.allowed(), 1.0))
    torch.testing.assert_close(memory["t.weights"], DirichletVB().weights(same, counts, layout.uniform()))
    assert how.log_prior(memory) == pytest.approx(float(DirichletVB().log_prior(same, memory["t.weights"])), rel=1e-7)


@pytest.mark.parametrize("scale", [8.0, 40.0])  # fractional counts, and counts of several
@pers
def test_the_fit_is_the_best_there_is(per: str, scale: float) -> None:
    from scipy.optimize import minimize

    support = torch.rand(40, 5, generator=torch.Generator().manual_seed(2)) < 0.9
    support[:, 0] = True
    declaration = Declaration("t", Layout.dense(40, 5, support=support), torch.tensor(1.0))
    counts = scale * torch.rand(40, 5, generator=torch.Generator().manual_seed(3)) ** 9 * support
    cells = _Cells(declaration, per)
    alpha = torch.ones(()) if per == "table" else torch.ones(5)
    for _ in range(20):
        alpha = fitted_concentration(cells, counts, alpha)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        log_alpha = torch.tensor(x, requires_grad=True)
        value = -cells.evidence(counts, log_alpha.exp()[0] if per == "table" else log_alpha.exp())
        value.backward()
        assert log_alpha.grad is not None
        return float(value.detach()), log_alpha.grad.numpy()

    start, bounds = np.zeros(alpha.numel()), [(math.log(1e-8), math.log(1e8))] * alpha.numel()
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    assert float(cells.evidence(counts, alpha)) >= -found.fun - 1e-7 * abs(found.fun)


def test_what_made_the_data_is_found_again() -> None:
    truth = torch.tensor([0.3, 2.0, 0.1, 1.0])
    torch.manual_seed(1)
    counts = 200 * torch.distributions.Dirichlet(truth).sample((300,))
    declaration = Declaration("t", Layout.dense(300, 4), torch.tensor(1.0))
    cells, alpha = _Cells(declaration, "outcome"), torch.ones(4)
    for _ in range(40):
        alpha = fitted_concentration(cells, counts, alpha)
    torch.testing.assert_close(alpha, truth, rtol=0.2, atol=0.03)


def test_a_difference_of_log_gammas() -> None:
    x = torch.tensor([1e-8, 0.3, 5.0, 99.99, 100.01, 500.0])
    n = torch.tensor([0.2, 3.0, 1e3, 7.0, 7.0, 0.01])
    torch.testing.assert_close(_rising(x, n), torch.lgamma(x + n) - torch.lgamma(x), rtol=1e-10, atol=1e-11)
    assert float(_rising(torch.tensor(1e8), torch.tensor(2.0))) == pytest.approx(
        math.log(1e8) + math.log(1e8 + 1), rel=1e-15
    )


@kinds
def test_draws_are_from_the_posterior(kind: str) -> None:
    declaration, how = table(kind), EmpiricalDirichlet()
    layout, tables = declaration.layout, {"t": declaration}
    memory = how.begin(tables, {"t": layout.uniform()}, torch.Generator())
    point = how.draw(tables, memory, torch.Generator(), 2)["t"]
    torch.testing.assert_close(point, layout.uniform().expand(2, *layout.shape))
    memory = how.update(tables, {"t": some_counts(layout, 1, 20) + 1.0 * layout.allowed()}, memory)
    for draws in (
        how.draw(tables, memory, torch.Generator().manual_seed(2), 4000)["t"],
        DirichletVB().draw(declaration, memory["t.weights"], torch.Generator().manual_seed(2), 4000),
    ):
        layout.check("t", draws[0])
        torch.testing.assert_close(layout.row_sum(draws[3].exp()), torch.ones(layout.rows))
        allowed = layout.allowed()
        error = draws.std(0)[allowed] / math.sqrt(4000)
        assert ((draws.mean(0) - memory["t.weights"])[allowed].abs() <= 5 * error + 1e-9).all()


@pers
def test_the_bound_never_falls_under_em(per: str) -> None:
    data = [[0, 1, 1], [2, 0], [1, 1, 2], [2, 2, 0, 1]]
    how = EmpiricalDirichlet(per)  # type: ignore[arg-type]
    fit = pu.EM(Tagger(2, 3, prior=0.5), how).run(data, iterations=40, tolerance=0, progress=False)
    bounds = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds[1:]))
    fixed = pu.EM(Tagger(2, 3, prior=0.5), DirichletVB()).run(data, iterations=40, tolerance=0, progress=False)
    assert fit.objective > fixed.objective
    assert fit.memory["emission.concentration"].shape == (() if per == "table" else (3,))


def test_what_makes_no_prior_is_refused() -> None:
    with pytest.raises(TableError, match="per is 'table' or 'outcome', actual 'row'"):
        EmpiricalDirichlet("row")  # type: ignore[arg-type]
    with pytest.raises(TableError, match="start must be a number in"):
        EmpiricalDirichlet(start=0.0)
    with pytest.raises(TableError, match=r"start must be a number in \[1e-08, 100000000.0\], actual 'a'"):
        EmpiricalDirichlet(start="a")  # type: ignore[arg-type]
    declaration = Declaration("t", Layout.ragged([2, 3]), torch.tensor(1.0))
    with pytest.raises(TableError, match="table 't': per='outcome' needs to know which outcome each cell"):
        EmpiricalDirichlet("outcome").begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
