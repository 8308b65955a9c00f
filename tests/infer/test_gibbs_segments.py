"""The sampler of cuts between segments draws from the right distribution."""

from __future__ import annotations

import itertools
from collections import Counter
from math import lgamma
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.errors import StructureError, UnsupError
from pyro_unsup.kernels.gibbs_segments import draw_start
from pyro_unsup.models import Segmenter
from pyro_unsup.models.gibbs_segments import SegmentState

SENTENCES = [[0, 0, 0, 0], [0, 1, 0]]


def segments(ends: Any, sentences: Any) -> list[tuple[int, ...]]:
    found, at = [], 0
    for sentence in sentences:
        begin = 0
        for t in range(len(sentence)):
            if ends[at + t]:
                found.append(tuple(sentence[begin : t + 1]))
                begin = t + 1
        at += len(sentence)
    return found


def log_joint(ends: Any, sentences: Any, types: int, alpha: float, beta: float, penalty: float) -> float:
    def row(counts: Any, outcomes: int, a: float) -> float:
        found = lgamma(outcomes * a) - lgamma(outcomes * a + sum(counts))
        return found + sum(lgamma(a + n) - lgamma(a) for n in counts)

    found = segments(ends, sentences)
    total = row([len(found), len(sentences)], 2, alpha) + row(Counter(found).values(), types, beta)
    return total - sum(len(one) ** penalty for one in found)


def all_cuts(model: Segmenter) -> list[tuple[int, ...]]:
    each = [[(*cut, 1) for cut in itertools.product((0, 1), repeat=len(s) - 1)] for s in SENTENCES]
    found = [sum(parts, ()) for parts in itertools.product(*each)]
    return [z for z in found if max(map(len, segments(z, SENTENCES))) <= model.max_length]


def test_a_start_cuts_everywhere_alike_and_leaves_nothing_too_long() -> None:
    sentences = [[0] * 12, [1], [0, 1] * 4]
    places = np.cumsum([len(one) for one in sentences]) - 1
    for longest in (1, 2, 5):
        ends = np.empty(places[-1] + 1, np.int8)
        draw_start(ends, np.append(0, places + 1), longest, np.full(len(ends), 0.5))  # no cut that need not be
        widths = [len(one) for one in segments(ends, sentences)]
        assert widths == [min(longest, n - at) for n in map(len, sentences) for at in range(0, n, longest)]
        draw_start(ends, np.append(0, places + 1), longest, np.full(len(ends), 0.49))
        assert ends.all()


@pytest.mark.parametrize("how", ["pointwise", "blocked"])
@pytest.mark.parametrize(("longest", "power"), [(4, 1.0), (2, 1.0), (4, 0.5)])
def test_chain_visits_states_as_often_as_it_should(longest: int, power: float, how: str) -> None:
    model = Segmenter.of(SENTENCES, vocab=2, max_length=longest, penalty=0.7)
    alpha, beta, rng = np.array([0.8]), np.array([0.3]), np.random.default_rng(2)
    states = all_cuts(model)
    p = np.exp(power * np.array([log_joint(z, SENTENCES, len(model.types) + 1, 0.8, 0.3, 0.7) for z in states]))
    state = SegmentState(model, SENTENCES)
    state.draw_start(rng)
    seen: Counter[Any] = Counter()
    for _ in range(8000):
        for _ in range(4):
            assert 0 <= state.sweep(how, alpha, beta, power, rng) <= 1
        seen[tuple(state.labels.tolist())] += 1
        if len(seen) > len(states):
            break
    assert set(seen) <= set(states)
    assert stats.chisquare([seen[z] for z in states], 8000 * p / p.sum()).pvalue > 1e-4
    found = state.log_choices(alpha) + state.log_emissions(beta).sum()
    wanted = log_joint(state.labels, SENTENCES, len(model.types) + 1, 0.8, 0.3, 0.7)
    assert found == pytest.approx(wanted, abs=1e-10)
    before = state.n.copy(), state.total
    state.labels = state.labels
    np.testing.assert_array_equal(state.n, before[0])
    assert state.total == before[1]


@pytest.mark.parametrize(("longest", "power"), [(4, 1.0), (2, 2.0), (3, 0.5)])
def test_proposals_of_whole_sentences(longest: int, power: float) -> None:
    """They are drawn in proportion to weights that leave the sentence out, and accepted as their ratio says."""
    model = Segmenter.of(SENTENCES, vocab=2, max_length=longest, penalty=0.7)
    states, types = all_cuts(model), len(model.types) + 1
    alpha, beta, size = np.array([0.8]), np.array([0.3]), len(SENTENCES[0])
    first = [z[:size] for z in states if z[size:] == states[0][size:]]
    rest = Counter(segments(states[0][size:], SENTENCES[1:]))
    N = sum(rest.values())
    common = (N + 0.8) / (N + 2 + 1.6) / (N + types * 0.3)
    w = [
        np.prod([(rest[s] + 0.3) * common * np.exp(-(len(s) ** 0.7)) for s in segments(z, SENTENCES[:1])]) ** power
        for z in first
    ]
    target = np.array([power * log_joint((*z, *states[0][size:]), SENTENCES, types, 0.8, 0.3, 0.7) for z in first])
    q, old = np.array(w) / sum(w), 1
    keep = np.minimum(1, np.exp(target - target[old]) * q[old] / q)
    wanted = q * keep
    wanted[old] = 1 - np.delete(wanted, old).sum()
    state, rng, seen = SegmentState(model, SENTENCES), np.random.default_rng(3), Counter[Any]()
    for _ in range(20000):
        state.labels = np.array([*first[old], *states[0][size:]])
        state.sweep("blocked", alpha, beta, power, rng)
        seen[tuple(state.labels[:size].tolist())] += 1
    assert set(seen) <= set(first)
    assert stats.chisquare([seen[z] for z in first], 20000 * wanted).pvalue > 1e-4


@pytest.mark.parametrize(("width", "temperature"), [(30, 0.04), (100, 1.0), (100, 0.04)])
def test_whole_sentences_with_long_segments_and_low_temperatures(width: int, temperature: float) -> None:
    """The counts stay those of the cuts, and cold chains go up."""
    sentences = [list(range(width)), list(range(width)), [0], [1]]
    model = Segmenter.of(sentences, vocab=width, max_length=width - 2)
    state, rng, reached = SegmentState(model, sentences), np.random.default_rng(0), []
    state.draw_start(rng)
    for _ in range(30):
        assert 0 <= state.sweep("blocked", np.ones(1), np.full(1, 1e-3), 1 / temperature, rng) <= 1
        counted = state.n.copy(), state.total
        state.labels = state.labels
        np.testing.assert_array_equal(counted[0], state.n)
        assert counted[1] == state.total
        reached.append(state.log_choices(np.ones(1)) + float(state.log_emissions(np.full(1, 1e-3))[0]))
    assert np.isfinite(reached).all()
    if temperature < 1:
        assert reached[-1] >= reached[0]


def exact_sweep(state: SegmentState, ends: Any, alpha: float, beta: float, power: float, uniforms: Any) -> Any:
    """A sweep by ratios of joints, in logs."""
    ends = ends.copy()
    for first, last in itertools.pairwise(state.offsets):
        for t in range(first, last - 1):
            logs = []
            for cut in (0, 1):
                ends[t] = cut
                try:
                    state.labels = ends
                except StructureError:  # too long
                    logs.append(-np.inf)
                else:
                    logs.append(state.log_choices(np.array([alpha])) + float(state.log_emissions(np.array([beta]))[0]))
            ends[t] = np.log(uniforms[t]) < -np.logaddexp(0.0, power * (logs[0] - logs[1]))
    return ends


@pytest.mark.parametrize(("width", "temperature"), [(12, 0.04), (30, 0.04), (30, 1.0), (100, 1.0), (100, 0.04)])
def test_long_segments_and_low_temperatures(width: int, temperature: float) -> None:
    """Powers of ratios that leave the range of floats, and penalties that do: exp(-100 ** 1.6) is 0."""
    sentences = [list(range(width)), list(range(width))]
    model = Segmenter.of(sentences, vocab=width, max_length=width - 2)
    state, other = SegmentState(model, sentences), SegmentState(model, sentences)
    for seed, place in enumerate((1, width // 2, None)):
        other.draw_start(np.random.default_rng(seed))
        only = np.isin(np.arange(width), (place, width - 1)).astype(int)
        state.labels = other.labels if place is None else np.tile(only, 2)
        uniforms = np.random.default_rng(seed).random(len(state))
        wanted = exact_sweep(other, state.labels, 1.0, 1e-3, 1 / temperature, uniforms)
        state.sweep("pointwise", np.ones(1), np.full(1, 1e-3), 1 / temperature, np.random.default_rng(seed))
        np.testing.assert_array_equal(state.labels, wanted)
        counted = state.n.copy(), state.total
        state.labels = wanted
        np.testing.assert_array_equal(counted[0], state.n)
        assert counted[1] == state.total


@pytest.mark.parametrize("how", ["pointwise", "blocked"])
def test_it_finds_words(tmp_path: Any, how: Any) -> None:
    words = ["the", "dog", "cat", "see", "a"]
    rng = np.random.default_rng(0)
    lines = [[words[k] for k in rng.integers(5, size=4)] for _ in range(60)]
    vocab = pu.data.Vocab(sorted(set("".join(words))))
    sentences = [vocab.encode(list("".join(line))).tolist() for line in lines]
    gold = np.concatenate([[i == len(word) - 1 for i in range(len(word))] for line in lines for word in line])
    model = Segmenter.of(sentences, vocab=vocab, penalty=None, max_length=6, prior={"segments": 0.01})
    samples = pu.CollapsedGibbs(model, hyper="shared", how=how, temperature=pu.schedules.Cooling()).run(
        sentences, sweeps=150, chains=2, progress=False, checkpoint=tmp_path / "run"
    )
    lengths = [len(s) for s in sentences]
    scores = pu.evaluate.segmentation_report(gold, samples.predict(), np.concatenate(sentences), lengths)
    assert scores["token_f1"] > 0.7
    flat, offsets = np.concatenate(sentences), np.concatenate([[0], np.cumsum(lengths)])
    text = pu.data.Segmented(pu.data.Corpus(flat, offsets, vocab), gold.astype(bool))
    assert (
        samples.evaluate(text, "best")["token_f1"]["chains"][int(samples.best_log_joint.argmax())] == scores["token_f1"]
    )
    with pytest.raises(UnsupError, match="is not the one that was sampled"):
        samples.evaluate(text.select(np.arange(len(text))[::-1]))
    assert samples.beta.shape == samples.alpha.shape == (2, 75)
    assert samples.to_arviz().posterior["token_counts"].shape == (2, 75, 2)
    samples.save(tmp_path / "out")
    np.testing.assert_array_equal(pu.Samples.load(tmp_path / "out").labels, samples.labels)


def test_what_is_refused() -> None:
    model = Segmenter.of(SENTENCES, vocab=2, max_length=2)
    state = SegmentState(model, SENTENCES)
    with pytest.raises(StructureError, match="with 1 at the end of every sentence"):
        state.labels = np.array([1, 1, 1, 0, 1, 1, 1])
    with pytest.raises(StructureError, match="more than the 2 symbols"):
        state.labels = np.array([0, 0, 1, 1, 1, 1, 1])
