"""Empirical Bayes, sentence by sentence: against a numerical optimiser, quadrature, and what made the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

from pyro_unsup import TableError
from pyro_unsup.estimate.normal.covariance import families
from pyro_unsup.estimate.normal.empirical_normal import JITTER, RowPriors, expected, reestimated
from pyro_unsup.estimate.normal.logistic_normal_updates import Posterior, bound
from pyro_unsup.tables import Declaration, Layout

from .normal_cases import FAMILIES, KINDS, LETTERS, spd, table, total_bound

STRUCTURES = ("diagonal", "full")
structures = pytest.mark.parametrize("structure", STRUCTURES)


def plain(*shape: int) -> Declaration:
    return Declaration("t", Layout.dense(*shape), torch.tensor(1.0))


def begun(kind: str, structure: str) -> RowPriors:
    declaration = table(kind)
    noise = torch.randn(declaration.layout.shape, generator=torch.Generator().manual_seed(1))
    sigma = {"matrix": spd(7), "families": families(LETTERS, FAMILIES, 0.8)}.get(structure, torch.tensor(0.8))
    return RowPriors.start(declaration, declaration.layout.normalise(noise.double()), sigma, structure == "full")


def some_pairs(prior: RowPriors, seed: int, many: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Rows that sentences touch, and counts of their cells, few and fractional."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, len(prior.rows.numbers), many)
    cells = len(prior.cells(pairs))
    return pairs, rng.gamma(0.5, size=cells) * (rng.random(cells) < 0.6)


def total(prior: RowPriors, pairs: np.ndarray, counts: np.ndarray, posterior: Posterior) -> float:
    return float(bound(counts, prior.of_pairs(pairs), posterior).sum()) + prior.log_prior(pairs)


@pytest.mark.parametrize("structure", [*STRUCTURES, "matrix", "families"])
@pytest.mark.parametrize("kind", KINDS)
def test_neither_step_lowers_the_bound(kind: str, structure: str) -> None:
    prior = begun(kind, structure)
    pairs, counts = some_pairs(prior, 3)
    found = expected(counts, pairs, prior, strict=True)
    before = total(prior, pairs, counts, found.posterior)
    for _ in range(8):
        prior = reestimated(prior, pairs, found.posterior)
        between = total(prior, pairs, counts, found.posterior)
        assert between >= before - 1e-10 * abs(before)
        found = expected(counts, pairs, prior, found.posterior, strict=True)
        before, last = total(prior, pairs, counts, found.posterior), before
        assert before >= between - 1e-10 * abs(between)
        assert before >= last
    offsets = prior.of_pairs(pairs).offsets
    heard = np.add.reduceat(counts * found.log_weights, offsets[:-1])
    assert before == pytest.approx(float((heard - found.divergence).sum()) + prior.log_prior(pairs))


@structures
def test_posteriors_are_those_of_a_numerical_optimiser(structure: str) -> None:
    from scipy.optimize import minimize

    prior = begun("matrix", structure)
    pairs, counts = np.array([2, 0, 2]), some_pairs(prior, 5, 3)[1]
    prior = reestimated(prior, pairs, expected(counts, pairs, prior).posterior)  # so that covariances are not plain
    rows = prior.of_pairs(pairs)
    q = expected(counts, pairs, prior, tolerance=1e-15).posterior
    n = len(counts)

    def loss(x: np.ndarray) -> float:
        return -total_bound(counts, rows, Posterior(x[:n], np.exp(x[n:])))

    found = minimize(loss, np.concatenate([rows.mean, -np.log(rows.precision)]), options={"maxiter": 500})
    assert -found.fun == pytest.approx(total_bound(counts, rows, q), rel=1e-7)
    np.testing.assert_allclose(found.x[:n], q.mean, atol=5e-3)


@structures
def test_priors_are_those_of_a_numerical_optimiser(structure: str) -> None:
    """The derivative of the bound in mean and covariance vanishes at the new prior."""
    prior = begun("matrix", structure)
    pairs, counts = some_pairs(prior, 4)
    q = expected(counts, pairs, prior).posterior
    new = reestimated(prior, pairs, q)
    m, s2 = torch.from_numpy(q.mean).reshape(-1, 7), torch.from_numpy(q.variance).reshape(-1, 7)
    for row in np.unique(pairs):
        mine = torch.from_numpy(pairs == row)
        mu = torch.from_numpy(new.mean.reshape(4, 7)[row]).requires_grad_()
        S = torch.from_numpy(new.covariance.reshape(4, -1)[row]).requires_grad_()
        whole = S.diag() if structure == "diagonal" else S.reshape(7, 7)
        P = torch.linalg.inv(whole)
        prior_part = MultivariateNormal(mu, whole).log_prob(m[mine]) - 0.5 * (P.diagonal() * s2[mine]).sum(-1)
        (prior_part.sum() - 0.5 * JITTER * mine.sum() * P.trace()).backward()
        assert mu.grad is not None
        assert S.grad is not None
        assert float(mu.grad.abs().max()) < 1e-8
        assert float((S.grad if structure == "diagonal" else S.grad.reshape(7, 7)).abs().max()) < 1e-8


@structures
def test_rows_that_no_sentence_touches_keep_their_prior(structure: str) -> None:
    prior = begun("matrix", structure)
    pairs = np.array([1, 3, 1])
    q = expected(np.ones(21), pairs, prior).posterior
    new = reestimated(prior, pairs, q)
    for row in (0, 2):
        assert (new.mean.reshape(4, 7)[row] == prior.mean.reshape(4, 7)[row]).all()
        assert (new.covariance.reshape(4, -1)[row] == prior.covariance.reshape(4, -1)[row]).all()
    alone = q.mean.reshape(-1, 7)[1]
    np.testing.assert_allclose(new.mean.reshape(4, 7)[3], alone)
    if structure == "full":  # a sentence alone: its posterior is the prior
        np.testing.assert_allclose(new.covariance[3], np.diag(q.variance.reshape(-1, 7)[1] + JITTER), atol=1e-12)


def test_sentences_that_touch_nothing_change_nothing() -> None:
    """Weights that meet no data integrate to one: the bound and the new prior are the same without them."""
    prior = begun("matrix", "diagonal")
    pairs, counts = some_pairs(prior, 7)
    idle = np.array([0, 1, 2, 3])
    more = np.concatenate([counts, np.zeros(28)])
    with_idle = expected(more, np.concatenate([pairs, idle]), prior)
    without = expected(counts, pairs, prior)
    assert float(with_idle.divergence.sum()) == pytest.approx(float(without.divergence.sum()))
    np.testing.assert_array_equal(with_idle.log_weights[: len(counts)], without.log_weights)


@structures
def test_the_bound_is_below_the_exact_evidence(structure: str) -> None:
    """Two outcomes, three sentences: the weights of each are integrated out by quadrature."""
    prior = RowPriors.start(plain(1, 2), torch.tensor([[0.2, -0.1]]), 1.3, structure == "full")
    pairs, counts = np.zeros(3, dtype=np.int64), np.array([2.0, 0, 1, 3, 0, 5])
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    for _ in range(4):
        found = expected(counts, pairs, prior)
        S = prior.covariance[0] if structure == "full" else np.diag(prior.covariance)
        scale = math.sqrt(S[0, 0] + S[1, 1] - 2 * S[0, 1])
        logit = prior.mean[0] - prior.mean[1] + scale * points
        logs = -np.stack([np.logaddexp(0, -logit), np.logaddexp(0, logit)], -1)
        exact = sum(math.log(np.exp(logs @ f) @ weights / math.sqrt(2 * math.pi)) for f in counts.reshape(3, 2))
        ours = total(prior, pairs, counts, found.posterior)
        assert ours < exact
        assert exact - ours < 2
        prior = reestimated(prior, pairs, found.posterior)


def test_what_made_the_data_is_found_again() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.tensor([1.0, 0.0, -1.0])
    eta = mean + torch.tensor([0.2, 1.0, 0.2]) * torch.randn(400, 3, generator=generator)
    counts = (300 * eta.softmax(-1)).flatten().double().numpy()
    prior = RowPriors.start(plain(1, 3), torch.zeros(1, 3))
    pairs, q = np.zeros(400, dtype=np.int64), None
    for _ in range(60):
        q = expected(counts, pairs, prior, q).posterior
        prior = reestimated(prior, pairs, q)
    np.testing.assert_allclose(prior.mean[0] - prior.mean[2], 2.0, atol=0.1)
    assert prior.covariance[1] > 5 * prior.covariance[0]


def test_counts_must_be_those_of_the_pairs() -> None:
    prior = begun("matrix", "diagonal")
    with pytest.raises(TableError, match=r"expected counts for 14 cells, those of every pair, actual \(13,\)"):
        expected(np.ones(13), np.array([0, 1]), prior)
    with pytest.raises(TableError, match="table 't': the mean of a logistic normal must be finite"):
        RowPriors.start(plain(2), torch.tensor([0.0, -math.inf]))
    with pytest.raises(TableError, match="'t': 2 covariances of 20000 outcomes do not fit: use covariance='diagonal'"):
        RowPriors.start(plain(2, 20_000), torch.zeros(2, 20_000), full=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_starts_with_the_covariance_of_its_outcomes(kind: str) -> None:
    declaration, whole = table(kind), spd(7)
    prior = RowPriors.start(declaration, declaration.layout.uniform(), whole)
    columns, which = prior.rows.patterns(declaration)
    for row, way in enumerate(which.tolist()):
        mine = columns[way][columns[way] >= 0]
        n = len(mine)
        expected = torch.eye(prior.covariance.shape[-1], dtype=torch.float64)
        expected[:n, :n] = whole[mine][:, mine]
        np.testing.assert_array_equal(prior.covariance[row], expected.numpy())


@pytest.mark.parametrize("kind", ["vector", "matrix", "support"])
def test_variances_of_outcomes_are_a_diagonal(kind: str) -> None:
    declaration, variances = table(kind), torch.linspace(0.2, 3, 7, dtype=torch.float64)
    diagonal = RowPriors.start(declaration, declaration.layout.uniform(), variances)
    full = RowPriors.start(declaration, declaration.layout.uniform(), variances, full=True)
    whole = RowPriors.start(declaration, declaration.layout.uniform(), variances.diag())
    np.testing.assert_array_equal(diagonal.covariance, diagonal.rows.gather(variances.expand(declaration.layout.shape)))
    np.testing.assert_array_equal(full.covariance, whole.covariance)
