"""Samplers of trees within the joint distribution of words, trees and tables: successive conditionals, and calibration.

The number of words of each sentence is given, as everywhere. So the joint distribution is that of words and trees,
tables integrated out, over all sentences of these lengths; there are so few that it is known by enumeration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_unsup.results.sample_tables import draw_tables

from . import gibbs_trees_oracle as oracle
from .gibbs_trees_oracle import Problem

Words = tuple[int, ...]
LENGTHS, VOCAB = (3, 2), 2
MODELS: dict[str, Callable[[list[list[int]]], Problem]] = {
    "DMV": lambda text: oracle.dmv(text, VOCAB, 1, root=0.5, attach=0.3, stop=0.6),
    "DMV, valence 2": lambda text: oracle.dmv(text, VOCAB, 2, root=0.5, attach=0.3, stop=0.6),
    "PCFG": lambda text: oracle.pcfg(text, 1, 2, VOCAB, root=1.0, rules=0.4, emission=0.3),
    "SimplePCFG": lambda text: oracle.simple_pcfg(text, 1, 2, VOCAB, root=1.0, left=0.6, right=0.4, emission=0.3),
}
ALL = pytest.mark.parametrize("name", MODELS)


def sentences(words: Words) -> list[list[int]]:
    return [list(words[: LENGTHS[0]]), list(words[LENGTHS[0] :])]


def joint(name: str) -> tuple[list[tuple[Words, tuple[int, ...]]], Any]:
    """Every text with every combination of trees, and their probabilities."""
    states, logs = [], []
    for words in itertools.product(range(VOCAB), repeat=sum(LENGTHS)):
        for trees, log_joint in MODELS[name](sentences(words)).posterior().items():
            states.append((words, trees))
            logs.append(log_joint)
    p = np.exp(np.array(logs) - max(logs))
    return states, p / p.sum()


def state_of(name: str, words: Words) -> Any:
    text = sentences(words)
    problem = MODELS[name](text)
    return problem.model.gibbs_state()(problem.model, text)


def numbers(words: Words, trees: tuple[int, ...]) -> list[float]:
    """What a text with its trees is summed up by."""
    x, z = np.array(words), np.array(trees)
    return [x.mean(), float(x[0] == x[1]), float(x[0] == x[3]), z.mean(), float(z[0] == z[1]), float(z[-1] > 0)]


@ALL
def test_successive_conditionals_leave_the_joint_distribution(name: str) -> None:
    """Trees by the sampler given words, and words by their exact conditional given trees, in turn (Geweke 2004)."""
    states, p = joint(name)
    wanted = p @ np.array([numbers(*one) for one in states])
    by_trees: dict[tuple[int, ...], tuple[list[Words], list[float]]] = {}
    for (words, trees), share in zip(states, p, strict=True):
        texts, weights = by_trees.setdefault(trees, ([], []))
        texts.append(words)
        weights.append(share)
    rng, found = np.random.default_rng(2), []
    words, trees = states[rng.choice(len(p), p=p)]
    made: dict[Words, Any] = {}
    for _ in range(4000):
        state = made[words] = made.get(words) or state_of(name, words)
        state.labels = np.array(trees)
        state.sweep("blocked", *state.concentrations, 1.0, rng)
        trees = tuple(state.labels.tolist())
        texts, weights = by_trees[trees]
        words = texts[rng.choice(len(texts), p=np.array(weights) / sum(weights))]
        found.append(numbers(words, trees))
    batches = np.array(found).reshape(40, 100, -1).mean(1)
    error = batches.std(0, ddof=1) / len(batches) ** 0.5
    assert (np.abs(batches.mean(0) - wanted) < 4.5 * error + 1e-12).all()


def ranks(name: str, simulations: int, draws: int, seed: int) -> Any:
    """Of simulated truths among draws of their posteriors: the log joint, and a cell of every table."""
    states, p = joint(name)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    made: dict[Words, Any] = {}

    def values(state: Any) -> list[float]:
        alpha, beta = state.concentrations
        tables = draw_tables(state._model, state, alpha, beta, generator)
        joint = state.log_choices(alpha) + float(state.log_emissions(beta).sum())
        return [joint + 1e-9 * rng.random(), *(float(x.reshape(-1)[0]) for x in tables.values() if x.shape[-1] > 1)]

    found = []
    for k in rng.choice(len(p), size=simulations, p=p):
        words, trees = states[k]
        state = made[words] = made.get(words) or state_of(name, words)
        state.labels = np.array(trees)
        truth = np.array(values(state))
        state.draw_start(rng)
        each = []
        for sweep in range(10 + 3 * draws):
            state.sweep("blocked", *state.concentrations, 1.0, rng)
            if sweep >= 10 and sweep % 3 == 0:
                each.append(values(state))
        found.append((np.array(each)[:draws] < truth).sum(0))
    return np.array(found)


def worst(name: str, simulations: int, draws: int, bins: int, seed: int) -> float:
    """The smallest p of all ranks being uniform."""
    found = ranks(name, simulations, draws, seed)
    assert (draws + 1) % bins == 0
    counts = [np.bincount(row * bins // (draws + 1), minlength=bins) for row in found.T]
    return min(float(stats.chisquare(one).pvalue) for one in counts)


@ALL
def test_calibration(name: str) -> None:
    assert worst(name, simulations=150, draws=11, bins=4, seed=1) > 1e-3


@pytest.mark.long
@ALL
def test_calibration_at_length(name: str) -> None:
    for seed in range(3):
        assert worst(name, simulations=4000, draws=19, bins=20, seed=seed) > 1e-4


def test_calibration_notices_tables_of_other_concentrations(monkeypatch: pytest.MonkeyPatch) -> None:
    right = draw_tables

    def wrong(model: Any, state: Any, alpha: Any, beta: Any, generator: Any = None) -> Any:
        state.posterior_draws = getattr(state, "posterior_draws", 0) + 1
        return right(model, state, alpha if state.posterior_draws % 12 == 1 else 4 * alpha, beta, generator)

    monkeypatch.setattr(f"{__name__}.draw_tables", wrong)
    assert worst("DMV", simulations=400, draws=11, bins=4, seed=1) < 1e-6
