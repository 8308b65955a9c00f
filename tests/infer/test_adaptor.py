"""The sampler of adaptor grammars draws from the right distribution, and goes on where it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.errors import FitError, UnsupError
from pyro_unsup.kernels.adaptor import sweeps
from pyro_unsup.models import Adaptor
from pyro_unsup.models.gibbs_adaptor import AdaptorState, PitmanYor

from .adaptor_oracle import posterior

FUNCTIONS = {"group": "short? word+", "short": "symbol", "word": "open+ | piece"}
#: By name: a grammar, and sentences that have few analyses.
CASES: dict[str, tuple[dict[str, Any], list[list[int]]]] = {
    "words": ({"levels": {"word": "symbol+"}}, [[0, 0, 0], [0, 1, 0], [0, 0]]),
    "groups": ({"levels": {"group": "word+", "word": "symbol+"}}, [[0, 0], [0, 0], [0, 1]]),
    "parts of words": (
        {"levels": {"word": "stem suffix?", "stem": "symbol+", "suffix": "symbol{1,2}"}},
        [[0, 0], [0, 1, 0]],
    ),
    "short words and classes": (
        {"levels": FUNCTIONS, "parts": {"piece": "closed open"}, "classes": {"open": [0], "closed": [1]},
         "words": ["word", "short"]},
        [[0, 0], [1, 0, 0], [0]],
    ),
}  # fmt: skip
LINES = ["thedog", "adog", "seethedog", "thecat", "acat", "seeacat", "see"]
VOCAB = pu.data.Vocab(sorted(set("".join(LINES))))


def chi_squared(state: AdaptorState, wanted: dict[tuple[int, ...], float], draws: int, thin: int = 3) -> float:
    """p of the cuts that the sampler visits. Rare ones are counted together."""
    alpha, beta = state.concentrations
    rng, seen = np.random.default_rng(0), Counter[Any]()
    state.draw_start(rng)
    for _ in range(draws):
        for _ in range(thin):
            assert 0 <= state.sweep("blocked", alpha, beta, 1.0, rng) <= 1
        seen[tuple(state.labels.tolist())] += 1
    assert set(seen) <= set(wanted)
    often = [key for key, p in wanted.items() if draws * p >= 5]
    found = np.array([seen[key] for key in often] + [draws - sum(seen[key] for key in often)])
    share = np.array([wanted[key] for key in often])
    expected = draws * np.append(share, max(1 - share.sum(), 0))
    if expected[-1] < 1:
        found, expected = found[:-1], expected[:-1] / expected[:-1].sum() * found[:-1].sum()
    return float(stats.chisquare(found, expected).pvalue)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("discount", "concentration"), [(0.0, 0.7), (0.4, 0.6)])
def test_cuts_are_drawn_from_their_exact_posterior(case: str, discount: float, concentration: float) -> None:
    """A discount of 0 is the Dirichlet process; with one level, that of Goldwater, Griffiths & Johnson."""
    grammar, sentences = CASES[case]
    model = Adaptor(2, **grammar, discount=discount, concentration=concentration)
    wanted = posterior(model.nested, sentences, discount, concentration)
    assert chi_squared(AdaptorState(model, sentences), wanted, 3000) > 1e-4


def test_the_test_sees_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sampler without the step of Metropolis and Hastings, and of another concentration."""
    grammar, sentences = CASES["words"]
    model = Adaptor(2, **grammar, discount=0.4, concentration=0.6)
    wanted = posterior(model.nested, sentences, 0.4, 0.6)
    other = Adaptor(2, **grammar, discount=0.4, concentration=1.2)
    assert chi_squared(AdaptorState(other, sentences), wanted, 3000) < 1e-6
    monkeypatch.setattr(sweeps, "uniform", lambda state: 0.0)  # accepts whatever is proposed
    for name in ("renew", "over_sentences", "over_tables"):
        monkeypatch.setattr(sweeps, name, getattr(sweeps, name).py_func)
    assert chi_squared(AdaptorState(model, sentences), wanted, 3000) < 1e-6


@pytest.mark.parametrize("start", ["batch", "incremental"])
def test_counts_stay_those_of_the_analyses(start: Any) -> None:
    model = Adaptor(VOCAB, {"group": "word+", "word": "symbol+"}, start=start)
    state, rng = AdaptorState(model, LINES), np.random.default_rng(1)
    state.draw_start(rng)
    for _ in range(20):
        state.sweep("blocked", *state.concentrations, 1.0, rng)
        before = {name: np.array(getattr(state.seats, name)) for name in ("rules", "shown", "customers", "tables")}
        other = AdaptorState(model, LINES)
        other.extra = state.extra
        for name, x in before.items():
            np.testing.assert_array_equal(x, getattr(other.seats, name), name)
        np.testing.assert_array_equal(state.labels, other.labels)
        assert state.labels[np.cumsum([len(line) for line in LINES]) - 1].all()


def test_the_log_joint_is_that_of_seats_rules_and_symbols_drawn_one_after_the_other() -> None:
    model = Adaptor(VOCAB, {"group": "word+", "word": "symbol+"}, discount=0.3, concentration=2.0)
    state, rng = AdaptorState(model, LINES), np.random.default_rng(1)
    state.draw_start(rng)
    alpha, beta = state.concentrations
    state.sweep("blocked", alpha, beta, 1.0, rng)
    s, first, found = state.seats, len(LINES), 0.0
    for room in range(2):
        sizes, N = s.size[first : s.used[0]][s.room[first : s.used[0]] == room], 0
        for T, size in enumerate(sizes.tolist()):
            for m in range(size):
                found += np.log(((m - 0.3) if m else 0.3 * T + 2.0) / (N + 2.0))
                N += 1
    for counts in [s.rules[a:b] for a, b in zip(model.compiled.first, model.compiled.first[1:], strict=False)] + [
        *s.shown
    ]:
        seen = np.zeros(len(counts))
        for k in np.repeat(np.arange(len(counts)), counts):
            found += np.log((seen[k] + 1) / (seen.sum() + len(seen)))
            seen[k] += 1
    assert state.log_joint(alpha, beta) == pytest.approx(found, abs=1e-9)


def test_a_chain_goes_on_bit_for_bit(tmp_path: Path) -> None:
    model = Adaptor(VOCAB, {"group": "word+", "word": "symbol+"})
    sampler = pu.CollapsedGibbs(model)
    whole = sampler.run(LINES, sweeps=20, chains=2, progress=False)
    seen = []

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
    whole.save(tmp_path / "s")
    loaded = pu.load(tmp_path / "s")
    np.testing.assert_array_equal(loaded.predict("vote"), whole.predict("vote"))
    assert loaded.levels == ("word", "group")
    assert set(loaded.level_numbers) == {"concentration", "discount"}


def test_analyses_from_a_file_that_do_not_fit_are_refused() -> None:
    model = Adaptor(VOCAB, {"group": "word+", "word": "symbol+"})
    state = AdaptorState(model, LINES)
    state.draw_start(np.random.default_rng(0))
    good = state.extra
    for name, x in good.items():
        for change in (lambda x: x + 1, lambda x: -x - 1, lambda x: x[:-1], lambda x: x.astype(float)):
            with pytest.raises(ValueError, match="analyses"):
                AdaptorState(model, LINES).extra = {**good, name: change(x)}
    rng = np.random.default_rng(0)
    for _ in range(300):  # whatever is accepted is counted without harm
        pool = good["pool"].copy()
        pool[rng.integers(len(pool))] = rng.integers(-5, 1 << 16)
        other = AdaptorState(model, LINES)
        try:
            other.extra = {**good, "pool": pool}
        except ValueError:
            continue
        other.sweep("blocked", *other.concentrations, 1.0, rng)


def test_results_for_arviz() -> None:
    model = Adaptor(VOCAB, {"group": "word+", "word": "symbol+"})
    samples = pu.CollapsedGibbs(model).run(LINES, sweeps=20, chains=2, progress=False)
    found = pu.to_arviz(samples)
    assert found.posterior["discount"].dims == ("chain", "draw", "level")
    assert found.posterior["level"].values.tolist() == ["word", "group"]
    assert {"tag", "rank"}.isdisjoint(found.posterior.dims)
    ends = found.posterior["token_counts"].sel(ends="yes").values
    np.testing.assert_array_equal(ends, samples.labels.sum(-1))
    assert {"discount_word", "concentration_group", "log_joint"} <= samples.diagnostics().keys()
    with pytest.raises(UnsupError, match="no group log_likelihood: choose from posterior"):
        pu.to_arviz(samples, LINES, groups=["log_likelihood"])
    fixed = pu.CollapsedGibbs(model, hyper="fixed").run(LINES, sweeps=10, progress=False)
    assert fixed.level_numbers == {}
    assert (fixed.draws["beta"] == 0.5).all()
    process = pu.CollapsedGibbs(Adaptor(VOCAB, "words", discount=0.0)).run(LINES, sweeps=10, progress=False)
    assert (process.draws["beta"] == 0).all()
    assert len(np.unique(process.draws["alpha"])) > 1


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"hyper": "shared"}, "'separate', one for each level, or 'fixed'"),
        ({"alpha": -1.0}, "alpha, the concentration of each level"),
        ({"beta": 1.0}, "beta, the discount of each level, must lie from 0 to below 1"),
        ({"hyperprior": "log_uniform"}, "priors of its own"),
        ({"how": "pointwise"}, "the labels of an Adaptor are drawn how = 'blocked'"),
    ],
)
def test_settings_that_are_refused(told: dict[str, Any], match: str) -> None:
    with pytest.raises(FitError, match=match):
        pu.CollapsedGibbs(Adaptor(VOCAB, "words"), **told)


def test_what_cannot_be_sampled_is_refused() -> None:
    model = Adaptor(VOCAB, "words")
    with pytest.raises(FitError, match="temperature 1 only"):
        pu.CollapsedGibbs(model, temperature=2.0).run(LINES, sweeps=4, progress=False)
    with pytest.raises(UnsupError, match="leave initial out"):
        pu.CollapsedGibbs(model).run(LINES, sweeps=4, progress=False, initial=np.ones(39))
    with pytest.raises(UnsupError, match="at most 400 symbols"):
        pu.CollapsedGibbs(model).run(["see" * 200], sweeps=4, progress=False)
    short = Adaptor(VOCAB, {"word": "symbol symbol"}, max_length=1)
    with pytest.raises(FitError, match=r"sentence 1, 'see', has no .* at most 1 symbols, .* take a larger max_length"):
        pu.CollapsedGibbs(short).run(["see"], sweeps=4, progress=False)
    vowels = Adaptor(VOCAB, "syllables", vowels="ae")
    said = "sentence 2, 'ths', has no analysis .* the grammar 'syllables' needs a vowel, and it has none: add"
    with pytest.raises(FitError, match=said):
        pu.CollapsedGibbs(vowels).run(["see", "ths"], sweeps=4, progress=False)
    with pytest.raises(UnsupError, match="lexicons without end"):
        pu.EM(model).run(LINES)


def test_the_record_says_which_priors_there_were() -> None:
    gamma, beta = "Gamma(shape=0.01, rate=0.01) of concentrations, none below 1e-12", "Beta(1, 1) of discounts"
    settings = pu.CollapsedGibbs(Adaptor(VOCAB, "words", concentration=2.0)).settings()
    assert settings == {"alpha": 2.0, "beta": 0.5, "hyper": "separate", "hyperprior": f"{gamma}, {beta}",
                        "how": "blocked", "temperature": 1.0}  # fmt: skip
    fixed = pu.CollapsedGibbs(Adaptor(VOCAB, "words"), alpha=3.0, beta=0.0, hyper="fixed").settings()
    assert (fixed["alpha"], fixed["beta"], fixed["hyperprior"]) == (3.0, 0.0, None)
    bigram = pu.CollapsedGibbs(Adaptor(VOCAB, "words", order=2))
    samples = bigram.run(LINES, sweeps=4, progress=False)
    assert (samples.config["beta"], samples.config["hyperprior"]) == (0.0, gamma)
    assert samples.rates.keys() == {"labels", "alpha"}  # discounts of 0 are not sampled


def test_a_fixed_prior_has_no_rates_of_its_own() -> None:
    numbers = PitmanYor(np.ones(2), np.zeros(2), "fixed")
    assert numbers.sampled == {}
    assert PitmanYor(np.ones(2), np.zeros(2), "separate").sampled.keys() == {"concentration", "discount"}
