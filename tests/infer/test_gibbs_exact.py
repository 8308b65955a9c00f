"""The samplers of tags draw from the right distribution, and the tests would notice if they did not."""

from __future__ import annotations

import inspect
import math
import textwrap
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from pyro import poutine
from scipy import stats

from pyro_unsup.kernels import gibbs_bigram, gibbs_trigram
from pyro_unsup.kernels.gibbs_joint import rising
from pyro_unsup.models import Tagger, gibbs_tags
from pyro_unsup.models.gibbs_tags import TagState

from .gibbs_oracle import log_joint, posterior, ratio

BOTH = pytest.mark.parametrize("order", [1, 2])
BOUNDARY = pytest.mark.parametrize("stop", [False, True])


def random_problem(rng: np.random.Generator, order: int, stop: bool) -> tuple[TagState, dict[str, Any], Any]:
    K, V = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    allowed = rng.random((K, V)) < 0.8
    allowed[rng.integers(K, size=V), np.arange(V)] = True
    allowed[np.arange(K), rng.integers(V, size=K)] = True
    lengths = rng.integers(0, 6, size=rng.integers(1, 4))
    lengths[0] = max(lengths[0], 1)
    words = rng.integers(V, size=lengths.sum())
    sentences = [part.tolist() for part in np.split(words, np.cumsum(lengths)[:-1])]
    state = TagState(Tagger(K, V, order, torch.from_numpy(allowed), stop), sentences)
    state.draw_start(rng)
    about = {
        "alpha": rng.gamma(1, 1, order + 1) + 1e-3,
        "beta": rng.gamma(1, 1, K) + 1e-3,
        "order": order,
        "stop": stop,
    }
    return state, about, (words, lengths, allowed)


def weights_of(state: TagState, token: int, alpha: Any, beta: Any) -> Any:
    """What the kernel gives each tag that a token may have."""
    S, w = state.K + 1, state.words[token]
    kernel: Any = gibbs_bigram if state.order == 1 else gibbs_trigram
    shape = (S,) * state.order
    n = kernel.counts_of(state.n.reshape(*shape, S), state.totals.reshape(shape), state.n_cell, state.n_tag)
    prior = gibbs_bigram.Prior(alpha, alpha * state.outcomes, beta, beta * state.types, state.stop)
    place, begin, end = state.places[token], state.at[w], state.at[w + 1]
    cells, found = np.array([state.cells[token]], np.int32), np.empty(state.K)
    one = (np.array([place]), np.array([w]), cells, state.at, state.tag_of)
    kernel.sweep(state.padded, *one, *n, *prior, 1.0, np.zeros(1), found)
    sums = found[: end - begin]
    return np.diff(sums, prepend=0.0) / sums[-1]


@BOTH
@BOUNDARY
def test_conditional_is_the_ratio_of_joints(order: int, stop: bool) -> None:
    rng = np.random.default_rng(order)
    worst = 0.0
    for _ in range(1000):  # 4,000 in all
        state, about, (words, lengths, allowed) = random_problem(rng, order, stop)
        tags, token = state.labels.copy(), int(rng.integers(len(words)))
        logs = []
        for c in np.flatnonzero(allowed[:, words[token]]):
            tags[token] = c
            logs.append(log_joint(tags, words, lengths, len(allowed), allowed.sum(1), **about))
        found = weights_of(state, token, about["alpha"], about["beta"])
        worst = max(worst, np.abs(found - ratio(logs)).max())
    assert worst < 1e-12


@BOTH
@BOUNDARY
def test_log_joint_is_that_of_the_urns(order: int, stop: bool) -> None:
    rng = np.random.default_rng(order)
    for _ in range(50):
        state, about, (words, lengths, allowed) = random_problem(rng, order, stop)
        wanted = log_joint(state.labels, words, lengths, len(allowed), allowed.sum(1), **about)
        found = state.log_choices(about["alpha"]) + state.log_emissions(about["beta"]).sum()
        assert found == pytest.approx(wanted, abs=1e-12)
        tiny = {**about, "alpha": np.full(order + 1, 1e-30), "beta": np.full(len(allowed), 1e-20)}
        wanted = log_joint(state.labels, words, lengths, len(allowed), allowed.sum(1), **tiny)
        assert state.log_choices(tiny["alpha"]) + state.log_emissions(tiny["beta"]).sum() == pytest.approx(wanted)


@pytest.mark.parametrize("a", [1e-30, 0.003, 1.0, 1e3, 9e3, 1.1e4, 1e7, 1e15, 1e59])
@pytest.mark.parametrize("n", [0, 5, 63, 64, 500, 20_000])
def test_rising_factorials_of_any_size(a: float, n: int) -> None:
    wanted = math.fsum(math.log(a + j) for j in range(n))
    assert rising(a, n) == pytest.approx(wanted, rel=1e-12)


@BOTH
@BOUNDARY
@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
def test_counts_stay_those_of_the_tags(how: Any, order: int, stop: bool) -> None:
    rng = np.random.default_rng(order)
    for power in (1.0, 0.5, 3.0):
        state, about, _ = random_problem(rng, order, stop)
        for _ in range(20):
            state.sweep(how, about["alpha"], about["beta"], power, rng)
        kept = [x.copy() for x in (state.labels, state.n, state.totals, state.n_cell, state.n_tag, state.cells)]
        state.labels = state.labels
        for before, after in zip(
            kept, (state.labels, state.n, state.totals, state.n_cell, state.n_tag, state.cells), strict=True
        ):
            np.testing.assert_array_equal(before, after)


@BOTH
@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
def test_where_all_is_alike_every_word_moves(how: Any, order: int) -> None:
    """Of every sentence, whatever its place."""
    rng = np.random.default_rng(0)
    state = TagState(Tagger(2, 3, order, stop=True), [[0, 1, 2], [2, 1], [0], [1, 1, 0, 2], [2, 0]])
    state.draw_start(rng)
    moved = np.zeros(12, int)
    for _ in range(60):
        before = state.labels.copy()
        state.sweep(how, np.full(order + 1, 1e6), np.full(2, 1e6), 1.0, rng)
        moved += state.labels != before
    assert (np.abs(moved - 30) < 20).all()  # each with probability 1/2


#: Five words and two tags: 32 states. A third word does not occur, and kinds of rows differ.
WORDS, TYPES = np.array([0, 1, 0, 0, 1]), 3
ABOUT: Any = {"alpha": np.array([0.4, 3.0, 8.0]), "beta": np.array([0.7, 0.9])}


def chi_squared(
    how: Any, order: int, stop: bool, power: float = 1.0, kept: int = 20_000, thin: int = 3, afresh: bool = False
) -> float:
    """p of the visits to each of 32 states against the exact posterior.

    :param afresh: begin every sweep with a draw from that posterior, which the sweep then must not change. There are
        two sentences then, since how the only sentence starts says nothing of alpha.
    """
    lengths = [3, 2] if afresh else [5]
    alpha, beta = ABOUT["alpha"][[0, 2] if order == 1 else [0, 1, 2]], ABOUT["beta"]
    allowed = np.ones((2, TYPES), np.bool_)
    exact = posterior(WORDS, lengths, allowed, order=order, stop=stop, alpha=alpha, beta=beta)
    states = np.array(list(exact))
    p = np.array(list(exact.values())) ** power
    p /= p.sum()
    rng = np.random.default_rng(7)
    state = TagState(Tagger(2, TYPES, order, stop=stop), [part.tolist() for part in np.split(WORDS, lengths[:-1])])
    state.draw_start(rng)
    starts = state.at[state.words] + states[rng.choice(len(p), size=kept, p=p)]
    seen: Counter[tuple[int, ...]] = Counter()
    for start in starts:
        if afresh:
            state._settle(start)
        for _ in range(thin):
            state.sweep(how, alpha, beta, power, rng)
        seen[tuple(state.labels.tolist())] += 1
    return float(stats.chisquare([seen[z] for z in exact], kept * p).pvalue)


@BOTH
@BOUNDARY
@pytest.mark.parametrize("how", ["pointwise", "blocked", "uncollapsed"])
def test_chain_visits_states_as_often_as_it_should(how: Any, order: int, stop: bool) -> None:
    options: Any = {}
    if how == "uncollapsed":  # the slowest: all of it once
        options = {"thin": 1, "afresh": True, "kept": 20_000 if order == 2 and stop else 4000}
    assert chi_squared(how, order, stop, **options) > 1e-4


def code(kernel: Any) -> types.CodeType:
    """Of a kernel, whether it is compiled or runs as plain Python."""
    found: types.CodeType = getattr(kernel, "py_func", kernel).__code__
    return found


def without_indicators(order: int) -> Any:
    """The sweep, compiled anew with conditionals that forget the token's own trigrams."""
    module = gibbs_bigram if order == 1 else gibbs_trigram

    @njit
    def bigram(b, c, d):  # type: ignore[no-untyped-def]
        return 0, 0

    @njit
    def trigram(a, b, c, d, e):  # type: ignore[no-untyped-def]
        return 0, 0, 0, 0

    names = {**vars(module), "repeats": bigram if order == 1 else trigram}
    names["weight"] = njit(error_model="numpy")(types.FunctionType(code(module.weight), names))
    return njit(error_model="numpy")(types.FunctionType(code(module.sweep), names))


@BOTH
def test_the_test_notices_when_the_indicators_are_left_out(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs_bigram if order == 1 else gibbs_trigram, "sweep", without_indicators(order))
    assert chi_squared("pointwise", order, stop=True) < 1e-10


@BOTH
@pytest.mark.parametrize("how", ["pointwise", "blocked"])
def test_a_tempered_chain_visits_states_by_powers_of_their_probability(how: Any, order: int) -> None:
    assert chi_squared(how, order, stop=True, power=2.0, kept=6000) > 1e-4


def test_longer_sentences_and_dictionaries_too() -> None:
    """Two sentences, three tags, a dictionary: the exact posterior of every two neighbours."""
    allowed = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.bool_)
    words, lengths = np.array([0, 3, 1, 2, 3, 1]), np.array([4, 2])
    about: Any = {"alpha": np.array([0.3, 0.5, 0.4]), "beta": np.array([0.2, 0.5, 1.0])}
    for stop in (False, True):
        exact = posterior(words, lengths, allowed, order=2, stop=stop, **about)
        model = Tagger(3, 4, 2, torch.from_numpy(allowed), stop)
        for how, kept, thin in (("pointwise", 8000, 3), ("blocked", 8000, 3), ("uncollapsed", 400 * stop, 15)):
            if kept == 0:  # one reading of the boundary will do for the slowest
                continue
            rng = np.random.default_rng(3)
            state = TagState(model, [[0, 3, 1, 2], [3, 1]])
            state.draw_start(rng)
            seen: Counter[tuple[int, ...]] = Counter()
            for _ in range(kept):
                for _ in range(thin):
                    state.sweep(how, about["alpha"], about["beta"], 1.0, rng)  # type: ignore[arg-type]
                seen[tuple(state.labels.tolist())] += 1
            assert set(seen) <= set(exact)
            counts, wanted = np.array([seen[z] for z in exact]), kept * np.array(list(exact.values()))
            rare = wanted < 10  # pooled, as the test wants
            counts = np.append(counts[~rare], counts[rare].sum())
            wanted = np.append(wanted[~rare], wanted[rare].sum())
            assert stats.chisquare(counts, wanted).pvalue > 1e-4, (how, stop)


@pytest.mark.parametrize(("order", "stop"), [(1, True), (2, False), (2, True)])
def test_the_target_is_the_posterior_of_the_pyro_program(order: int, stop: bool) -> None:
    """The mean of p(tags, words | tables) over the prior of the tables is what the urns say."""
    about: Any = {"alpha": [0.8, 0.6, 1.2][: order + 1], "beta": [0.7, 0.7]}
    names = ["transition", "second", "start"] if order == 2 else ["transition", "start"]
    prior = {**dict(zip(names, about["alpha"], strict=True)), "emission": 0.7}
    model = Tagger(2, 3, order, stop=stop, prior=prior)
    words, tags, lengths = [0, 2, 1, 1], torch.tensor([0, 1, 1, 0]), [3, 1]
    found = []
    for _ in range(600):
        trace = poutine.trace(model).get_trace(torch.tensor(words), torch.tensor(lengths))
        site = trace.nodes["words"]
        found.append(float(site["fn"].score(site["value"], tags).sum().exp()))
    wanted = np.exp(log_joint(tags.tolist(), words, lengths, 2, [3, 3], order=order, stop=stop, **about))
    assert abs(np.mean(found) - wanted) < 4.5 * np.std(found) / len(found) ** 0.5
    state = TagState(model, [[0, 2, 1], [1]])
    np.testing.assert_allclose(state.concentrations[0], about["alpha"])
    np.testing.assert_allclose(state.concentrations[1], about["beta"])


def without(text: str, other: str) -> Any:
    """``draw_tables`` with something in it replaced."""
    source = textwrap.dedent(inspect.getsource(TagState.draw_tables))
    assert text in source
    names = dict(vars(gibbs_tags))
    exec("from __future__ import annotations\n" + source.replace(text, other), names)
    return names["draw_tables"]


def worst_table(order: int, stop: bool) -> float:
    """The smallest p of all entries of drawn tables against their Beta distributions."""
    allowed = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], np.bool_)  # the last two words do not occur
    state = TagState(Tagger(2, 5, order, torch.from_numpy(allowed), stop), [[0, 1, 2, 1, 1], [1, 2]])
    rng = np.random.default_rng(1)
    state.draw_start(rng)
    alpha, beta = np.array([0.2, 1.5, 20.0])[[0, 2] if order == 1 else [0, 1, 2]], np.array([0.3, 4.0])
    drawn = [state.draw_tables(alpha, beta, rng) for _ in range(1000)]
    rows, cells = (np.exp(np.stack(part)) for part in zip(*drawn, strict=True))
    worst = 1.0
    for r, kind in enumerate(state.kind):
        shape = state.n[r] + alpha[kind]
        shape = shape if stop and kind < order else shape[:-1]
        np.testing.assert_allclose(rows[:, r, : len(shape)].sum(1), 1)
        for c, a in enumerate(shape):
            worst = min(worst, stats.kstest(rows[:, r, c], stats.beta(a, shape.sum() - a).cdf).pvalue)
    for j, k in enumerate(state.tag_of):
        a, whole = state.n_cell[j] + beta[k], state.n_tag[k] + allowed[k].sum() * beta[k]
        worst = min(worst, stats.kstest(cells[:, j], stats.beta(a, whole - a).cdf).pvalue)
    return worst


@BOTH
@BOUNDARY
def test_tables_are_drawn_given_the_counts(order: int, stop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst_table(order, stop) > 1e-4
    for wrong in (
        without("alpha[self.kind][:, None]", "alpha[0]"),
        without("unseen = self.types - np", "unseen = self.types * 0 + 0 * np"),
    ):
        monkeypatch.setattr(TagState, "draw_tables", wrong)
        assert worst_table(order, stop) < 1e-10


def test_threads_draw_the_same_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("pyro_unsup.kernels.plumbing.threads_for", lambda tokens, n=threads: n)
        rng = np.random.default_rng(5)
        state = TagState(Tagger(4, 5, order=2), [rng.integers(5, size=n).tolist() for n in (5, 9, 1, 7, 3, 8)])
        state.draw_start(rng)
        for _ in range(5):
            state.sweep("uncollapsed", np.full(3, 0.5), np.full(4, 0.5), 1.0, rng)
        found.append(state.labels)
    np.testing.assert_array_equal(*found)
