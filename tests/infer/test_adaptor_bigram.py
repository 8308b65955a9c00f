"""Words that depend on the word before: drawn from their exact posterior with all seats, and chains go on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import pyro_unsup as pu
from pyro_unsup.errors import FitError, UnsupError
from pyro_unsup.kernels.adaptor import bigram_sweeps, sweeps
from pyro_unsup.models import Adaptor
from pyro_unsup.models.gibbs_adaptor import PitmanYorPrior
from pyro_unsup.models.gibbs_bigram_words import BigramWordState

from .adaptor_oracle import bigram_joint

STRENGTH = (0.7, 0.6)
CORPORA = [[[0, 0, 0], [0, 0]], [[0, 1], [0, 1], [0]], [[0, 0], [0, 1], [0, 0]]]
LINES = ["thedog", "adog", "seethedog", "thecat", "acat", "seeacat", "see"]
VOCAB = pu.data.Vocab(sorted(set("".join(LINES))))


def tiny(sentences: Any) -> BigramWordState:
    return BigramWordState(Adaptor(2, "words", order=2), sentences)


def keyed(state: BigramWordState) -> tuple[Any, ...]:
    """Labels, seats and tables of the lexicon as the oracle names them."""
    kept, symbols, seats = state.extra, len(state.words), []
    for k, (begin, end) in enumerate(zip(state.offsets, state.offsets[1:], strict=False)):
        seats += [x for x in kept["seat"][begin:end].tolist() if x >= 0] + [int(kept["seat"][symbols + k])]
    return tuple(state.labels.tolist()), tuple(seats), tuple(kept["parent"].tolist())


def unkeyed(state: BigramWordState, key: tuple[Any, ...]) -> dict[str, Any]:
    labels, seats, parent = key[0], list(key[1]), key[2]
    seat = np.full(len(labels) + len(state.offsets) - 1, -1)
    for k, (begin, end) in enumerate(zip(state.offsets, state.offsets[1:], strict=False)):
        for at in range(begin, end):
            if labels[at]:
                seat[at] = seats.pop(0)
        seat[len(labels) + k] = seats.pop(0)
    return {"seat": seat, "parent": np.array(parent)}


def agreement(found: Counter[Any], wanted: dict[Any, float]) -> float:
    """p of a chi-squared test. What is rare is counted together."""
    total, draws = sum(wanted.values()), sum(found.values())
    assert set(found) <= set(wanted)
    often = [key for key, p in wanted.items() if draws * p / total >= 5]
    seen = np.array([found[key] for key in often])
    expected = draws * np.array([wanted[key] for key in often]) / total
    if draws - expected.sum() >= 1:
        seen, expected = np.append(seen, draws - seen.sum()), np.append(expected, draws - expected.sum())
    return float(stats.chisquare(seen, expected / expected.sum() * seen.sum()).pvalue)


def after_sweeps(sentences: Any, discount: Any, draws: int, many: int = 1, strength: Any = STRENGTH) -> float:
    """p of where sweeps lead from exact draws of the posterior of words, seats and tables: there, if all is right."""
    joint = bigram_joint(2, sentences, discount, STRENGTH)
    keys, state, rng = list(joint), tiny(sentences), np.random.default_rng(0)
    p, found = np.array([joint[key] for key in keys]), Counter[Any]()
    for k in rng.choice(len(keys), draws, p=p / p.sum()):
        state.extra = unkeyed(state, keys[k])
        for _ in range(many):
            state.sweep("blocked", np.array(strength), np.array(discount), 1.0, rng)
        found[keyed(state)] += 1
    return agreement(found, joint)


@pytest.mark.parametrize("discount", [(0.0, 0.0), (0.4, 0.3)])
@pytest.mark.parametrize("sentences", CORPORA, ids=str)
def test_sweeps_leave_the_exact_posterior_of_words_and_seats_as_it_is(sentences: Any, discount: Any) -> None:
    assert after_sweeps(sentences, discount, 3000) > 1e-4


@pytest.mark.parametrize("start", ["batch", "incremental"])
def test_a_chain_comes_to_the_exact_posterior_of_words(start: Any) -> None:
    sentences = [[0, 0, 0], [0, 0]]
    wanted: dict[Any, float] = Counter()
    for (labels, *_), p in bigram_joint(2, sentences, (0.4, 0.3), STRENGTH).items():
        wanted[labels] += p
    state, rng = BigramWordState(Adaptor(2, "words", order=2, start=start), sentences), np.random.default_rng(1)
    found = Counter[Any]()
    state.draw_start(rng)
    for _ in range(2500):
        for _ in range(4):
            state.sweep("blocked", np.array(STRENGTH), np.array([0.4, 0.3]), 1.0, rng)
        found[tuple(state.labels.tolist())] += 1
    assert agreement(found, wanted) > 1e-4


def test_the_test_sees_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other concentrations, and of a sampler without the step of Metropolis and Hastings."""
    assert after_sweeps(CORPORA[0], (0.4, 0.3), 2000, 3, strength=(0.7, 1.2)) < 1e-6
    assert after_sweeps(CORPORA[0], (0.4, 0.3), 2000, 3, strength=(2.1, 0.6)) < 1e-6
    assert after_sweeps([[0, 0, 0]], (0.4, 0.3), 2000, 3) > 1e-4
    monkeypatch.setattr(bigram_sweeps, "uniform", lambda state: 0.0)  # accepts whatever is proposed
    for name in ("renew", "over_sentences"):
        monkeypatch.setattr(bigram_sweeps, name, getattr(bigram_sweeps, name).py_func)
    assert after_sweeps([[0, 0, 0]], (0.4, 0.3), 2000, 3) < 1e-6


@pytest.mark.parametrize("discount", [(0.0, 0.0), (0.4, 0.3)])
def test_the_log_joint_is_that_of_the_story(discount: Any) -> None:
    for sentences in CORPORA:
        state = tiny(sentences)
        for key, p in bigram_joint(2, sentences, discount, STRENGTH).items():
            state.extra = unkeyed(state, key)
            assert state.log_joint(np.array(STRENGTH), np.array(discount)) == pytest.approx(np.log(p), abs=1e-9)
            assert keyed(state) == key


@pytest.mark.deep
@pytest.mark.parametrize("discount", [(0.0, 0.0), (0.4, 0.3)])
@pytest.mark.parametrize("sentences", [*CORPORA, [[0, 0, 1], [0, 0], [1]], [[0, 1, 0, 1], [0, 1]]], ids=str)
def test_many_sweeps_leave_the_exact_posterior_as_it_is(sentences: Any, discount: Any) -> None:
    assert after_sweeps(sentences, discount, 20_000, 2) > 1e-4


@pytest.mark.deep
def test_words_and_concentrations_together_have_their_exact_posterior() -> None:
    """Both concentrations on a grid, under a prior that it covers."""
    sentences, prior = [[0, 0], [0, 0]], PitmanYorPrior(shape=2.0, rate=1.0)
    grid = np.linspace(-5, 2.7, 30)
    wanted: dict[Any, float] = Counter()
    mean = np.zeros(2)
    for x in grid:
        for y in grid:
            b = np.exp([x, y])
            weight = float(np.exp(prior.log_density(b).sum()))
            for (labels, *_), p in bigram_joint(2, sentences, (0.0, 0.0), tuple(b)).items():
                wanted[labels] += weight * p
                mean += weight * p * np.array([x, y])
    mean /= sum(wanted.values())
    state, rng, found, drawn = tiny(sentences), np.random.default_rng(3), Counter[Any](), []
    state.draw_start(rng)
    alpha, beta = np.ones(2), np.zeros(2)
    for _ in range(20_000):
        for _ in range(4):
            state.sweep("blocked", alpha, beta, 1.0, rng)
            state.draw_numbers(alpha, beta, prior.numbers, False, rng)
        found[tuple(state.labels.tolist())] += 1
        drawn.append(np.log(alpha))
    assert agreement(found, wanted) > 1e-4
    np.testing.assert_allclose(np.mean(drawn, 0), mean, atol=0.05)


def test_numbers_have_their_exact_posterior_given_the_seats() -> None:
    """Those of all restaurants of words, which share them, against the density on a grid."""
    state, rng = BigramWordState(Adaptor(VOCAB, "words", order=2, discount=0.2), LINES), np.random.default_rng(1)
    state.draw_start(rng)
    alpha, beta = state.concentrations
    for _ in range(5):
        state.sweep("blocked", alpha, beta, 1.0, rng)
    p = state.pairs
    m, t = (x[p.all_customers > 0][:, None, None] for x in (p.all_customers, p.all_tables))
    sizes = p.size[: p.used[0]][:, None, None]
    assert m.sum() == sizes.sum()
    a, x = np.linspace(0.0005, 0.9995, 300)[:, None], np.linspace(-7, 7, 300)
    b = np.exp(x)
    log_p = (gammaln(b) - gammaln(b + m) + gammaln(b / a + t) - gammaln(b / a) + t * np.log(a)).sum(0)
    log_p = log_p + (gammaln(sizes - a) - gammaln(1 - a)).sum(0) + 2.0 * x - 1.0 * b
    density = np.exp(log_p - log_p.max())
    density /= density.sum()
    drawn, prior = [], PitmanYorPrior(shape=2.0, rate=1.0).numbers
    alpha, beta = alpha.copy(), beta.copy()
    for _ in range(6000):
        state.draw_numbers(alpha, beta, prior, True, rng)
        drawn.append((beta[1], np.log(alpha[1])))
    for axis, grid in enumerate((a[:, 0], x)):
        cdf = np.cumsum(density.sum(1 - axis))
        for q in (0.1, 0.5, 0.9):
            at = grid[np.searchsorted(cdf, q)]
            assert abs((np.array(drawn)[:, axis] < at).mean() - q) < 0.04


@pytest.mark.parametrize("start", ["batch", "incremental"])
def test_counts_stay_those_of_the_seats(start: Any) -> None:
    state, rng = BigramWordState(Adaptor(VOCAB, "words", order=2, start=start), LINES), np.random.default_rng(1)
    state.draw_start(rng)
    for _ in range(30):
        state._over_sentences(sweeps.AGAIN, *state.concentrations, rng)
        s, p = state.seats, state.pairs
        names = ("rules", "shown", "customers", "tables", "all_customers", "all_tables")
        before = {name: getattr(s, name).copy() for name in names}
        rooms, ends = (p.all_customers.copy(), p.all_tables.copy()), int(p.used[3])
        pairs = {int(key): (n, t) for key, n, t in zip(p.key, p.customers, p.tables, strict=True) if key >= 0 and n}
        state._finish()
        for name, x in before.items():
            inner = slice(0, 2) if name == "rules" else slice(None)  # word -> symbol+ and the root are not counted
            np.testing.assert_array_equal(x[inner], getattr(state.seats, name)[inner], name)
        np.testing.assert_array_equal(rooms, (p.all_customers, p.all_tables))
        assert ends == p.used[3]
        after = {int(key): (n, t) for key, n, t in zip(p.key, p.customers, p.tables, strict=True) if key >= 0}
        assert pairs == after
        other = BigramWordState(state.model, LINES)
        other.extra = state.extra
        assert {name: x.tolist() for name, x in other.extra.items()} == {k: x.tolist() for k, x in state.extra.items()}
        assert state.labels[np.cumsum([len(line) for line in LINES]) - 1].all()


def test_a_chain_goes_on_bit_for_bit(tmp_path: Path) -> None:
    sampler = pu.CollapsedGibbs(Adaptor(VOCAB, "words", order=2, discount=0.3))
    whole, seen = sampler.run(LINES, sweeps=20, chains=2, progress=False), []

    def stop(sweep: Any) -> bool:
        seen.append(sweep)
        return len(seen) == 9

    with pytest.raises(KeyboardInterrupt):
        sampler.run(LINES, sweeps=20, chains=2, progress=False, checkpoint=tmp_path / "c", callbacks=[stop])
    again = sampler.run(LINES, sweeps=20, chains=2, progress=False, checkpoint=tmp_path / "c", resume=True)
    np.testing.assert_array_equal(whole.labels, again.labels)
    np.testing.assert_array_equal(whole.path["log_joint"], again.path["log_joint"])
    for name in ("alpha", "beta"):
        np.testing.assert_array_equal(whole.draws[name], again.draws[name])
    with pytest.raises(UnsupError, match="another model"):
        pu.CollapsedGibbs(Adaptor(VOCAB, "words", discount=0.3)).run(
            LINES, sweeps=20, chains=2, progress=False, checkpoint=tmp_path / "c", resume=True
        )
    whole.save(tmp_path / "s")
    loaded = pu.load(tmp_path / "s")
    for how in ("last", "vote"):
        np.testing.assert_array_equal(loaded.predict(how), whole.predict(how))
    assert loaded.model.order == 2
    assert loaded.levels == ("word", "word_bigram")
    found = pu.to_arviz(loaded)
    assert found.posterior["concentration"].dims == ("chain", "draw", "level")
    assert found.posterior["level"].values.tolist() == ["word", "word_bigram"]
    assert {"discount_word_bigram", "concentration_word", "log_joint"} <= whole.diagnostics().keys()


def test_seats_from_a_file_that_do_not_fit_are_refused() -> None:
    model = Adaptor(VOCAB, "words", order=2)
    state = BigramWordState(model, LINES)
    state.draw_start(np.random.default_rng(0))
    good, rng = state.extra, np.random.default_rng(0)
    for name, x in good.items():
        for change in (lambda x: x + 1, lambda x: -x - 2, lambda x: x[:-1], lambda x: x.astype(float)):
            with pytest.raises(ValueError, match="analyses"):
                BigramWordState(model, LINES).extra = {**good, name: change(x)}
    for _ in range(300):  # whatever is accepted is counted without harm
        changed = {name: x.copy() for name, x in good.items()}
        x = changed["seat" if rng.random() < 0.5 else "parent"]
        x[rng.integers(len(x))] = rng.integers(-2, len(x))
        other = BigramWordState(model, LINES)
        try:
            other.extra = changed
        except ValueError:
            continue
        other.sweep("blocked", *other.concentrations, 1.0, rng)


def test_other_words_of_symbols() -> None:
    """Of a class of symbols, of one symbol each, of a limited length; and sentences without symbols."""
    letters = Adaptor(VOCAB, {"unit": "letter+"}, classes={"letter": "acdeghost"}, words=["unit"], order=2)
    samples = pu.CollapsedGibbs(letters).run([*LINES, ""], sweeps=6, progress=False)
    assert samples.levels == ("unit", "unit_bigram")
    single = pu.CollapsedGibbs(Adaptor(VOCAB, {"word": "symbol"}, order=2)).run(LINES, sweeps=6, progress=False)
    assert single.labels.all()
    short = pu.CollapsedGibbs(Adaptor(VOCAB, "words", max_length=2, order=2)).run(LINES, sweeps=20, progress=False)
    assert np.diff(np.flatnonzero(short.predict("last")), prepend=-1).max() <= 2
    some = Adaptor(VOCAB, {"word": "letter+"}, classes={"letter": "acdegho"}, order=2)
    with pytest.raises(FitError, match="sentence 1, 'see', has no analysis"):
        pu.CollapsedGibbs(some).run(["see", "dog"], sweeps=2, progress=False)


def test_discounts_are_zero_by_default_and_stay_so() -> None:
    samples = pu.CollapsedGibbs(Adaptor(VOCAB, "words", order=2)).run(LINES, sweeps=10, progress=False)
    assert (samples.draws["beta"] == 0).all()
    assert len(np.unique(samples.draws["alpha"][..., 1])) > 1
    learned = pu.CollapsedGibbs(Adaptor(VOCAB, "words", order=2, discount=0.5)).run(LINES, sweeps=10, progress=False)
    assert len(np.unique(learned.draws["beta"][..., 1])) > 1
    fixed = pu.CollapsedGibbs(Adaptor(VOCAB, "words", order=2), alpha=3.0, hyper="fixed")
    assert (fixed.run(LINES, sweeps=10, progress=False).draws["alpha"] == 3.0).all()


def test_what_cannot_be_sampled_is_refused() -> None:
    model = Adaptor(VOCAB, "words", order=2)
    with pytest.raises(FitError, match="temperature 1 only"):
        pu.CollapsedGibbs(model, temperature=2.0).run(LINES, sweeps=4, progress=False)
    with pytest.raises(UnsupError, match="leave initial out"):
        pu.CollapsedGibbs(model).run(LINES, sweeps=4, progress=False, initial=np.ones(39))
    with pytest.raises(FitError, match="drawn how = 'blocked'"):
        pu.CollapsedGibbs(model, how="pointwise")
