"""Discounts and concentrations under the default prior: drawn from their exact posterior, alone and with all cuts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import pyro_unsup as pu
from pyro_unsup.errors import FitError
from pyro_unsup.kernels.adaptor.hyper import draw_both
from pyro_unsup.models import Adaptor
from pyro_unsup.models.gibbs_adaptor import LEAST, AdaptorState, PitmanYor, PitmanYorPrior
from pyro_unsup.models.gibbs_bigram_words import BigramWordState

from .adaptor_oracle import Story, bigram_joint
from .test_adaptor_bigram import unkeyed

#: A posterior has its mass below this concentration: the rate of the prior is 0.01.
MOST = 4000.0
#: What a grid may be off.
GRID = 0.001
#: By name: customers and tables of each restaurant, sizes of tables, and how many tables have each.
SEATS: dict[str, tuple[list[int], list[int], list[int], list[int]]] = {
    "nobody": ([0], [0], [], []),
    "one customer": ([1], [1], [1], [1]),
    "one table": ([5], [1], [5], [1]),
    "two tables": ([9], [2], [2, 7], [1, 1]),
    "seven tables": ([13], [7], [1, 2, 5], [4, 2, 1]),
    "three restaurants": ([3, 1, 4], [1, 1, 2], [1, 3], [2, 2]),
    "ninety tables": ([400], [90], [1, 2, 5, 30], [50, 20, 14, 8]),
}


def concentrations(cells: int) -> tuple[Any, Any]:  # (cells + 1,), (cells,)
    """The edges of cells of logs of concentrations, and their middles."""
    edges = np.linspace(np.log(LEAST), np.log(MOST), cells + 1)
    return edges, (edges[1:] + edges[:-1]) / 2


def discounts(points: int) -> tuple[Any, Any]:  # (points,) each
    """Points of Gauss and Legendre from 0 to 1, and their weights."""
    x, weights = np.polynomial.legendre.leggauss(points)
    return (x + 1) / 2, weights / 2


def log_prior(x: Any) -> Any:
    """Of the log of a concentration, up to a constant: Gamma(0.01, rate 0.01). Grids begin where it is truncated."""
    return 0.01 * x - 0.01 * np.exp(x)


def log_seats(a: Any, b: Any, N: Any, T: Any, sizes: Any, many: Any) -> Any:
    """Of the seats of restaurants that share discount a and concentration b."""
    found = np.zeros(np.broadcast(a, b).shape)
    for n, t in zip(N, T, strict=True):
        found = found + sum((np.log(b + k * a) for k in range(1, t)), np.zeros(()))
        found = found - (gammaln(b + n) - gammaln(b + 1) if n else 0.0)
    for size, k in zip(sizes, many, strict=True):
        found = found + k * (gammaln(size - a) - gammaln(1 - a))
    return found


def deviations(drawn: Any, wanted: Any, batches: int = 40) -> Any:  # (draws, statistics), (statistics,)
    """How many standard errors lie between the means of draws and what is wanted; errors from batches of draws."""
    each = np.asarray(drawn, float).reshape(batches, -1, drawn.shape[-1]).mean(1)
    return (each.mean(0) - wanted) / (each.std(0, ddof=1) / np.sqrt(batches) + GRID)


def below(x: Any, marks: Any) -> Any:  # (draws,), (marks,)
    return np.asarray(x)[:, None] < marks


def quantiles(edges: Any, share: Any) -> tuple[Any, Any]:  # (cells + 1,), (cells,)
    """Edges near some quantiles, and the share of what is below each."""
    total = np.cumsum(share)
    at = np.searchsorted(total, [0.05, 0.2, 0.5, 0.8, 0.95])
    return edges[at + 1], total[at]


@pytest.mark.parametrize("learned", [False, True], ids=["discount 0", "discount learned"])
@pytest.mark.parametrize("seats", SEATS)
def test_numbers_have_their_exact_posterior_under_the_default_prior(seats: str, learned: bool) -> None:
    N, T, sizes, many = (np.array(x, np.int64) for x in SEATS[seats])
    edges, x = concentrations(800)
    cells, a = np.linspace(0, 1, 201), np.zeros(1)
    if learned:
        a = (cells[1:] + cells[:-1]) / 2
    log_p = log_seats(a[:, None], np.exp(x), N, T, sizes, many) + log_prior(x)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    of_b, share_b = quantiles(edges, p.sum(0))
    of_a, share_a = quantiles(cells, p.sum(1)) if learned else (np.zeros(0), np.zeros(0))
    discount, strength, state = np.array([0.5 if learned else 0.0]), np.ones(1), np.array([7], np.uint64)
    drawn = np.empty((24_000, 2))
    for k in range(len(drawn)):
        draw_both(discount, strength, 0, N, T, sizes, many, PitmanYorPrior().numbers, learned, state)
        drawn[k] = np.log(strength[0]), discount[0]
    assert drawn[:, 0].min() >= np.log(LEAST)
    found = np.hstack([below(drawn[:, 0], of_b), below(drawn[:, 1], of_a)])
    assert np.abs(deviations(found, np.append(share_b, share_a))).max() < 4


def joint(model: Adaptor, sentences: Any, a: Any, b: Any) -> dict[tuple[int, ...], Any]:
    """The joint probability of these sentences with all ways to cut them, on a grid of discounts and concentrations."""
    story = Story(model.nested, a, b)
    reached: Any = {((), ((), ())): 1.0}
    for sentence in sentences:
        after: Any = defaultdict(float)
        for (labels, state), p in reached.items():
            for q, cuts, new in story.unit(len(model.nested.names) - 1, tuple(sentence), state):
                ends = tuple(int(t + 1 in cuts) for t in range(len(sentence)))
                key = (*labels, *ends), (tuple(sorted(new[0])), new[1])
                after[key] = after[key] + p * q
        reached = after
    found: Any = defaultdict(float)
    for (labels, _), p in reached.items():
        found[labels] = found[labels] + p
    return dict(found)


def chain(state: AdaptorState, sweeps: int) -> tuple[list[Any], Any, Any]:
    """Cuts, logs of concentrations and discounts after every sweep of a chain such as users have."""
    rng, numbers = np.random.default_rng(0), PitmanYor(*state.concentrations, "separate")
    state.draw_start(rng)
    cuts, x, a = [], [], []
    for _ in range(sweeps):
        state.sweep("blocked", numbers.alpha, numbers.beta, 1.0, rng)
        numbers.step(state, rng)
        cuts.append(tuple(state.labels.tolist()))
        x.append(np.log(numbers.alpha))
        a.append(numbers.beta)
    return cuts, np.array(x), np.array(a)


def shares(cuts: list[Any], wanted: dict[Any, float]) -> tuple[Any, Any]:
    """Which draws have each of the commonest cuts, and how often they should."""
    assert set(cuts) <= set(wanted)
    often = sorted(wanted, key=lambda one: -wanted[one])[:6]
    return np.array([[one == key for key in often] for one in cuts]), np.array([wanted[key] for key in often])


def order_1(sentences: Any, discount: float, sweeps: int) -> float:
    """How many standard errors cuts, concentrations and discounts are off, at most."""
    model = Adaptor(2, {"word": "symbol+"}, discount=discount)
    edges, x = concentrations(160)
    a, weights = discounts(24) if discount else (np.zeros(1), np.ones(1))
    prior = weights[:, None] * np.exp(log_prior(x))
    p = {cuts: one * prior for cuts, one in joint(model, sentences, a[:, None], np.exp(x)).items()}
    total = sum(one.sum() for one in p.values())
    density = sum(p.values()) / total
    cuts, drawn, of_discount = chain(AdaptorState(model, sentences), sweeps)
    where, share = quantiles(edges, density.sum(0))
    seen, often = shares(cuts, {key: one.sum() / total for key, one in p.items()})
    moments = np.stack([of_discount[:, 0], of_discount[:, 0] ** 2], 1)
    found = np.hstack([seen, below(drawn[:, 0], where), moments])
    of_a = density.sum(1)
    wanted = np.concatenate([often, share, [of_a @ a, of_a @ a**2]])
    return float(np.abs(deviations(found, wanted)).max())


def order_2(sentences: Any, draws: int) -> float:
    """The same of words that depend on the word before, whose discounts are 0: how far they are off after sweeps from
    exact draws of everything. Chains would take too long from one concentration near the bound to another one.
    """
    edges, x = concentrations(108)
    b, rng = np.exp(x), np.random.default_rng(0)
    prior = np.exp(log_prior(x)[:, None] + log_prior(x))
    p = {key: one * prior for key, one in bigram_joint(2, sentences, (0.0, 0.0), (b[:, None], b)).items()}  # type: ignore[arg-type]
    total = sum(one.sum() for one in p.values())
    density, of_cuts = sum(p.values()) / total, Counter[Any]()
    for (cuts, *_), one in p.items():
        of_cuts[cuts] += one.sum() / total
    every = np.cumsum(np.stack([*p.values()]))
    keys, shape = [*p], (len(p), *prior.shape)
    state, cuts, drawn = BigramWordState(Adaptor(2, "words", order=2), sentences), [], np.empty((draws, 2))
    for k, at in enumerate(np.searchsorted(every, rng.random(draws) * every[-1])):
        key, i, j = np.unravel_index(at, shape)
        state.extra = unkeyed(state, keys[key])
        numbers = PitmanYor(b[[i, j]], np.zeros(2), "separate")
        for _ in range(2):
            state.sweep("blocked", numbers.alpha, numbers.beta, 1.0, rng)
            numbers.step(state, rng)
        cuts.append(tuple(state.labels.tolist()))
        drawn[k] = np.log(numbers.alpha)
    seen, often = shares(cuts, of_cuts)
    (where, share), (where_2, share_2) = quantiles(edges, density.sum(1)), quantiles(edges, density.sum(0))
    found = np.hstack([seen, below(drawn[:, 0], where), below(drawn[:, 1], where_2)])
    return float(np.abs(deviations(found, np.concatenate([often, share, share_2]))).max())


#: Words of the first need two tables at least. Those of the second may all sit at one.
FIRST, SECOND = [[0, 0, 0], [0, 1, 0], [0, 0]], [[0, 0, 0], [0], [0, 0]]


@pytest.mark.parametrize("discount", [0.5, 0.0])
def test_cuts_and_numbers_together_have_their_exact_posterior(discount: float) -> None:
    assert order_1(FIRST if discount else SECOND, discount, 20_000) < 4


def test_words_after_words_and_numbers_together_have_their_exact_posterior() -> None:
    assert order_2([[0, 0], [0, 0]], 8000) < 4


@pytest.mark.deep
@pytest.mark.parametrize("discount", [0.5, 0.0])
@pytest.mark.parametrize("sentences", [FIRST, SECOND, [[0, 1], [0, 1], [0]]], ids=str)
def test_long_chains_have_the_exact_posterior_of_cuts_and_numbers(sentences: Any, discount: float) -> None:
    assert order_1(sentences, discount, 60_000) < 4


@pytest.mark.deep
@pytest.mark.parametrize("sentences", [[[0, 0], [0, 0]], [[0, 1], [0, 1]], [[0, 0], [0]]], ids=str)
def test_words_after_words_and_numbers_stay_in_their_exact_posterior(sentences: Any) -> None:
    assert order_2(sentences, 40_000) < 4


def test_the_density_of_the_prior_is_that_of_logs_and_ends_below() -> None:
    prior = PitmanYorPrior()
    edges, x = concentrations(20_000)
    p = np.exp(prior.log_density(np.exp(x)))
    assert p.sum() * (edges[1] - edges[0]) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(np.log(p[1:] / p[:-1]), np.diff(log_prior(x)), atol=1e-9)
    assert prior.log_density(np.array([0.999e-12, 1.001e-12]))[0] == -np.inf
    # The bound is worth less than a nat beside 1, and so no reason to call a draw the best.
    assert abs(np.diff(prior.log_density(np.array([LEAST, 1.0])))[0]) < 0.3


def test_the_log_joint_of_a_chain_has_the_prior_of_its_numbers() -> None:
    state, numbers = AdaptorState(Adaptor(2, "words"), FIRST), PitmanYor(np.array([0.3]), np.array([0.5]), "separate")
    state.draw_start(np.random.default_rng(0))
    prior = float(numbers.prior.log_density(np.array([0.3]))[0])
    assert numbers.log_joint(state) == pytest.approx(state.log_joint(numbers.alpha, numbers.beta) + prior)
    fixed = PitmanYor(np.array([0.3]), np.array([0.5]), "fixed")
    assert fixed.log_joint(state) == state.log_joint(numbers.alpha, numbers.beta)


@pytest.mark.parametrize("concentration", [1e-13, 1e21])
def test_a_start_that_the_prior_excludes_is_refused(concentration: float) -> None:
    said = r"is sampled between 1e-12 and 1e\+20, and cannot start outside, actual \[1\.e.*: .* or take hyper='fixed'"
    with pytest.raises(FitError, match=said):
        PitmanYor(np.array([concentration]), np.zeros(1), "separate")
    with pytest.raises(FitError, match=said):
        pu.CollapsedGibbs(Adaptor(2, "words", concentration=concentration)).run(FIRST, sweeps=2, progress=False)
    assert PitmanYor(np.array([concentration]), np.zeros(1), "fixed").alpha == concentration
