"""Variational Bayes against its definition, and its bound against the exact evidence."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import DirichletVB, TableError
from pyro_unsup.estimate.variational import POINT, ROUNDING, _inverse_digamma, concentration_of, divergence
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration, Layout

from ..distributions.chain_case import enumerate_chain
from .taggings import sum_over_taggings

SUPPORT = torch.rand(4, 7, generator=torch.Generator().manual_seed(2)) < 0.6
SUPPORT[:, 0] = True
SUPPORT[0, 1:] = False  # a row with one outcome
LAYOUTS = {
    "vector": Layout.dense(6),
    "matrix": Layout.dense(4, 7),
    "support": Layout.dense(4, 7, support=SUPPORT),
    "ragged": Layout.ragged([1, 3, 20]),
}
cases = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def expected_logs(layout: Layout, alpha: Tensor) -> Tensor:
    return layout.mask(torch.digamma(alpha) - layout.spread(torch.digamma(layout.row_sum(alpha))))


@cases
def test_weights_are_expected_logs(layout: Layout) -> None:
    table = Declaration("t", layout, torch.tensor(0.7))
    counts = 5 * torch.rand(layout.shape) * layout.allowed()
    weights = DirichletVB().weights(table, counts, layout.uniform())
    layout.check("t", weights)
    rows = layout.row_sum(layout.allowed().double())
    total = layout.row_sum(weights.exp())
    assert (total[rows > 1] < 1).all()
    torch.testing.assert_close(total[rows == 1], torch.ones_like(total[rows == 1]))
    if layout.support is None and layout.row_lengths is None:
        draws = torch.distributions.Dirichlet(counts + 0.7).sample((20_000,)).log().mean(0)
        torch.testing.assert_close(weights, draws, rtol=0, atol=0.05)


@cases
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10_000), low=st.floats(-3, 4), spread=st.floats(0, 4))
def test_the_dirichlet_is_recovered_from_its_weights(layout: Layout, seed: int, low: float, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    alpha = 10 ** (low + spread * torch.rand(layout.shape, generator=generator)) * layout.allowed()
    logs = expected_logs(layout, alpha)
    found = concentration_of(layout, logs)
    assert found is not None
    assert (found[~layout.allowed()] == 0).all()
    single = layout.spread(layout.row_sum(layout.allowed().double()) == 1).expand(layout.shape)
    again = expected_logs(layout, found)
    torch.testing.assert_close(again[layout.allowed()], logs[layout.allowed()], rtol=1e-12, atol=1e-13)
    well = (alpha > 0) & ~single
    torch.testing.assert_close(found[well], alpha[well], rtol=1e-4, atol=0)
    prior = 0.3 * layout.allowed()
    one, other = divergence(layout, found, prior, logs), divergence(layout, alpha, prior, logs)
    if not bool(single.any()):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12 * float(alpha.sum()))


def test_the_divergence_is_that_of_torch() -> None:
    alpha, prior = torch.rand(4, 7) * 9 + 0.01, torch.rand(4, 7) * 2 + 0.01
    ours = divergence(Layout.dense(4, 7), alpha, prior, expected_logs(Layout.dense(4, 7), alpha))
    theirs = torch.distributions.kl_divergence(
        torch.distributions.Dirichlet(alpha), torch.distributions.Dirichlet(prior)
    )
    torch.testing.assert_close(ours, theirs.sum())


@cases
def test_the_log_prior_is_minus_the_divergence(layout: Layout) -> None:
    table = Declaration("t", layout, torch.tensor(0.7))
    counts = 5 * torch.rand(layout.shape) * layout.allowed()
    how = DirichletVB(0.4)
    weights = how.weights(table, counts, layout.uniform())
    alpha, prior = counts + 0.4 * layout.allowed(), 0.4 * layout.allowed()
    expected = -divergence(layout, alpha, prior, weights)
    if bool((layout.row_sum(layout.allowed().double()) == 1).any()):  # such a row has none
        keep = layout.spread(layout.row_sum(layout.allowed().double()) > 1).expand(layout.shape)
        rows = [
            torch.distributions.kl_divergence(
                torch.distributions.Dirichlet(a[k & (a > 0)]), torch.distributions.Dirichlet(p[k & (a > 0)])
            )
            for a, p, k in zip(*(_rows(layout, x) for x in (alpha, prior, keep)), strict=True)
            if bool(k.any())
        ]
        expected = -torch.stack(rows).sum()
    torch.testing.assert_close(how.log_prior(table, weights), expected, rtol=1e-9, atol=1e-10)


def _rows(layout: Layout, x: Tensor) -> list[Tensor]:
    return (
        list(x.split(layout.row_lengths.tolist()))
        if layout.row_lengths is not None
        else list(x.reshape(-1, layout.shape[-1]))
    )


def test_a_point_is_no_dirichlet() -> None:
    table = Declaration("t", Layout.dense(3, 4), torch.tensor(1.0))
    assert DirichletVB().log_prior(table, torch.randn(3, 4).log_softmax(-1)) == -math.inf
    assert concentration_of(Layout.dense(1), torch.zeros(1)) is not None  # but one outcome is certain anyway


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("inf"), float("nan"), "a", True, [1.0]])
def test_impossible_concentrations_are_refused(concentration: Any) -> None:
    with pytest.raises(TableError, match="DirichletVB: the concentration must be a number, positive and finite"):
        DirichletVB(concentration)


def reference_concentration_of(layout: Layout, expected_logs: Tensor) -> Tensor | None:  # layout.shape
    """What `concentration_of` computes, to be read.

    With s the sum of a row, digamma(alpha) = E[log theta] + digamma(s): each cell follows from s by inverting the
    digamma function, and s is where the cells add up to it. Newton's method finds it, starting from the expansion for
    large s, and kept within what is known to be too small or too large.
    """
    cells = layout.row_sum((expected_logs > -torch.inf).double())
    missing = 1 - layout.row_sum(expected_logs.exp())
    single = cells <= 1  # one outcome is certain, whatever its concentration
    if bool(((missing <= POINT) & ~single).any()):
        return None
    s = torch.where(single, 1.0, (cells - 1).clamp(min=1) / (2 * missing.clamp(min=POINT)))
    low, high = torch.zeros_like(s), torch.full_like(s, torch.inf)
    alpha: Tensor | None = None
    for _ in range(100):
        alpha = _inverse_digamma(expected_logs + layout.spread(torch.digamma(s)), alpha)
        excess = layout.row_sum(alpha) - s
        slope = torch.polygamma(1, s) * layout.row_sum(_over_trigamma(alpha)) - 1
        low, high = torch.where(excess > 0, s, low), torch.where(excess < 0, s, high)
        between = torch.where(high < torch.inf, torch.where(low > 0, (low * high).sqrt(), high / 8), low * 8)
        newton = s - excess / slope
        new = torch.where((newton > low) & (newton < high), newton, between)
        new = new.where(~single & (excess.abs() > ROUNDING * s), s)
        change = float(((new - s).abs() / s).max())
        s = new
        if change <= ROUNDING:
            break
        alpha = alpha if change < 1e-3 else None
    return _inverse_digamma(expected_logs + layout.spread(torch.digamma(s)), alpha)


def _over_trigamma(x: Tensor) -> Tensor:
    """1 / trigamma(x), and 0 at 0."""
    return torch.where(x > 0, 1 / torch.polygamma(1, x.where(x > 0, 1.0)), 0.0)


@pytest.mark.parametrize("size", [2, 7, 3000])
@pytest.mark.parametrize("scale", [1e-6, 0.1, 30.0, 1e5])
def test_the_compiled_inverse_is_the_readable_one(size: int, scale: float) -> None:
    g = torch.Generator().manual_seed(size)
    alpha = scale * torch.rand(6, size, generator=g, dtype=torch.float64) + 1e-3 * scale
    alpha[1, ::2] = alpha[1, 0]  # cells that are alike, as those without counts are
    support = torch.rand(6, size, generator=g) < 0.7
    support[:, :2] = True
    support[5, 1:] = False  # one outcome
    for layout in (Layout.dense(6, size), Layout.dense(6, size, support=support)):
        kept = alpha * layout.allowed()
        logs = layout.mask(torch.digamma(alpha) - layout.spread(torch.digamma(layout.row_sum(kept))))
        found, expected = concentration_of(layout, logs), reference_concentration_of(layout, logs)
        assert found is not None
        assert expected is not None
        free = layout.allowed() & (layout.spread(layout.row_sum(layout.allowed().double())) > 1)
        torch.testing.assert_close(found[free], kept[free], rtol=1e-7, atol=0)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=0)


def log_evidence(data: list[list[int]], K: int, V: int, alpha: float) -> float:
    """log p(data), weights integrated out: the sum over all taggings of their Dirichlet-multinomials."""

    def row(n: np.ndarray) -> float:
        a = len(n) * alpha
        return (
            math.lgamma(a)
            - math.lgamma(a + n.sum())
            + sum(math.lgamma(alpha + x) - math.lgamma(alpha) for x in n.tolist())
        )

    return sum_over_taggings(data, K, V, row)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_the_bound_never_falls_and_stays_below_the_exact_evidence(alpha: float) -> None:
    data = [[0, 1, 1], [2, 0], [1, 1, 2]]
    evidence = log_evidence(data, 2, 3, alpha)
    for seed in range(3):
        fit = pu.EM(Tagger(2, 3, prior=alpha), DirichletVB()).run(
            data, iterations=60, tolerance=0, seed=seed, progress=False
        )
        bounds = [row["objective"] for row in fit.rows]
        assert bounds[0] == -math.inf  # a point
        assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds[1:]))
        assert bounds[1] < bounds[-1] <= evidence
        assert evidence - bounds[-1] < 5


def test_the_bound_is_its_definition() -> None:
    """E_q[log p(x, z, theta) - log q(z) - log q(theta)], the structures enumerated."""
    data, alpha = [[0, 1, 1], [2, 0]], 0.6
    em = pu.EM(Tagger(2, 3, prior=alpha), DirichletVB()).session()
    for _ in range(3):
        em.step(data)
    names = ("start", "transition", "emission")
    layouts = {name: em.state.problem.declarations[name].layout for name in names}
    chain = pu.Chain(*(em.weights[n] for n in names), torch.tensor([1]), flat=True)
    bound = 0.0
    for sentence in data:
        found = enumerate_chain(chain, sentence)
        for p, used in zip(found.probabilities(), found.counts, strict=True):
            cost = sum(float((used[n] * em.weights[n]).sum()) for n in names)
            bound += float(p) * (cost - math.log(float(p)))
    for n in names:
        posterior = concentration_of(layouts[n], em.weights[n])
        assert posterior is not None
        q, prior = (
            torch.distributions.Dirichlet(posterior),
            torch.distributions.Dirichlet(torch.full_like(posterior, alpha)),
        )
        bound -= float(torch.distributions.kl_divergence(q, prior).sum())
    assert -em.evaluate_loss(data) == pytest.approx(bound, rel=1e-10)


def test_the_bound_is_the_same_to_the_last_bit_in_whatever_order_memory_is() -> None:
    """Kernels leave columns side by side, a folder leaves rows: a run that goes on from one must find the same."""
    table = Declaration("table", Layout.dense(3, 40), torch.tensor(0.7))
    for seed in range(10):
        counts = 5 * torch.rand(3, 40, generator=torch.Generator().manual_seed(seed))
        rows = DirichletVB().weights(table, counts, table.layout.uniform())
        columns = rows.T.contiguous().T
        assert float(DirichletVB().log_prior(table, rows)) == float(DirichletVB().log_prior(table, columns))
