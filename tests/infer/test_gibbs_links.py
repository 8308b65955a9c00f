"""The sampler of links draws from the right distribution: against enumeration, tables integrated or given."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from dataclasses import replace
from math import lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from pyro.infer import MCMC
from scipy import stats

import pyro_unsup as pu
from pyro_unsup.errors import FitError, InputError, StructureError
from pyro_unsup.kernels import gibbs_links
from pyro_unsup.models import Aligner, HMMAligner, Tagger
from pyro_unsup.models.gibbs_jumps import JumpState
from pyro_unsup.models.gibbs_links import FERTILITIES, LinkState

#: Words that come twice, in one sentence and in two.
SOURCE, TARGET = [[0, 1], [1, 1]], [[0, 0], [1]]
BITEXT = (SOURCE, TARGET)
PLACES = [[2, 2], [2]]  # how many source words each target word may choose from


def make(kind: type[Aligner], **settings: Any) -> Any:
    return kind.of(BITEXT, agreement=None, source=2, target=2, **settings)


def rows(counts: Any, a: float) -> float:
    """Of counts that are drawn from a row that is integrated out."""
    found = lgamma(len(counts) * a) - lgamma(len(counts) * a + sum(counts))
    return found + sum(lgamma(a + n) - lgamma(a) for n in counts)


def forward(labels: Any, beta: float, null: float | None, fertility: float | None) -> float:
    """Of the links and words of the forward direction of Model 1, by plain loops over words."""
    drawn: dict[Any, Counter[int]] = {}
    found, at = 0.0, 0
    fertile: dict[int, Counter[int]] = {}
    for e, f in zip(SOURCE, TARGET, strict=True):
        own = labels[at : at + len(f)]
        at += len(f)
        for word, place in zip(f, own, strict=True):
            if null is None:
                found -= log(len(e) + 1)
            else:
                found += log(null) if place == 0 else log((1 - null) / len(e))
            drawn.setdefault(e[place - 1] if place else "null", Counter())[word] += 1
        for i, word in enumerate(e):
            fertile.setdefault(word, Counter())[min(list(own).count(i + 1), FERTILITIES - 1)] += 1
    met: Any = {0: [0], 1: [0, 1], "null": [0, 1]}
    found += sum(rows([n[w] for w in met[e]], beta) for e, n in drawn.items())
    if fertility is not None:
        found += sum(rows([n[k] for k in range(FERTILITIES)], fertility) for n in fertile.values())
    return found


def jumps(labels: Any, table: Any) -> Any:
    """The probability of the jumps of the forward direction, given tables (*draws, 3, 11), by plain loops."""
    found: Any = 1.0
    at = 0
    for e, f in zip(SOURCE, TARGET, strict=True):
        S, here = len(e), 0
        for place in [x for x in labels[at : at + len(f)] if x]:
            goes = range(1 - here, S + 1 - here)
            row = table[..., 0 if here == 0 else 1, :]
            found = found * row[..., 5 + place - here] / sum(row[..., 5 + d] for d in goes)
            here = place
        end = table[..., 2, :]
        found = found * end[..., 5 + S + 1 - here] / sum(end[..., 5 + d] for d in range(1, S + 2))
        at += len(f)
    return found


STATES = [*itertools.product(range(3), repeat=3)]


def chi_squared(fertility: float | None, null: float | None, power: float = 1.0) -> float:
    """p of the links of Model 1 after some sweeps."""
    state, rng = LinkState(make(Aligner, null=null), BITEXT, fertility), np.random.default_rng(3)
    beta, seen = np.array([0.4, 0.7]), Counter[Any]()
    p = np.exp(power * np.array([forward(z, 0.4, null, fertility) for z in STATES]))
    state.draw_start(rng)
    for _ in range(8000):
        for _ in range(3):
            state.sweep("pointwise", np.ones(1), beta, power, rng)
        seen[tuple(state.labels[:3].tolist())] += 1
    return float(stats.chisquare([seen[z] for z in STATES], 8000 * p / p.sum()).pvalue)


@pytest.mark.parametrize("fertility", [None, 0.5])
@pytest.mark.parametrize("null", [None, 0.3])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_model_1_visits_links_as_often_as_it_should(fertility: float | None, null: float | None, power: float) -> None:
    assert chi_squared(fertility, null, power) > 1e-4


@pytest.mark.parametrize("fertility", [None, 0.5])
def test_the_log_joint_is_that_of_plain_loops(fertility: float | None) -> None:
    state = LinkState(make(Aligner, null=0.2), BITEXT, fertility)
    turned = LinkState(Aligner.of((TARGET, SOURCE), None, 0.2, source=2, target=2), (TARGET, SOURCE), fertility)
    beta = np.array([0.4, 0.7])
    for z in STATES:
        state.labels = np.array([*z, 0, 0, 0, 0])
        rest = state.log_choices(np.ones(1)) + state.log_emissions(beta)[0]
        state.labels = np.array([0, 0, 0, 0, 0, 0, 0])
        none = state.log_choices(np.ones(1)) + state.log_emissions(beta)[0]
        wanted = forward(z, 0.4, 0.2, fertility) - forward((0, 0, 0), 0.4, 0.2, fertility)
        assert rest - none == pytest.approx(wanted, abs=1e-11)
        # The other direction of the turned text is the same model.
        turned.labels = np.array([0, 0, 0, 0, *z])
        assert turned.log_emissions(beta[::-1])[1] == pytest.approx(_emissions(state, z, beta)[0], abs=1e-12)


def _emissions(state: LinkState, z: Any, beta: np.ndarray) -> np.ndarray:
    state.labels = np.array([*z, 0, 0, 0, 0])
    return state.log_emissions(beta)


def test_jumps_have_the_probabilities_of_plain_loops() -> None:
    state = JumpState(make(HMMAligner), BITEXT)
    rng = np.random.default_rng(1)
    drawn = rng.dirichlet(np.ones(11), 3) * state._supports["jump_forward"]
    table = drawn / drawn.sum(-1, keepdims=True)
    state.extra = {**state.extra, "jump_forward": table}
    for z in STATES:
        state.labels = np.array([*z, 0, 0, 0, 0])
        n = state._places[0].count(state._both[0])
        w = state._weights[0]
        found = float((n[n > 0] * np.log(w[n > 0])).sum())
        assert found == pytest.approx(log(jumps(z, table)), abs=1e-12)


def chi_squared_by_jumps(fertility: float | None, null: float | str, kept: int = 3000) -> tuple[float, Any, Any]:
    """p of the links after some sweeps by jumps; the mean of some cells of the tables of jumps, and what it should be.

    Tables are integrated by so many draws from their prior that their noise does not matter.
    """
    state, rng = JumpState(make(HMMAligner, null=null), BITEXT, fertility), np.random.default_rng(5)
    draws, alpha, beta = 40_000, np.full(len(state.tables[0]), 0.8), np.array([0.4, 0.7])
    support = state._supports["jump_forward"]
    table = np.zeros((draws, 3, 11))
    for kind in range(3):
        table[:, kind, support[kind]] = rng.dirichlet(np.full(int(support[kind].sum()), 0.8), draws)
    p = []
    for z in STATES:
        links = sum(x > 0 for x in z)
        choices = np.exp(rows([3 - links, links], 0.8)) if null == "learn" else 0.3 ** (3 - links) * 0.7**links
        even = np.exp(forward(z, 0.4, None, fertility)) * 27
        p.append(even * choices * np.mean(jumps(z, table)))
    seen: Counter[Any] = Counter()
    state.draw_start(rng)
    values = []
    for _ in range(kept):
        for _ in range(2):
            state.sweep("pointwise", alpha, beta, 1.0, rng)
        seen[tuple(state.labels[:3].tolist())] += 1
        values.append(state.extra["jump_forward"][1, 4:7])
    wanted = np.array(p) / sum(p)
    # What is left of the tables, given the data: their prior, weighed by how likely they make all links.
    by_links = np.array([jumps(z, table) * q / np.mean(jumps(z, table)) for z, q in zip(STATES, wanted, strict=True)])
    mean = (by_links.sum(0)[:, None] * table[:, 1, 4:7]).mean(0)
    return float(stats.chisquare([seen[z] for z in STATES], kept * wanted).pvalue), np.mean(values, 0), mean


@pytest.mark.parametrize(
    ("fertility", "null"),
    [
        (0.5, "learn"),
        pytest.param(None, 0.3, marks=pytest.mark.deep),
        pytest.param(None, "learn", marks=pytest.mark.deep),
    ],
)
def test_links_and_tables_of_jumps_together(fertility: float | None, null: float | str) -> None:
    p, found, wanted = chi_squared_by_jumps(fertility, null)
    assert p > 1e-4
    np.testing.assert_allclose(found, wanted, atol=0.02)


# -- planted faults


def with_fault(right: str, wrong: str) -> Any:
    """The sweep, compiled anew with something in it replaced."""
    source = inspect.getsource(getattr(gibbs_links.sweep, "py_func", gibbs_links.sweep))
    assert right in source
    names = dict(vars(gibbs_links))
    exec("from __future__ import annotations\n" + source.replace("@compiled", "").replace(right, wrong), names)
    return njit(names["sweep"])


@pytest.mark.parametrize("null", [None, 0.3])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(fertile[r, k] - 1 + a)", "(fertile[r, k] + a)"),  # the place itself is among those counted
        pytest.param("(fertile[r, k + 1] + a)", "(fertile[r, k] + a)", marks=pytest.mark.deep),
    ],
)
def test_the_test_notices_a_fault_in_fertility(
    right: str, wrong: str, null: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gibbs_links, "sweep", with_fault(right, wrong))
    assert chi_squared(0.5, null) < 1e-10
    assert chi_squared(None, null) > 1e-4  # it is in fertility alone


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (" * jumps[length[b], i, ahead[t]]", ""),  # the jump that comes next is left out
        pytest.param("w *= jumps[length[b], before, ahead[t]]", "pass", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("fertility", [0.5, pytest.param(None, marks=pytest.mark.deep)])
def test_the_test_notices_a_fault_in_jumps(
    right: str, wrong: str, fertility: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gibbs_links, "sweep", with_fault(right, wrong))
    assert chi_squared_by_jumps(fertility, "learn", kept=1000)[0] < 1e-10


def test_jumps_in_vain_make_tables_right() -> None:
    """Given links, tables are their prior, weighed by how likely they make the jumps."""
    state, rng = JumpState(make(HMMAligner), BITEXT), np.random.default_rng(2)
    links, support = (2, 2, 1), state._supports["jump_forward"]
    state.labels = np.array([*links, 0, 0, 0, 0])
    table, alpha = np.zeros((100_000, 3, 11)), np.full(2, 0.8)
    for kind in range(3):
        table[:, kind, support[kind]] = rng.dirichlet(np.full(int(support[kind].sum()), 0.8), len(table))
    p = jumps(links, table)
    mean = (p[:, None, None] * table).mean(0) / p.mean()
    values = []
    for _ in range(2500):
        state.draw_jumps(alpha, rng)
        values.append(state.extra["jump_forward"])
    np.testing.assert_allclose(np.mean(values, 0), mean, atol=0.02)
    # Without those in vain, it would be that of the jumps that stayed: far off.
    alone = np.where(support, alpha[0], 0.0)
    alone[0, 5 + 2] += 1
    assert np.abs(alone[0] / alone[0].sum() - mean[0]).max() > 0.03


def test_counts_are_those_of_the_tables() -> None:
    text = pu.data.toy.bitext(30, seed=4)
    model = Aligner.of(text, agreement=None)
    state, rng = LinkState(model, text, 0.5), np.random.default_rng(0)
    state.draw_start(rng)
    for _ in range(3):
        state.sweep("pointwise", np.ones(1), np.full(2, 0.1), 1.0, rng)
    kept = [(way.n.copy(), way.totals.copy(), way.links.copy(), way.fertile.copy()) for way in state._both]
    state.labels = state.labels  # counted anew
    for way, before in zip(state._both, kept, strict=True):
        for now, then in zip((way.n, way.totals, way.links, way.fertile), before, strict=True):
            assert (now == then).all()
    counts = state.table_counts()
    for name, declaration in model.declarations().items():
        assert counts[name].shape == declaration.layout.shape
        assert counts[name].sum() == (text.target if name.endswith("forward") else text.source).tokens
    met = zip(np.repeat(np.arange(model.source_words), model.lexicon.sizes), model.lexicon.met.tolist(), strict=True)
    by_target = sorted(((f, int(e)) for e, f in met))
    wanted: Counter[Any] = Counter()
    at = text.target.tokens
    for b in range(len(text)):
        e, f = (side.select([b]).words.tolist() for side in (text.source, text.target))
        wanted.update((f[j - 1], w) for w, j in zip(e, state.labels[at : at + len(e)], strict=True) if j)
        at += len(e)
    assert counts["translation_backward"][: len(by_target)].tolist() == [wanted[pair] for pair in by_target]


@pytest.mark.parametrize("null", ["learn", 0.2])
def test_tables_of_jumps_are_kept_with_the_draws(null: Any, tmp_path: Path) -> None:
    text = pu.data.toy.bitext(12, seed=1)
    model = HMMAligner.of(text, agreement=None, null=null)
    kernel = pu.CollapsedGibbs(model, alpha=0.5, fertility=0.5)
    told: Any = {"sweeps": 12, "burn_in": 4, "thin": 2, "chains": 2, "parallel": 1, "progress": False}
    samples = kernel.run(text, **told)
    names = ["jump_forward", "jump_backward", *(["null_forward", "null_backward"] if null == "learn" else [])]
    assert [*samples.draws] == ["labels", "alpha", "beta", *names]
    for name in names:
        layout = model.declarations()[name].layout
        assert samples.draws[name].shape == (2, 4, *layout.shape)
        np.testing.assert_allclose(samples.draws[name].sum(-1), 1)
        assert len(np.unique(samples.draws[name][..., -1])) > 4  # they move
    # A chain that is made again step by step has the same tables beside the same labels.
    walk = kernel._begin(text, 12, 0)
    for sweep in range(12):
        walk.step()
        if sweep in samples.kept:
            k = samples.kept.tolist().index(sweep)
            np.testing.assert_array_equal(walk.state.labels, samples.labels[0, k])
            for name in names:
                np.testing.assert_array_equal(walk.state.extra[name], samples.draws[name][0, k])  # type: ignore[attr-defined]
    # Interrupted, and resumed to the same bits.
    stop = [lambda found: (found.chain, found.sweep) == (1, 7)]
    with pytest.raises(KeyboardInterrupt):
        kernel.run(text, **told, checkpoint=tmp_path / "c", callbacks=stop)  # type: ignore[arg-type]
    again = kernel.run(text, **told, checkpoint=tmp_path / "c", resume=True)
    samples.save(tmp_path / "s")
    for other in (again, pu.Samples.load(tmp_path / "s")):
        assert other.draws.keys() == samples.draws.keys()
        for name, x in samples.draws.items():
            np.testing.assert_array_equal(other.draws[name], x)


@pytest.mark.parametrize("kind", [Aligner, HMMAligner])
def test_samples_of_links_go_to_arviz(kind: type[Aligner], tmp_path: Path) -> None:
    text = pu.data.toy.bitext(12, seed=1)
    model = kind.of(text, agreement=None, prior=0.3)
    pu.CollapsedGibbs(model).run(text, sweeps=12, burn_in=8, chains=2, progress=False).save(tmp_path / "s")
    samples = pu.Samples.load(tmp_path / "s")
    found = pu.to_arviz(samples, text, groups="all", prior_size=4)
    tables = model.declarations()
    assert {*tables} <= {*found.posterior} == {*found.posterior, *found.prior}
    for name in samples.draws.keys() & tables.keys():
        np.testing.assert_allclose(found.posterior[name], samples.draws[name], rtol=1e-12)  # it went through logs
    assert found.log_likelihood["forward_backward"].shape == (2, 4, 12)
    assert found.posterior_predictive["target"].shape == (2, 4, text.target.tokens)
    for name in tables:
        assert found.prior[name].shape == (1, 4, *tables[name].layout.shape)
    # The likelihood is that of the tables.
    weights = {name: torch.from_numpy(np.array(found.posterior[name][1, 2])).log() for name in tables}
    under = pu.EM(model, init=pu.init.from_weights(weights)).run(text, iterations=0, progress=False)
    assert float(found.log_likelihood["forward_backward"][1, 2].sum()) == pytest.approx(
        under.log_likelihood(text), rel=1e-6
    )
    only = pu.to_arviz(samples, text, groups=["posterior", "observed_data"])
    np.testing.assert_array_equal(only.posterior["translation_forward"], found.posterior["translation_forward"])
    np.testing.assert_array_equal(only.observed_data["target"], text.target.words)


def test_samples_without_their_tables_of_jumps(tmp_path: Path) -> None:
    text = pu.data.toy.bitext(12, seed=1)
    model = HMMAligner.of(text, agreement=None)
    samples = pu.CollapsedGibbs(model).run(text, sweeps=6, chains=2, progress=False)
    kept = {name: x for name, x in samples.draws.items() if name in ("labels", "alpha", "beta")}
    with pytest.raises(pu.UnsupError, match="the samples do not hold the tables jump_forward, jump_backward"):
        pu.to_arviz(replace(samples, draws=kept), text)
    wrong = [
        ({"jump_forward": samples.draws["jump_forward"]}, "expected the tables"),
        ({**samples.draws, "other": samples.draws["alpha"]}, "expected the tables"),
        ({**samples.draws, "jump_forward": samples.draws["jump_forward"][..., 1:]}, "jump_forward: expected shape"),
        ({**samples.draws, "jump_forward": -samples.draws["jump_forward"]}, "jump_forward: expected probabilities"),
    ]
    for k, (draws, what) in enumerate(wrong):
        replace(samples, draws={**kept, **draws}).save(tmp_path / str(k))
        with pytest.raises(InputError, match=what):
            pu.Samples.load(tmp_path / str(k))
    mcmc = MCMC(pu.CollapsedGibbs(model), num_samples=4, warmup_steps=2, disable_progbar=True)
    mcmc.run(text)
    with pytest.raises(pu.UnsupError, match=r"keep_tables=True"):
        pu.to_arviz(mcmc, text)
    kernel = pu.CollapsedGibbs(model, keep_tables=True)
    mcmc = MCMC(kernel, num_samples=4, warmup_steps=2, disable_progbar=True)
    mcmc.run(text)
    assert pu.to_arviz(mcmc, text).posterior["jump_forward"].shape == (1, 4, 3, 11)


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(StructureError, match="agreement=None, actual 'product'"):
        pu.CollapsedGibbs(Aligner.of(BITEXT, source=2, target=2)).run(BITEXT, sweeps=2, progress=False)
    with pytest.raises(StructureError, match="null_words='learn'"):
        pu.CollapsedGibbs(make(HMMAligner, null_words="uniform")).run(BITEXT, sweeps=2, progress=False)
    with pytest.raises(FitError, match="of which a Tagger knows nothing"):
        pu.CollapsedGibbs(Tagger(2, 2), fertility=0.5)
    with pytest.raises(FitError, match="fertility must be a number, positive and finite, actual 0"):
        pu.CollapsedGibbs(make(Aligner), fertility=0)
    state = LinkState(make(Aligner), BITEXT)
    with pytest.raises(StructureError, match=r"word 2 chose place 3, expected 0 \(no word\) to 2"):
        state.labels = np.array([0, 0, 3, 0, 0, 0, 0])
    with pytest.raises(StructureError, match="expected 7 places"):
        state.labels = np.zeros(3, np.int64)


def test_samples_of_links_are_scored() -> None:
    text = pu.data.toy.bitext(150, seed=3)
    model = HMMAligner.of(text, agreement=None, null=0.1)
    samples = pu.CollapsedGibbs(model, beta=0.01, fertility=0.5).run(text, sweeps=60, progress=False)
    assert samples.evaluate(text)["aer"]["mean"] < 0.35
    with pytest.raises(pu.UnsupError, match="not the one that was sampled"):
        samples.evaluate(text.select([0, 1]))
    alone = pu.CollapsedGibbs(Aligner.of(text, agreement=None), beta=0.01).run(text, sweeps=20, progress=False)
    assert alone.probabilities().shape == (text.source.tokens + text.target.tokens, alone.K)
