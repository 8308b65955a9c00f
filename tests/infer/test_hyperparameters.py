"""Concentrations are sampled from their posterior: Geweke's joint test, and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pyro_unsup.errors import FitError
from pyro_unsup.infer import hyperparameters
from pyro_unsup.infer.hyperparameters import (
    Flat,
    Gamma,
    Hyperparameters,
    LogUniform,
    hyperprior,
    metropolis,
    metropolis_one,
)
from pyro_unsup.models import Tagger
from pyro_unsup.models.gibbs_tags import TagState

PRIOR = Gamma(2.0, 1.0)


def story(rng: np.random.Generator, K: int, V: int, lengths: Any, order: int, alpha: float, beta: Any) -> Any:
    """Tags and words of sentences, drawn from urns; the boundary is only a context."""
    rows: dict[Any, Any] = {}

    def draw(row: Any, outcomes: int, a: float) -> int:
        urn = rows.setdefault(row, np.zeros(outcomes))
        found = int(rng.choice(outcomes, p=(urn + a) / (urn + a).sum()))
        urn[found] += 1
        return found

    tags: list[int] = []
    for length in lengths:
        first = len(tags)
        for _ in range(length):
            tags.append(draw(tuple(tags[first:][-order:]), K, alpha))
    return np.array(tags), np.array([draw(("word", k), V, beta[k]) for k in tags])


def redraw_words(state: TagState, V: int, beta: Any, rng: np.random.Generator) -> None:
    urns = np.zeros((state.K, V)) + beta[:, None]
    tags, words = state.labels, np.empty(len(state), np.int64)
    uniforms = rng.random(len(state))
    for i, k in enumerate(tags):
        words[i] = np.searchsorted(np.cumsum(urns[k]), uniforms[i] * urns[k].sum(), side="right")
        urns[k, words[i]] += 1
    state.words = words
    state._open_words = words[state.open]
    state._settle(state.at[words] + tags)


def numbers(tags: Any, words: Any, hyper: Hyperparameters) -> list[float]:
    same = float((tags[1:] == tags[:-1]).sum())
    values = [hyper.alpha[0], np.log(hyper.alpha[0]), hyper.beta[0], np.log(hyper.beta[0])]
    return [*values, same, float((words == 1).sum()), float((tags == words).sum())]


def geweke(how: Any, order: int, learn: Any, chains: int = 4, sweeps: int = 300) -> float:
    """The largest |z| between draws of everything from the story, and a chain that also redraws the words."""
    rng = np.random.default_rng(order)
    K, V, n = 2, 2, [4]
    forward, found = [], []
    for _ in range(1500):
        alpha, beta = rng.gamma(2.0, 1.0), rng.gamma(2.0, 1.0, K)
        beta = beta[:1].repeat(K) if learn == "shared" else beta
        hyper = Hyperparameters(np.full(order + 1, alpha), beta, learn, PRIOR)
        forward.append(numbers(*story(rng, K, V, n, order, alpha, beta), hyper))
    for _ in range(chains):
        state = TagState(Tagger(K, V, order), [[0, 1, 0, 1]])
        alpha, beta = rng.gamma(2.0, 1.0), rng.gamma(2.0, 1.0, K)
        beta = beta[:1].repeat(K) if learn == "shared" else beta
        hyper = Hyperparameters(np.full(order + 1, alpha), beta, learn, PRIOR, width=0.4, steps=5)
        tags, words = story(rng, K, V, n, order, alpha, beta)
        state.words = words
        state._settle(state.at[words] + tags)
        for _ in range(sweeps):
            hyper.step(state, rng)
            state.sweep(how, hyper.alpha, hyper.beta, 1.0, rng)
            redraw_words(state, V, hyper.beta, rng)
            found.append(numbers(state.labels, state.words, hyper))
    ahead, chain = np.array(forward), np.array(found)
    batches = chain.reshape(chains * 20, -1, chain.shape[1]).mean(1)
    error = np.sqrt(ahead.var(0) / len(ahead) + batches.var(0, ddof=1) / len(batches))
    return float(np.abs((ahead.mean(0) - chain.mean(0)) / error).max())


@pytest.mark.parametrize(
    ("how", "order", "learn"),
    [("pointwise", 1, "separate"), ("pointwise", 2, "shared"), ("blocked", 1, "shared"), ("blocked", 2, "separate")],
)
def test_gewekes_joint_test(how: Any, order: int, learn: Any) -> None:
    assert geweke(how, order, learn) < 4


def test_gewekes_test_notices_a_missing_hastings_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperparameters, "hastings", lambda x, proposed, width: np.zeros_like(x))
    assert geweke("pointwise", 2, "shared") > 8


@pytest.mark.long
@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
@pytest.mark.parametrize("order", [1, 2])
def test_gewekes_joint_test_at_length(how: Any, order: int) -> None:
    assert geweke(how, order, "separate", sweeps=4000) < 4


def test_metropolis_finds_a_known_distribution() -> None:
    rng = np.random.default_rng(0)
    x = np.full(4000, 6.0)
    for _ in range(400):
        x, _, _ = metropolis(x, lambda x: np.zeros_like(x), Gamma(6.0, 1.0), rng, width=0.4)
    assert stats.kstest(x, stats.gamma(6.0).cdf).pvalue > 1e-4


def test_one_number_moves_as_several_do() -> None:
    several, one = np.random.default_rng(3), np.random.default_rng(3)
    x, y = np.array([2.0]), 2.0
    for _ in range(300):
        x, after, accepted = metropolis(x, lambda x: -np.log(x), LogUniform(0.1, 9.0), several, width=0.8)
        y, y_after, y_accepted = metropolis_one(y, lambda y: -math.log(y), LogUniform(0.1, 9.0), one, width=0.8)
        assert (y, y_after) == pytest.approx((x[0], after[0]))
        assert y_accepted == accepted[0]


def test_a_log_uniform_prior_keeps_its_bounds() -> None:
    rng = np.random.default_rng(0)
    x = np.full(3000, 1.0)
    for _ in range(300):
        x, _, _ = metropolis(x, lambda x: np.zeros_like(x), LogUniform(0.5, 2.0), rng, width=0.4)
    assert stats.kstest(np.log2(x), stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_a_flat_prior_goes_by_name_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="improper"):
        assert hyperprior("flat") == Flat()
    assert hyperprior("gamma") == Gamma(1.0, 1.0)
    with pytest.raises(FitError, match="one of 'gamma', 'log_uniform', 'flat'"):
        hyperprior("normal")


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_concentrations_are_positive(bad: float) -> None:
    with pytest.raises(FitError, match="alpha must be positive"):
        Hyperparameters(np.array([bad]), np.ones(2), "fixed", Gamma())
    with pytest.raises(FitError, match="beta must be positive"):
        Hyperparameters(np.ones(1), np.array([1.0, bad]), "fixed", Gamma())
    with pytest.raises(FitError, match="shape must be positive"):
        Gamma(bad)
