"""Experts that rows of a family share, against the Gaussians that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from pyro_unsup import LogisticNormal
from pyro_unsup.estimate.normal.covariance import families
from pyro_unsup.estimate.normal.logistic_normal_updates import Posterior
from pyro_unsup.estimate.normal.normal_prior import TablePrior
from pyro_unsup.estimate.table_rows import TableRows
from pyro_unsup.tables import Axis, Declaration, Layout

from .normal_cases import FAMILIES, LETTERS, table

RHO = 0.6


def prior_of(declaration: Declaration, whole: bool) -> tuple[TablePrior, Tensor]:
    rows = TableRows.of(declaration.layout)
    covariance = families(LETTERS, FAMILIES) if whole else torch.tensor(1.5)
    mean = np.linspace(-1, 1, rows.offsets[-1])
    spelled = covariance if whole else 1.5 * torch.eye(7)
    return TablePrior.of(declaration, rows, mean, covariance, whole, FAMILIES, RHO), spelled


def log_prior_by_definition(m: Tensor, s2: Tensor, mu: Tensor, b: Tensor, S: Tensor) -> Tensor:
    """Rows a and e share b, of which there is a posterior N(b, S / k); the other two stand alone."""
    k = 1 / RHO + 2 / (1 - RHO)
    found = -kl_divergence(MultivariateNormal(b, S / k), MultivariateNormal(torch.zeros(7), RHO * S))
    own = (1 - RHO) * S
    for r in range(4):
        centre, covariance = (mu[r] + b, own) if r < 2 else (mu[r], S)
        found = found - kl_divergence(MultivariateNormal(m[r], s2[r].diag()), MultivariateNormal(centre, covariance))
        if r < 2:
            found = found - 0.5 * (torch.linalg.inv(own) @ (S / k)).trace()
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["diagonal", "families"])
def test_the_expert_is_the_best_and_costs_what_it_should(whole: bool) -> None:
    declaration = table("matrix")  # rows a and e are vowels, b and x have no company
    prior, S = prior_of(declaration, whole)
    rng = np.random.default_rng(0)
    q = Posterior(rng.normal(size=28), rng.gamma(2.0, size=28))
    rows = prior.given(q)
    m, s2, mu = (torch.from_numpy(x).reshape(4, 7) for x in (q.mean, q.variance, prior.rows.mean))
    moved = torch.from_numpy(rows.mean - prior.rows.mean).reshape(4, 7)
    torch.testing.assert_close(moved[0], moved[1])
    assert (moved[2:] == 0).all()
    b = moved[0].clone().requires_grad_()
    expected = log_prior_by_definition(m, s2, mu, b, S)
    assert prior.log_prior(q, rows) == pytest.approx(float(expected.detach()), rel=1e-10)
    expected.backward()
    assert b.grad is not None
    assert float(b.grad.abs().max()) < 1e-10


def test_what_one_row_learns_moves_its_family() -> None:
    declaration = table("matrix")
    counts = torch.zeros(4, 7)
    counts[0, 2] = 50.0  # row a says c
    how = LogisticNormal("uniform", FAMILIES, shared=0.5, strict=True)
    memory = how.begin({"t": declaration}, {"t": declaration.layout.uniform()}, torch.Generator())
    w = how.tables({"t": declaration}, how.update({"t": declaration}, {"t": counts}, memory))["t"]
    assert w[1, 2] > w[1, 5] + 0.3  # so does e, without counts of its own
    torch.testing.assert_close(w[2, 2], w[2, 5])  # but not b


def test_rows_of_a_family_that_allow_different_outcomes_do_not_share() -> None:
    support = torch.ones(4, 7, dtype=torch.bool)
    support[1, 3] = False
    axes = (Axis("row", ["a", "e", "b", "d"]), Axis("letter", LETTERS))
    declaration = Declaration("t", Layout.dense(4, 7, support=support), torch.tensor(1.0), axes=axes)
    prior, _ = prior_of(declaration, True)
    assert prior.sharing is not None
    assert prior.sharing.size.tolist() == [1, 1, 2, 2]
    lonely = Declaration(
        "t", Layout.dense(2, 7, support=support[:2]), torch.tensor(1.0), axes=(Axis("row", ["a", "e"]), axes[1])
    )
    assert prior_of(lonely, True)[0].sharing is None


def test_families_go_by_every_label_of_the_context() -> None:
    """Rows (letter, side): a and e share on the same side only."""
    layout = Layout.dense(3, 2, 7)
    axes = (Axis("row", ["a", "e", "b"]), Axis("side", ["left", "right"]), Axis("letter", LETTERS))
    prior, _ = prior_of(Declaration("t", layout, torch.tensor(1.0), axes=axes), False)
    assert prior.sharing is not None
    assert prior.sharing.size.tolist() == [2, 2, 2, 2, 1, 1]
    slots = prior.sharing.slots.reshape(3, 2, 7)
    assert (slots[0] == slots[1]).all()
    assert len(np.unique(slots[0])) == 14
    assert math.isfinite(prior.log_prior(Posterior(np.zeros(42), np.ones(42)), prior.rows))
