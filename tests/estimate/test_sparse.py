"""Rows with few outcomes: as good as a general optimiser finds, at the top, never worse than before."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import Normalise, SparseL0, TableError
from pyro_unsup.kernels.sparse_rows import climb, multiplier
from pyro_unsup.tables import Declaration, Layout

from .normal.normal_cases import KINDS, table

ROW = Declaration("t", Layout.dense(5), torch.tensor(1.0))


def some_counts(layout: Layout, seed: int, scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    counts = scale * torch.rand(layout.shape, generator=generator, dtype=torch.float64) ** 4
    return counts * (torch.rand(layout.shape, generator=generator) < 0.8) * layout.allowed()


def objective(how: SparseL0, declaration: Declaration, counts: Tensor, logs: Tensor) -> float:
    found = (counts * logs.where(counts > 0, 0.0)).sum() + how.log_prior(declaration, logs)
    return float(found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("strength", "width"), [(0.5, 0.3), (2.0, 0.05), (10.0, 0.05), (50.0, 0.02)])
def test_no_general_optimiser_finds_better_rows(seed: int, strength: float, width: float) -> None:
    from scipy.optimize import minimize

    how, rng = SparseL0(strength, width), np.random.default_rng(seed)
    c = torch.from_numpy(rng.gamma(0.3, 3.0, 5) * (rng.random(5) < 0.8) + 1e-3 * (np.arange(5) == 0))
    found = how.weights(ROW, c, ROW.layout.uniform())

    def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
        x = torch.tensor(z, requires_grad=True)
        logs = x.log_softmax(-1)
        value = -((c * logs).sum() - strength * (1 - (-logs.exp() / width).exp()).sum())
        value.backward()
        assert x.grad is not None
        return value.item(), x.grad.numpy()

    starts = [(c / c.sum()).clamp(min=1e-9).log().numpy(), *np.log(rng.dirichlet(np.full(5, 0.5), 8) + 1e-12)]
    best = max(-minimize(loss, z, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10}).fun for z in starts)
    assert objective(how, ROW, c, found) >= best - 1e-7
    # At a top, the slopes of all outcomes that have counts are the same.
    theta = found.exp()
    slopes = (c / theta - strength / width * (-theta / width).exp())[c > 0]
    torch.testing.assert_close(slopes, slopes.mean().expand(slopes.shape), rtol=1e-5, atol=1e-5 * strength / width)
    assert float(theta.sum()) == pytest.approx(1, abs=1e-12)
    assert bool((theta[c == 0] == 0).all())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(-3, 5), strength=st.floats(-2, 2), width=st.floats(-3, 0))
def test_the_objective_never_falls(kind: str, seed: int, scale: float, strength: float, width: float) -> None:
    declaration, how = table(kind), SparseL0(10**strength, 10**width)
    declaration = Declaration("t", declaration.layout, declaration.prior, "keep")
    old = declaration.layout.uniform()
    for step in range(3):
        counts = some_counts(declaration.layout, seed + step, 10**scale)
        new = how.weights(declaration, counts, old)
        before = objective(how, declaration, counts, old)
        assert objective(how, declaration, counts, new) >= before - 1e-9 * max(1, abs(before))
        assert objective(how, declaration, counts, new) >= objective(
            how, declaration, counts, Normalise().weights(declaration, counts, old)
        ) - 1e-9 * max(1, abs(before))
        declaration.layout.check("t", new)
        torch.testing.assert_close(
            declaration.layout.row_sum(new.exp().where(declaration.layout.allowed(), 0.0)),
            torch.ones_like(declaration.layout.row_sum(new)),
        )
        old = new


def test_every_step_goes_up_also_with_counts_of_many_sizes() -> None:
    c = np.array([1e-12, 3.0, 0.0, 1e-3, 2.9])
    slopes, x = np.empty(5), np.full(5, 0.2)
    climb(c, x, slopes, 200.0, 0.01)
    assert x[0] > 0
    assert x.sum() == pytest.approx(1, abs=1e-14)
    d = np.array([0.0, 2.0, 0.0, 7.0, 1e-9])
    m = multiplier(c, d)
    assert float((c / (m + d)).sum()) == pytest.approx(1, abs=1e-13)


def test_without_strength_it_is_maximum_likelihood_and_many_counts_hardly_mind() -> None:
    counts = torch.tensor([[6.0, 3.0, 1.0], [0.0, 2.0, 2.0]], dtype=torch.float64)
    declaration = Declaration("t", Layout.dense(2, 3), torch.tensor(1.0))
    old = declaration.layout.uniform()
    plain = Normalise().weights(declaration, counts, old)
    torch.testing.assert_close(SparseL0(0.0).weights(declaration, counts, old), plain)
    torch.testing.assert_close(SparseL0().weights(declaration, 1e8 * counts, old), plain, rtol=1e-5, atol=1e-6)
    few = SparseL0().weights(declaration, counts, old).exp()
    assert float(few[0, 0]) > 0.9  # the others became cheap


def test_rows_without_counts_stay_or_are_an_error() -> None:
    layout = Layout.dense(2, 2)
    counts, old = torch.tensor([[1.0, 3.0], [0.0, 0.0]], dtype=torch.float64), layout.uniform()
    assert torch.equal(SparseL0().weights(Declaration("t", layout, torch.tensor(1.0), "keep"), counts, old)[1], old[1])
    with pytest.raises(TableError, match=r"table 't': row \(1,\) has no expected counts"):
        SparseL0().weights(Declaration("t", layout, torch.tensor(1.0)), counts, old)


def test_it_learns_is_saved_and_says_what_is_wrong(tmp_path: Path) -> None:
    text = pu.data.toy.bitext(60, seed=2)
    model = pu.models.Aligner.of(text, agreement=None)
    fit = pu.EM(model, SparseL0(3.0, 0.02), pu.init.uniform()).run(text, iterations=6, tolerance=0, progress=False)
    path = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(path))
    plain = pu.EM(model, init=pu.init.uniform()).run(text, iterations=6, tolerance=0, progress=False)
    used = [int((one.weights["translation_forward"] > np.log(0.01)).sum()) for one in (fit, plain)]
    assert used[0] < 0.9 * used[1]
    fit.save(tmp_path / "m")
    assert pu.load(tmp_path / "m").config["estimate"] == "SparseL0(strength=3.0, width=0.02)"
    for wrong in ({"strength": -1.0}, {"strength": float("nan")}, {"width": 0.0}, {"width": "x"}):
        with pytest.raises(TableError, match=r"SparseL0: the (strength|width) must be a number"):
            SparseL0(**wrong)  # type: ignore[arg-type]
