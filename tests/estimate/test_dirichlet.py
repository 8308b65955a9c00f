"""Pseudo-counts: formulas, and that weights maximise counts plus the log prior which the estimator claims."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from pyro_unsup import AddLambda, DirichletMAP, Normalise
from pyro_unsup.errors import TableError
from pyro_unsup.tables import Declaration, Layout

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])
LAYOUTS = {
    "vector": Layout.dense(4),
    "matrix": Layout.dense(2, 3),
    "cube": Layout.dense(2, 2, 2),
    "support": Layout.dense(2, 3, support=SUPPORT),
    "ragged": Layout.ragged([2, 1, 4]),
}
ESTIMATORS: dict[str, Any] = {
    "add-lambda": AddLambda(0.3),
    "add nothing": AddLambda(0.0),
    "map": DirichletMAP(2.5),
    "map declared": DirichletMAP(),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
estimators = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def table(layout: Layout, prior: Any = None, **more: Any) -> Declaration:
    if prior is None:
        prior = 1 + torch.rand(layout.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Declaration("t", layout, torch.as_tensor(prior), **more)


def extra_of(estimator: Any, declaration: Declaration) -> Tensor:
    if isinstance(estimator, AddLambda):
        extra = torch.full(declaration.layout.shape, estimator.amount, dtype=torch.float64)
    elif estimator.concentration is not None:
        extra = torch.full(declaration.layout.shape, estimator.concentration - 1, dtype=torch.float64)
    else:
        extra = declaration.prior.expand(declaration.layout.shape) - 1
    return extra * declaration.layout.allowed()


@layouts
@estimators
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_smoothed_relative_frequencies(layout: Layout, estimator: Any, dtype: torch.dtype) -> None:
    declaration = table(layout)
    counts = torch.rand(layout.shape, dtype=dtype) * layout.allowed()
    weights = estimator.weights(declaration, counts, layout.uniform(dtype))
    total = counts.double() + extra_of(estimator, declaration)
    expected = (total / layout.spread(layout.row_sum(total))).to(dtype)
    torch.testing.assert_close(weights.exp(), expected)
    layout.check("t", weights)
    assert torch.equal(weights == -torch.inf, ~layout.allowed())


@layouts
@estimators
def test_weights_maximise_counts_plus_log_prior(layout: Layout, estimator: Any) -> None:
    """Found again by an optimiser that knows nothing of the closed form, over softmax coordinates."""
    declaration = table(layout)
    counts = (torch.rand(layout.shape) + 0.1) * layout.allowed()
    allowed = layout.allowed()

    def loss(free: Any) -> tuple[float, Any]:
        x = torch.zeros(layout.shape)
        leaf = torch.tensor(free, requires_grad=True)
        w = layout.normalise(x.masked_scatter(allowed, leaf))
        value = -((counts * w)[allowed].sum() + estimator.log_prior(declaration, w))
        value.backward()
        assert leaf.grad is not None
        return value.item(), leaf.grad.numpy()

    best = minimize(loss, torch.zeros(int(allowed.sum())).numpy(), jac=True, method="BFGS", options={"gtol": 1e-9})
    found = layout.normalise(torch.zeros(layout.shape).masked_scatter(allowed, torch.tensor(best.x)))
    weights = estimator.weights(declaration, counts, layout.uniform())
    torch.testing.assert_close(weights.exp(), found.exp(), rtol=0, atol=1e-6)
    top = float((counts * weights)[allowed].sum() + estimator.log_prior(declaration, weights))
    assert top == pytest.approx(-best.fun, abs=1e-10)
    assert top >= -best.fun - 1e-12


def test_log_prior_is_a_dirichlet_density_up_to_its_constant() -> None:
    alpha = 1 + torch.rand(2, 3)
    one, other = torch.randn(2, 3).log_softmax(-1), torch.randn(2, 3).log_softmax(-1)
    declaration = table(Layout.dense(2, 3), alpha)
    found = DirichletMAP().log_prior(declaration, one) - DirichletMAP().log_prior(declaration, other)
    stock = dist.Dirichlet(alpha).to_event(1)
    torch.testing.assert_close(found, stock.log_prob(one.exp()) - stock.log_prob(other.exp()))


def test_add_lambda_is_map_with_one_more() -> None:
    declaration = table(Layout.dense(2, 3))
    counts, old = torch.rand(2, 3), torch.zeros(2, 3)
    weights = AddLambda(0.7).weights(declaration, counts, old)
    torch.testing.assert_close(weights, DirichletMAP(1.7).weights(declaration, counts, old))
    torch.testing.assert_close(
        AddLambda(0.7).log_prior(declaration, weights), DirichletMAP(1.7).log_prior(declaration, weights)
    )
    assert torch.equal(AddLambda(0).weights(declaration, counts, old), Normalise().weights(declaration, counts, old))


def test_pseudo_counts_keep_their_digits_where_float32_is_the_default() -> None:
    torch.set_default_dtype(torch.float32)
    declaration = table(Layout.dense(2), torch.tensor(1.1, dtype=torch.float64))
    counts = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for estimator in (AddLambda(0.1), DirichletMAP(1.1), DirichletMAP()):
        weights = estimator.weights(declaration, counts, counts)
        assert weights[1].exp().item() == pytest.approx(0.1 / 1.2, rel=1e-14)
        assert float(estimator.log_prior(declaration, weights)) == pytest.approx(0.1 * float(weights.sum()), rel=1e-14)


def test_log_prior_ignores_structural_zeros_but_not_lost_weights() -> None:
    layout = LAYOUTS["support"]
    declaration = table(layout, 2.0)
    w = layout.uniform()
    assert float(AddLambda(1.0).log_prior(declaration, w)) == pytest.approx(4 * torch.tensor(0.5).log().item())
    lost = w.clone()
    lost[0, 0] = -torch.inf  # an allowed outcome that became impossible has prior density zero
    assert float(AddLambda(1.0).log_prior(declaration, lost)) == -torch.inf
    assert float(AddLambda(0.0).log_prior(declaration, lost)) == 0.0
    assert float(DirichletMAP(1.0).log_prior(declaration, lost)) == 0.0


@pytest.mark.parametrize("unvisited", ["error", "keep"])
def test_smoothing_fills_empty_rows_evenly(unvisited: Any) -> None:
    layout = LAYOUTS["support"]
    weights = AddLambda(0.1).weights(table(layout, 1.0, unvisited=unvisited), torch.zeros(2, 3), layout.uniform())
    torch.testing.assert_close(weights, layout.uniform())


@pytest.mark.parametrize("estimator", [AddLambda(0.0), DirichletMAP(1.0), DirichletMAP()])
def test_without_pseudo_counts_an_empty_row_is_an_error(estimator: Any) -> None:
    with pytest.raises(TableError, match=r"table 't': row \(1,\) has no expected counts"):
        estimator.weights(table(Layout.dense(2, 2), 1.0), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.zeros(2, 2))


@pytest.mark.parametrize("amount", [-0.1, float("nan"), float("inf")])
def test_impossible_amounts_are_refused(amount: float) -> None:
    with pytest.raises(TableError, match="AddLambda: the amount must be finite and not negative, actual = "):
        AddLambda(amount)


@pytest.mark.parametrize(
    ("estimator", "prior", "smallest"),
    [(DirichletMAP(0.5), 1.0, 0.5), (DirichletMAP(), 0.25, 0.25), (DirichletMAP(), torch.tensor([2.0, 0.5]), 0.5)],
)
def test_a_concentration_below_one_has_no_mode(estimator: DirichletMAP, prior: Any, smallest: float) -> None:
    declaration = table(Layout.dense(2), prior)
    message = rf"table 't': a Dirichlet prior with concentration below 1 has no mode \(smallest here: {smallest}\); use"
    with pytest.raises(TableError, match=message):
        estimator.weights(declaration, torch.ones(2), torch.zeros(2))
    with pytest.raises(TableError, match=message):
        estimator.log_prior(declaration, torch.zeros(2))
