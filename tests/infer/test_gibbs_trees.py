"""The samplers of trees draw from the right distribution, and the tests would notice if they did not."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from pyro import poutine
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.errors import FitError, StructureError
from pyro_unsup.kernels import gibbs_brackets, gibbs_factored, gibbs_headed, gibbs_heads, gibbs_labels
from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG, SimplePCFG
from pyro_unsup.results.sample_tables import posterior_shapes
from pyro_unsup.results.table_posterior import to_table

from . import gibbs_trees_oracle as oracle
from .gibbs_trees_oracle import Problem, shares

DMV1 = [[0, 1, 0], [1], [], [0, 0, 1]]
CCM1 = [[0, 1, 0, 0, 1], [1], [], [0, 0, 1, 0]]
HEADED = [[0, 1, 0], [0, 0, 1, 1], []]
PRIOR = {"root": 0.7, "attach": 0.3, "stop": 0.5, "yield": (0.4, 2.0), "context": (0.6, 0.3)}
#: Small problems, with several priors.
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "DMV": lambda: oracle.dmv(DMV1, 2, 1),
    "DMV, sharp": lambda: oracle.dmv([[0, 1, 0], [1, 0, 2]], 3, 1, root=0.5, attach=0.1, stop=0.3),
    "DMV, one sentence": lambda: oracle.dmv([[0, 1, 0, 0]], 2, 1, root=2.0, attach=0.2, stop=5.0),
    "DMV, valence 2": lambda: oracle.dmv([[0, 0, 0, 1], [1, 0]], 2, 2, root=0.5, attach=0.2, stop=0.6),
    "PCFG": lambda: oracle.pcfg([[0, 1, 0], [1], [], [0, 1]], 2, 2, 2),
    "PCFG, sharp": lambda: oracle.pcfg([[0, 1, 2], [2, 1]], 2, 2, 3, root=0.5, rules=0.05, emission=0.2),
    "PCFG, long": lambda: oracle.pcfg([[0, 1, 0, 1, 1]], 1, 2, 2, root=1.0, rules=0.3, emission=0.4),
    "SimplePCFG": lambda: oracle.simple_pcfg([[0, 1, 0], [1], [], [0, 1]], 2, 2, 2),
    "SimplePCFG, sharp": lambda: oracle.simple_pcfg(
        [[0, 1, 2], [2, 1]], 2, 2, 3, root=0.5, left=0.05, right=0.15, emission=0.2
    ),
    "SimplePCFG, long": lambda: oracle.simple_pcfg(
        [[0, 1, 0, 1, 1]], 1, 2, 2, root=1, left=0.7, right=0.3, emission=0.4
    ),
    "SimplePCFG, labels": lambda: oracle.simple_pcfg([[0, 0, 0], [0, 0, 0]], 2, 1, 1, left=0.1, right=0.2),
    "CCM 1": lambda: oracle.ccm(CCM1, 2, 1, False, {"yield": (1.0, 1.0), "context": (1.0, 1.0)}),
    "CCM 1, pairs": lambda: oracle.ccm(CCM1, 2, 1, False, {"yield": (0.2, 3.0), "context": (0.4, 0.1)}),
    "CCM 1, empty spans": lambda: oracle.ccm(CCM1, 2, 1, True, {"yield": (0.2, 0.5), "context": (0.4, 0.1)}),
    "CCM 2": lambda: oracle.ccm(CCM1, 2, 2, False, {"yield": (0.5, 0.2), "context": (0.3, 0.3)}),
    "CCM 2, empty spans": lambda: oracle.ccm(CCM1, 2, 2, True, {"yield": (0.5, 0.2), "context": (0.3, 0.7)}),
    "DMV + CCM": lambda: oracle.dmv_ccm(HEADED, 2, 1, "right", False, PRIOR),
    "DMV + CCM, left": lambda: oracle.dmv_ccm(HEADED, 2, 2, "left", True, PRIOR),
}
ALL = pytest.mark.parametrize("name", PROBLEMS)


def state_of(problem: Problem) -> Any:
    return problem.model.gibbs_state()(problem.model, problem.sentences)


def chi_squared(problem: Problem, power: float = 1.0, kept: int = 5000, sweeps: int = 2, seed: int = 3) -> float:
    """p of combinations of trees after some sweeps from draws of the exact posterior, which sweeps must not change.

    So the draws do not depend on each other. Rare combinations are pooled.
    """
    logs = problem.posterior()
    states, p = list(logs), shares(logs, power)
    state, rng = state_of(problem), np.random.default_rng(seed)
    seen: Counter[tuple[int, ...]] = Counter()
    stayed = 0
    for start in rng.choice(len(states), size=kept, p=p):
        state.labels = np.array(states[start], np.int64)
        for _ in range(sweeps):
            assert 0 <= state.sweep("blocked", *state.concentrations, power, rng) <= 1
        found = tuple(state.labels.tolist())
        seen[found] += 1
        stayed += found == states[start]
    assert set(seen) <= set(logs)
    assert stayed < kept * (0.85 + 0.15 * p @ p)  # it moves
    counts, wanted = np.array([seen[z] for z in logs]), kept * p
    rare = wanted < 10
    counts, wanted = np.append(counts[~rare], counts[rare].sum()), np.append(wanted[~rare], wanted[rare].sum())
    some = wanted > 0
    assert some.sum() > 4
    return float(stats.chisquare(counts[some], wanted[some]).pvalue)


@ALL
def test_chain_visits_trees_as_often_as_it_should(name: str) -> None:
    assert chi_squared(PROBLEMS[name]()) > 1e-4


@pytest.mark.parametrize(
    "name",
    ["DMV, sharp", "DMV, valence 2", "CCM 1, pairs", "DMV + CCM, left", "PCFG", "SimplePCFG", "SimplePCFG, sharp"],
)
@pytest.mark.parametrize("power", [2.0, 0.5])
def test_a_tempered_chain_visits_trees_by_powers_of_their_probability(name: str, power: float) -> None:
    assert chi_squared(PROBLEMS[name](), power, kept=3000) > 1e-4


@ALL
def test_log_joint_is_that_of_the_urns(name: str) -> None:
    problem = PROBLEMS[name]()
    state, logs = state_of(problem), problem.posterior()
    for structure in list(logs)[:: max(1, len(logs) // 50)]:
        state.labels = np.array(structure)
        alpha, beta = state.concentrations
        found = state.log_choices(alpha) + float(state.log_emissions(beta).sum())
        assert found == pytest.approx(logs[structure], abs=1e-9)
        assert tuple(state.labels.tolist()) == structure


@pytest.mark.parametrize(("make", "rules"), [(oracle.pcfg, ["rules"]), (oracle.simple_pcfg, ["left", "right"])])
def test_log_joint_at_concentrations_that_are_learned(make: Any, rules: list[str]) -> None:
    text = [[0, 1, 0], [1, 0]]
    state = state_of(make(text, 2, 2, 2))
    wanted = make(text, 2, 2, 2, **dict.fromkeys(("root", *rules), 1.7), emission=0.3).posterior()
    for structure in list(wanted)[::40]:
        state.labels = np.array(structure)
        found = state.log_choices(np.full(1 + len(rules), 1.7)) + float(state.log_emissions(np.array([0.3])).sum())
        assert found == pytest.approx(wanted[structure], abs=1e-9)


@ALL
def test_counts_stay_those_of_the_trees(name: str) -> None:
    rng = np.random.default_rng(1)
    for power in (1.0, 0.5, 3.0, 25.0):
        state = state_of(PROBLEMS[name]())
        state.draw_start(rng)
        for _ in range(20):
            state.sweep("blocked", *state.concentrations, power, rng)
        kept = state.labels, state.n.copy(), state.totals.copy(), state.table_counts()
        state.labels = state.labels
        np.testing.assert_array_equal(kept[1], state.n)
        np.testing.assert_array_equal(kept[2], state.totals)
        for table, counts in state.table_counts().items():
            np.testing.assert_array_equal(counts, kept[3][table])
            assert counts.shape == problem_shape(state, table)
        assert sum(x.sum() for x in kept[3].values()) == state.n.sum()


def problem_shape(state: Any, table: str) -> tuple[int, ...]:
    return tuple(state._model.declarations()[table].layout.shape)


@ALL
def test_the_target_is_the_posterior_of_the_pyro_program(name: str) -> None:
    """p(trees, words) = p(trees, words | tables) p(tables) / p(tables | trees, words) for any tables: the first two by
    the Pyro program, the last by the counts of the sampler."""
    problem = PROBLEMS[name]()
    logs, state = problem.posterior(), state_of(problem)
    declared = problem.model.declarations()
    for structure in list(logs)[:: max(1, len(logs) // 4)]:
        state.labels = np.array(structure)
        with torch.no_grad():
            trace = poutine.trace(problem.model).get_trace(problem.sentences)
            trace.compute_log_prob()
        site = next(x for x in trace.nodes.values() if x["type"] == "sample" and x["is_observed"])
        score = site["fn"].score(site["value"], torch.tensor(structure))
        found = float(torch.where(site["fn"].lengths > 0, score, 0.0).sum())
        shapes = posterior_shapes(declared, state.table_counts(), state.tables, *state.concentrations)
        for table, shape in shapes.items():
            layout, node = declared[table].layout, trace.nodes[table]
            weights = to_table(layout, node["value"]).log()
            density = layout.row_sum((shape - 1) * weights - shape.lgamma()) + layout.row_sum(shape).lgamma()
            found += float(node["log_prob_sum"] - density.sum())
        assert found == pytest.approx(logs[structure], abs=1e-6)


def test_long_sentences_and_cold_chains_go_by_logs() -> None:
    """Where real numbers would vanish, proposals are drawn in logs: counts stay right, and cold chains go up."""
    rng = np.random.default_rng(0)
    words = [rng.integers(20, size=n).tolist() for n in (25, 2, 15)]
    for model in (
        DMV(20, prior=1e-4),
        DMV(20, prior=1e-4, valence=2),
        CCM.of(words, vocab=20, prior=1e-4),
        DMVCCM.of(words, vocab=20, prior=1e-4),
        PCFG(2, 3, 20, prior=1e-4),
        SimplePCFG(2, 3, 20, prior=1e-4),
    ):
        state = model.gibbs_state()(model, words)
        state.draw_start(rng)
        first = log_joint(state)
        for _ in range(4):
            assert 0 <= state.sweep("blocked", *state.concentrations, 12.0, rng) <= 1
        n = state.n.copy()
        state.labels = state.labels
        np.testing.assert_array_equal(n, state.n)
        assert log_joint(state) >= first


def log_joint(state: Any) -> float:
    alpha, beta = state.concentrations
    return float(state.log_choices(alpha) + state.log_emissions(beta).sum())


def again(module: Any, name: str, **changed: Any) -> Any:
    """A function of a kernel, compiled anew with other functions in it."""
    names = {**vars(module), **changed}
    return njit(types.FunctionType(getattr(module, name).py_func.__code__, names))


@pytest.mark.deep
@pytest.mark.parametrize(
    "name", ["DMV", "DMV, valence 2", "CCM 1", "DMV + CCM", "DMV + CCM, left", "PCFG", "SimplePCFG"]
)
def test_real_numbers_and_logs_draw_the_same_trees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, found = PROBLEMS[name](), []
    module = {"D": gibbs_heads, "C": gibbs_brackets, "P": gibbs_labels, "S": gibbs_factored}[name[0]]
    module = gibbs_headed if "+" in name else module
    names = {gibbs_heads: "heads", gibbs_brackets: "brackets", gibbs_headed: "trees"}
    draw = f"draw_{names.get(module, 'labels')}"
    for most in (1e250, 0.0):  # of the second, nothing is above 1 / most
        if most == 0.0:
            monkeypatch.setattr(module, "MOST", 1e-300)
            monkeypatch.setattr(module, draw, again(module, draw, MOST=1e-300))
            monkeypatch.setattr(module, "sweep", again(module, "sweep"))
        state, rng = state_of(problem), np.random.default_rng(5)
        state.draw_start(rng)
        labels = []
        for _ in range(30):
            state.sweep("blocked", *state.concentrations, 1.0, rng)
            labels.append(state.labels)
        found.append(np.stack(labels))
    np.testing.assert_array_equal(*found)


# -- what a start is, and what is refused


def test_chains_start_from_trees_of_the_usual_start() -> None:
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(200, seed=1), max_length=8, drop=["PUNCT"])
    model = DMV.of(corpus)
    state = model.gibbs_state()(model, corpus)
    starts = []
    for seed in (0, 0, 1):
        state.draw_start(np.random.default_rng(seed))
        starts.append(state.labels)
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    place = np.arange(len(starts[0])) - np.repeat(corpus.offsets[:-1], corpus.lengths) + 1
    arcs = starts[0] > 0
    assert np.abs(starts[0] - place)[arcs].mean() < 1.7  # trees that are all alike have longer arcs


def test_what_is_refused() -> None:
    with pytest.raises(FitError, match="drawn how = 'blocked', actual 'pointwise': no other way is worked out"):
        pu.CollapsedGibbs(DMV(3), how="pointwise")
    with pytest.raises(FitError, match=r"of a PCFG are sampled how hyper = 'fixed' or 'shared', actual 'separate'"):
        pu.CollapsedGibbs(PCFG(2, 2, 3), hyper="separate")
    with pytest.raises(FitError, match=r"of a SimplePCFG are sampled how hyper = 'fixed' or 'shared'"):
        pu.CollapsedGibbs(SimplePCFG(2, 2, 3), hyper="separate")
    for name, labels, message in (
        ("DMV, one sentence", [0, 0, 1, 1], "has no projective tree with one root"),
        ("CCM 1", [1] * 31, "expected its 5 words, the whole sentence"),
        ("PCFG", [2, 3, 2, 0, -1, 3, 2, 2, 1], "expected preterminals, 2 to 3, over words and nonterminals, 0 to 1"),
        ("PCFG", [2, 3, 1, 0, -1, 1, 2, 2, 1], "actual 1 over a word"),
        ("SimplePCFG", [2, 3, 2, 3, -1, 1, 2, 2, 1], "actual 3 over a wider span"),
    ):
        problem = PROBLEMS[name]()
        labels = labels[: len(next(iter(problem.posterior())))]
        with pytest.raises(StructureError, match=message):
            state_of(problem).labels = np.array(labels)


def test_texts_without_a_choice() -> None:
    for sentences in ([[0], [1, 0], []], [[0]]):
        trees = DMV(2), CCM.of(sentences, vocab=2), DMVCCM.of(sentences, vocab=2), PCFG(1, 1, 2), SimplePCFG(1, 1, 2)
        for model in trees:
            samples = pu.CollapsedGibbs(model).run(sentences, sweeps=4, progress=False)
            assert np.isfinite(samples.log_joint).all()
            assert samples.predict("vote").shape == samples.predict("last").shape
