"""Annealing: what each beta does, how it moves on, and that it is EM at one."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import constraints
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.models import CCM, Tagger

SENTENCES = [[0, 1, 2, 0], [2, 1], [0, 1, 1, 3], [3, 3, 0, 1]]
MASK = torch.tensor([[True, True, False, True], [False, True, True, True]])


def hmm(sentences: list[list[int]]) -> None:
    """Nobody's library model: a tag for each word, enumerated."""
    start, step, emit = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 4)
    for b in pyro.plate("sentences", len(sentences)):
        z: Tensor | None = None
        for t in pyro.markov(range(len(sentences[b]))):
            z = pyro.sample(f"z_{b}_{t}", pu.Categorical(start if z is None else step[z]))
            pyro.sample(f"x_{b}_{t}", pu.Categorical(emit[z]), obs=torch.tensor(sentences[b][t]))


MODELS: dict[str, Callable[[], Any]] = {
    "bigram": lambda: Tagger(2, 4),
    "trigram with a dictionary": lambda: Tagger(2, 4, 2, MASK, stop=True),
    "trees": lambda: CCM.of(SENTENCES, vocab=4),
    "trees given widths": lambda: CCM.of(SENTENCES, vocab=4, variant=2),
    "enumerated": lambda: hmm,
}


@pytest.mark.parametrize("name", MODELS)
def test_at_one_it_is_em_step_by_step(name: str) -> None:
    start = pu.init.noise(1.0)
    plain = pu.EM(MODELS[name](), pu.AddLambda(0.1), start).run(SENTENCES, iterations=15, tolerance=0)
    toward = "split" if name.startswith("trees") else None
    for engine in (
        pu.Anneal(MODELS[name](), pu.AddLambda(0.1), start, schedule=[1.0]),
        pu.Anneal(MODELS[name](), pu.AddLambda(0.1), start, schedule=[1.0], toward=toward or plain),
    ):
        fit = engine.run(SENTENCES, iterations=15, tolerance=0)
        for one, other in zip(fit.rows, plain.rows, strict=True):
            assert one["objective"] == pytest.approx(other["objective"], rel=1e-12)
        for table, w in plain.weights.items():
            torch.testing.assert_close(fit.weights[table], w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_it_climbs_within_each_beta_and_ends_at_one(name: str, skewed: bool) -> None:
    model = MODELS[name]()
    reference: Any = None
    if skewed:
        reference = "split" if name.startswith("trees") else pu.EM(model).run(SENTENCES, iterations=2, seed=9)
    engine = pu.Anneal(model, pu.AddLambda(0.1), schedule=pu.schedules.geometric(0.05, 2), toward=reference)
    fit = engine.run(SENTENCES, tolerance=1e-7)
    assert fit.report.converged
    assert list(dict.fromkeys(row["beta"] for row in fit.rows)) == pu.schedules.geometric(0.05, 2)
    for a, b in itertools.pairwise(fit.rows):
        assert b["beta"] >= a["beta"]
        if a["stage"] == b["stage"]:
            assert b["objective"] >= a["objective"] - 1e-9 * abs(a["objective"])
    em = pu.EM(model, pu.AddLambda(0.1), pu.init.from_weights(fit)).run(SENTENCES, iterations=1, tolerance=0)
    assert em.rows[0]["objective"] == pytest.approx(fit.objective, rel=1e-12)  # at one, it is EM's objective
    assert em.objective == pytest.approx(fit.objective, rel=1e-6)  # and a maximum of it


def test_the_reference_is_left_out_of_the_objective() -> None:
    """F' is (1/beta) log sum q (p/q)^beta, q normalised: near 0 it is the mean of log p / q under q."""
    model = Tagger(2, 4)
    other = pu.EM(model).run(SENTENCES, iterations=0, seed=4)
    beta = 1e-5
    engine = pu.Anneal(model, schedule=[beta, 1.0], toward=other)
    state = engine.init(SENTENCES)
    info, expected = engine.e_step(state)
    posterior = other.posterior(SENTENCES)
    expected = sum(float((posterior.counts[name] * state.weights[name]).sum()) for name in state.weights)
    assert info.objective == pytest.approx(expected + float(posterior.entropy.sum()), rel=1e-4)


def test_near_zero_all_trees_are_alike() -> None:
    sentences = [[0, 1, 2, 0, 1], [2, 2, 1]]
    from pyro_unsup.distributions.bracketing_priors import uniform_marginals

    model = CCM.of(sentences, vocab=3)
    marginals = pu.EM(pu.temper(model, 1e-6)).run(sentences, iterations=0).posterior(sentences).marginals
    torch.testing.assert_close(marginals, uniform_marginals(torch.tensor([5, 3])), rtol=0, atol=1e-4)


def test_a_raise_after_every_step() -> None:
    betas = pu.schedules.geometric(0.01, 1.5)
    fit = pu.Anneal(Tagger(2, 4), schedule=betas, steps=1).run(SENTENCES)
    assert [row["beta"] for row in fit.rows[: len(betas)]] == betas
    assert all(row["beta"] == 1 for row in fit.rows[len(betas) :])
    assert fit.report.converged


def test_early_betas_may_be_content_with_less() -> None:
    betas = pu.schedules.geometric(0.1, 1.5)
    for early in (1e-2, lambda beta: 1e-2 if beta < 0.5 else 1e-9):
        quick = pu.Anneal(Tagger(2, 4), schedule=betas, early=early).run(SENTENCES, tolerance=1e-9)
        slow = pu.Anneal(Tagger(2, 4), schedule=betas).run(SENTENCES, tolerance=1e-9)
        assert quick.report.iterations < slow.report.iterations
        assert quick.report.converged
        assert quick.rows[-1]["change"] <= 1e-9


def test_noise_after_each_raise_breaks_the_tie() -> None:
    """Without noise the point where all tags are alike holds at every beta."""
    stuck = pu.Anneal(Tagger(2, 4), init=pu.init.uniform(), jitter=0.0, schedule=pu.schedules.geometric(0.1, 2)).run(
        SENTENCES
    )
    torch.testing.assert_close(stuck.weights["emission"][0], stuck.weights["emission"][1])
    free = pu.Anneal(Tagger(2, 4), init=pu.init.uniform(), schedule=pu.schedules.geometric(0.1, 2)).run(
        SENTENCES, tolerance=1e-10
    )
    assert free.objective > stuck.objective + 1
    assert not torch.allclose(free.weights["emission"][0], free.weights["emission"][1], atol=1e-2)


def test_quenching_makes_posteriors_certain() -> None:
    betas = pu.schedules.geometric(0.1, 2) + pu.schedules.quench(64, 2)
    fit = pu.Anneal(Tagger(2, 4), pu.AddLambda(0.1), schedule=betas).run(SENTENCES)
    assert fit.rows[-1]["beta"] == 64
    hard = pu.EM(pu.harden(Tagger(2, 4)), pu.AddLambda(0.1), pu.init.from_weights(fit)).run(SENTENCES, iterations=20)
    assert fit.objective == pytest.approx(hard.objective, abs=0.3)


def test_a_run_that_ends_too_soon_says_so() -> None:
    with pytest.warns(UserWarning, match=r"ended at beta = 0.01, before its schedule did \(1\): iteration cap"):
        pu.Anneal(Tagger(2, 4), schedule=pu.schedules.geometric(0.01, 1.5)).run(SENTENCES, iterations=1, tolerance=0)


@pytest.mark.parametrize("stop", [1, 4, 9, 14])
def test_it_resumes_exactly(tmp_path: Path, stop: int) -> None:
    def engine() -> pu.Anneal:
        return pu.Anneal(Tagger(2, 4), schedule=pu.schedules.geometric(0.2, 1.5), steps=3, toward=toward)

    toward = pu.EM(Tagger(2, 4)).run(SENTENCES, iterations=2, seed=7)
    whole = engine().run(SENTENCES, iterations=20, tolerance=0, seed=3)
    with pytest.warns(UserWarning, match="before its schedule did") if stop < 13 else nullcontext():
        engine().run(SENTENCES, iterations=stop, tolerance=0, seed=3, checkpoint=tmp_path / "c")
    fit = engine().run(SENTENCES, iterations=20, tolerance=0, resume=pu.load(tmp_path / "c"))
    for a, b in zip(fit.rows, whole.rows, strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == {k: v for k, v in b.items() if k != "seconds"}
    for name, w in whole.weights.items():
        assert torch.equal(fit.weights[name], w)


def test_another_schedule_does_not_go_on_from_it() -> None:
    with pytest.warns(UserWarning, match="before its schedule did"):
        fit = pu.Anneal(Tagger(2, 4), schedule=[0.2, 0.6, 1.0], steps=2).run(SENTENCES, iterations=3, tolerance=0)
    with pytest.raises(pu.FitError, match=r"is at beta = 0.6, which is not in its place in this schedule"):
        pu.Anneal(Tagger(2, 4), schedule=[0.2, 1.0]).run(SENTENCES, resume=fit)


def test_restarts_are_annealed_too() -> None:
    engine = pu.Anneal(Tagger(2, 4), schedule=pu.schedules.geometric(0.2, 2), jitter=0.01)
    fit = engine.run(SENTENCES, restarts=2, processes=1)
    assert len(fit.report.restarts) == 2
    assert fit.config["engine"] == "Anneal"
    assert fit.config["schedule"] == pu.schedules.geometric(0.2, 2)
    assert {row["beta"] for row in fit.rows} == set(pu.schedules.geometric(0.2, 2))


def test_step_by_step_with_the_manners_of_svi() -> None:
    engine = pu.Anneal(Tagger(2, 4), pu.AddLambda(0.1), schedule=[0.5, 1.0])
    session = engine.session()
    losses = [session.step(SENTENCES) for _ in range(10)]
    assert engine.beta(session.state) == 0.5
    assert losses[-1] <= losses[0]
    session.state = engine.next_stage(session.state)
    session.step(SENTENCES)
    assert engine.beta(session.state) == 1.0
    assert not engine.has_next_stage(session.state)
    with pytest.raises(pu.FitError, match="beta = 1 is the last of the schedule"):
        engine.next_stage(session.state)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"jitter": -1.0}, {"jitter": float("nan")}, {"early": -1.0}, {"early": float("nan")}]
)
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(pu.FitError, match="must be"):
        pu.Anneal(Tagger(2, 4), **wrong)


def test_with_the_settings_as_they_are_it_leaves_the_point_where_all_tags_are_alike() -> None:
    corpus = pu.data.toy.sentences(100, seed=1)
    model = Tagger(6, corpus.vocab)
    alike = pu.EM(model, init=pu.init.uniform()).run(corpus, iterations=3)
    fit = pu.Anneal(model, schedule=pu.schedules.geometric(0.01, 1.5)).run(corpus)
    plain = pu.EM(model).run(corpus, iterations=40)
    assert fit.objective > alike.objective + 0.9 * (plain.objective - alike.objective)


@pytest.mark.parametrize("schedule", [pu.schedules.geometric, 0.5, ["a"]])
def test_what_is_no_schedule(schedule: Any) -> None:
    with pytest.raises(pu.FitError, match="a schedule is a list of betas, such as geometric"):
        pu.Anneal(Tagger(2, 4), schedule=schedule)


def test_a_falling_schedule_is_not_over_before_its_end() -> None:
    with pytest.warns(UserWarning, match="ended at beta = 4"):
        pu.Anneal(Tagger(2, 4), schedule=[4, 2, 1]).run(SENTENCES, iterations=1, tolerance=0)


def test_quenching_leaves_the_reference_behind() -> None:
    other = pu.EM(Tagger(2, 4)).run(SENTENCES, iterations=2, seed=7)
    fits = [
        pu.Anneal(Tagger(2, 4), pu.AddLambda(0.1), pu.init.noise(1.0), schedule=[2.0], toward=toward).run(SENTENCES)
        for toward in (None, other)
    ]
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-12)


def test_components_that_learn_their_own_scales_part_at_the_last_beta() -> None:
    """Below beta = 1 all of them fit all of the data, and noise does not grow from there."""

    def mixture(x: Tensor) -> None:
        share = pu.table("share", 2)
        centre = pyro.param("centre", lambda: torch.tensor([-1.0, 1.0]).double())
        scale = pyro.param("scale", lambda: torch.ones(2).double(), constraint=constraints.positive)
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], scale[k]), obs=x)

    x = torch.cat([torch.randn(40) - 4, torch.randn(40) + 4]).double()
    plain = pu.EM(mixture).run(x, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pu.infer.AlikeStates)
        fit = pu.Anneal(mixture, schedule=[0.3, 0.6, 1.0]).run(x, progress=False)
    assert fit.objective == pytest.approx(plain.objective, rel=1e-4)
    engine = pu.Anneal(mixture, schedule=[0.3, 0.6, 1.0], steps=10)
    whole = engine.run(x, progress=False, iterations=30, tolerance=0.0)
    half = engine.run(x, progress=False, iterations=25, tolerance=0.0)
    again = engine.run(x, progress=False, iterations=30, tolerance=0.0, resume=half)
    assert [row["objective"] for row in again.rows] == [row["objective"] for row in whole.rows]


def test_components_that_are_alike_in_the_end_are_told() -> None:
    def mixture(x: Tensor) -> None:
        share, centre = pu.table("share", 2), pyro.param("centre", lambda: torch.tensor([-1.0, 1.0]).double())
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    with pytest.warns(pu.infer.AlikeStates, match=r"elements of 'centre' have become alike, .* try other starts"):
        pu.Anneal(mixture, schedule=[0.5, 1.0]).run(torch.zeros(20).double(), progress=False)
