"""Mixtures of constrained posteriors: against enumeration, against EM, and what they leave behind."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import MixtureEM
from pyro_unsup import components as c
from pyro_unsup.distributions.parts import Arcs
from pyro_unsup.models import DMV

from ..handlers.test_constrain import CHECKS, MODELS, SENTENCES, TAGS, enumerated
from ..results.cases import assert_same

KNOWN = [c.right_attach(), c.verb_as_root("VB"), c.short_dependencies(limit=1)]
ESTIMATES = [
    pu.AddLambda(0.1),
    pu.DirichletVB(0.5),
    pu.EmpiricalDirichlet(),
    pu.LogisticNormal(strict=True),
    pu.LogisticNormal(covariance="full", strict=True),
    pu.LogLinear(kappa=0.1),
]


def mixture(estimate: Any = None, **settings: Any) -> MixtureEM:
    return MixtureEM(DMV(TAGS), KNOWN, pu.AddLambda(0.1) if estimate is None else estimate, **settings)


def test_counts_are_those_of_filtered_trees_weighed_by_the_coefficients() -> None:
    allowed = [lambda heads, tags: True, CHECKS[0][1], CHECKS[1][1]]
    engine = MixtureEM(
        DMV(TAGS), [CHECKS[0][0], CHECKS[1][0]], pu.AddLambda(0.1), polytope=pu.schedules.fixed(0.7, even=True)
    )
    state = engine.init(SENTENCES)
    for _ in range(3):
        each = [enumerated(state.weights, one) for one in allowed]
        info, expected = engine.e_step(state)
        log_z = [math.fsum(totals) for totals, _ in each]
        prior = state.log_prior()
        shares = [0.7, 0.15, 0.15]
        assert state.coefficients == pytest.approx(shares)  # type: ignore[attr-defined]
        assert info.objective == pytest.approx(sum(s * z for s, z in zip(shares, log_z, strict=True)) + prior)
        assert info.log_likelihood == pytest.approx(log_z[0])
        assert log_z[0] > max(log_z[1:])
        for name, found in expected.mixed.counts.items():
            right = sum(share * counts[name] for share, (_, counts) in zip(shares, each, strict=True))
            torch.testing.assert_close(found, right, rtol=1e-8, atol=1e-10)
        state = engine.m_step(state, expected)


@pytest.mark.parametrize("estimate", ESTIMATES, ids=repr)
def test_left_alone_it_is_em(estimate: Any) -> None:
    start = {} if isinstance(estimate, pu.LogLinear) else {"init": pu.init.noise(0.3)}
    plain = pu.EM(DMV(TAGS), estimate, **start).run(SENTENCES, iterations=5, tolerance=0)
    free = mixture(estimate, polytope=pu.schedules.fixed(1.0), **start).run(SENTENCES, iterations=5, tolerance=0)
    assert free.objective == pytest.approx(plain.objective, rel=1e-12)
    for name, w in plain.weights.items():
        torch.testing.assert_close(free.weights[name], w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("estimate", ESTIMATES, ids=repr)
@pytest.mark.parametrize(
    "polytope",
    [pu.schedules.fixed(0.85), pu.schedules.fixed(0.6, even=True), pu.schedules.Loosen(0.5, 0.9, 0.1)],
    ids=repr,
)
def test_the_bound_never_falls(estimate: Any, polytope: Any, tied: bool) -> None:
    fit = mixture(estimate, polytope=polytope, tied=tied).run(SENTENCES, iterations=12, tolerance=0)
    rows = [row for row in fit.rows if row["objective"] > -math.inf]
    for before, after in itertools.pairwise(rows):
        if before["stage"] == after["stage"] or tied:  # to allow more lowers nothing
            assert after["objective"] >= before["objective"] - 1e-8 * abs(before["objective"])
    assert len({row["stage"] for row in fit.rows}) == (5 if polytope.start < polytope.end else 1)


@pytest.mark.parametrize(("make", "data", "component"), MODELS)
def test_every_model_has_a_mixture(make: Any, data: Any, component: Any, tmp_path: Path) -> None:
    fit = MixtureEM(make(), [component], pu.AddLambda(0.1)).run(data, iterations=4, tolerance=0)
    assert fit.history.lambda_0.tolist() == pytest.approx([0.85, 0.86, 0.87, 0.88, 0.89])
    assert fit.history.log_likelihood.iloc[-1] > fit.history.log_likelihood.iloc[0]
    fit.save(tmp_path / "fit")
    assert_same(pu.load(tmp_path / "fit"), fit)


def test_what_is_known_is_learned() -> None:
    """Counts drawn towards a component make its structures more probable."""
    settings: dict[str, Any] = {"iterations": 10, "tolerance": 0}
    plain = pu.EM(DMV(TAGS), pu.AddLambda(0.1)).run(SENTENCES, **settings)
    drawn = MixtureEM(DMV(TAGS), [c.right_attach()], pu.AddLambda(0.1), polytope=pu.schedules.fixed(0.5))
    right = {}
    for name, fit in (("plain", plain), ("drawn", drawn.run(SENTENCES, **settings))):
        probe = pu.EM(pu.constrain(DMV(TAGS), c.right_attach()), init=pu.init.from_weights(fit))
        right[name] = probe.run(SENTENCES, iterations=0).objective - fit.log_likelihood(SENTENCES)
    assert right["drawn"] > right["plain"] + 1


def test_components_with_their_own_tables_learn_on_their_own() -> None:
    shared: dict[str, Any] = {"iterations": 6, "tolerance": 0}
    fit = mixture(pu.DirichletVB(0.5), polytope=pu.schedules.fixed(0.8), tied=False).run(SENTENCES, **shared)
    alone = [pu.EM(DMV(TAGS), pu.DirichletVB(0.5)).run(SENTENCES, **shared)]
    alone += [pu.EM(pu.constrain(DMV(TAGS), one), pu.DirichletVB(0.5)).run(SENTENCES, **shared) for one in KNOWN]
    for i, one in enumerate(alone):
        mine = fit.weights if i == 0 else {name: fit.state[f"{i}.weights.{name}"] for name in fit.weights}
        for name, w in one.weights.items():
            torch.testing.assert_close(mine[name], w, rtol=0, atol=1e-12)
    best = max(range(1, 4), key=lambda i: alone[i].objective)
    assert fit.state["lambda"].tolist() == pytest.approx([0.8 * (i == 0) + 0.2 * (i == best) for i in range(4)])
    assert fit.objective == pytest.approx(0.8 * alone[0].objective + 0.2 * alone[best].objective)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("estimate", [ESTIMATES[i] for i in (0, 1, 3)], ids=repr)
def test_a_run_resumes_exactly(estimate: Any, tied: bool, tmp_path: Path) -> None:
    def engine() -> MixtureEM:
        return mixture(estimate, polytope=pu.schedules.Loosen(0.5, 0.9, 0.1), tied=tied)

    whole = engine().run(SENTENCES, iterations=8, tolerance=0)
    engine().run(SENTENCES, iterations=3, tolerance=0, checkpoint=tmp_path / "half")
    rest = engine().run(SENTENCES, iterations=8, tolerance=0, resume=pu.load(tmp_path / "half"))
    assert_same(rest, whole, seconds=False)


def test_restarts() -> None:
    fit = mixture().run(SENTENCES, iterations=4, restarts=2, processes=1, tolerance=0)
    alone = [mixture().run(SENTENCES, iterations=4, seed=seed, tolerance=0).objective for seed in (0, 1)]
    assert fit.objective == pytest.approx(max(alone))


def test_sentences_in_which_nothing_is_allowed_are_counted() -> None:
    engine = mixture()
    fit = engine.run(SENTENCES, iterations=1)
    state, _ = engine.step(engine.init(SENTENCES))
    assert engine.fallbacks(state) == {
        "right_attach()": 0,
        "verb_as_root(tags='VB')": 1,
        "short_dependencies(limit=1)": 0,
    }
    assert fit.config["fallbacks"] == [0, 1, 0]


def test_a_component_that_prefers_may_explain_more() -> None:
    """Log-weights above 0 are no mask, so the unconstrained posterior need not be the best."""

    def near(parts: Arcs) -> Tensor:
        return 0.5 * (parts.distance == 1)

    engine = MixtureEM(DMV(TAGS), [near], pu.AddLambda(0.1), polytope=pu.schedules.Loosen(0.9, 0.9))
    fit = engine.run(SENTENCES, iterations=3)
    assert fit.state["lambda"].tolist() == pytest.approx([0.0, 1.0])


def test_components_of_one_name_are_told_apart() -> None:
    engine = MixtureEM(DMV(TAGS), [lambda parts: parts.distance <= 1, lambda parts: parts.distance <= 2])
    assert list(engine.fallbacks(engine.init(SENTENCES))) == ["<lambda>", "<lambda> 2"]


def test_a_schedule_of_ones_own_resumes(tmp_path: Path) -> None:
    class Slowly:
        def __call__(self, iteration: int, size: int) -> pu.Polytope:
            return pu.schedules.fixed(0.5 + 0.01 * iteration, even=True)(0, size)

    whole = mixture(polytope=Slowly()).run(SENTENCES, iterations=5, tolerance=0)
    mixture(polytope=Slowly()).run(SENTENCES, iterations=3, tolerance=0, checkpoint=tmp_path / "half")
    rest = mixture(polytope=Slowly()).run(SENTENCES, iterations=5, tolerance=0, resume=pu.load(tmp_path / "half"))
    assert_same(rest, whole, seconds=False)


def test_one_word_sentences_are_enough_for_priors() -> None:
    for estimate in (pu.DirichletVB(), pu.LogisticNormal(), pu.AddLambda(0.1)):
        fit = MixtureEM(DMV(TAGS), KNOWN[:1], estimate).run([[0], [1], [0]], iterations=3)
        assert fit.predict([[0], [1]]).tolist() == [0, 0]
    with pytest.raises(pu.FitError, match="table 'attach' got no counts at all"):
        MixtureEM(DMV(TAGS), KNOWN[:1]).run([[0], [1], [0]])


def test_stops_only_when_the_polytope_stays() -> None:
    fit = mixture(polytope=pu.schedules.Loosen(0.5, 0.9, 0.1)).run(SENTENCES, iterations=50, tolerance=1e9)
    assert fit.report.iterations == 5  # the first with a change to compare within the last stage
    assert fit.report.reason == "converged"


def enumerated_model(x: Tensor) -> None:
    share = pu.table("share", 2)
    with pyro.plate("data", len(x)):
        k = pyro.sample("k", pu.Categorical(share))
        pyro.sample("x", dist.Normal(k.double(), 1.0), obs=x)


def test_refused() -> None:
    with pytest.raises(pu.FitError, match=r"a mixture has one component or more, functions of parts in a list"):
        MixtureEM(DMV(TAGS), [])
    with pytest.raises(pu.FitError, match="the polytope is one of 3 coefficients, expected 2: one for the unconstr"):
        MixtureEM(DMV(TAGS), KNOWN[:1], polytope=pu.Polytope(3))
    for wrong in (0.85, "x"):
        with pytest.raises(pu.FitError, match=r"polytope is a Polytope or a schedule, such as fixed\(0.9\)"):
            MixtureEM(DMV(TAGS), KNOWN[:1], polytope=wrong)  # type: ignore[arg-type]
    with pytest.raises(pu.FitError, match="tied True or False, actual None and 'no'"):
        MixtureEM(DMV(TAGS), KNOWN[:1], tied="no")  # type: ignore[arg-type]
    with pytest.raises(pu.FitError, match="a schedule of polytopes gives a Polytope for every iteration, actual None"):
        MixtureEM(DMV(TAGS), KNOWN[:1], polytope=lambda iteration, size: None)  # type: ignore[arg-type, return-value]
    empty = pu.Polytope(2, upper=[((1, 0), 0.3), ((0, 1), 0.3)])
    with pytest.raises(pu.FitError, match="the polytope is empty"):
        MixtureEM(DMV(TAGS), KNOWN[:1], polytope=empty).run(SENTENCES)
    with pytest.raises(pu.StructureError, match="a component is a function of the parts"):
        MixtureEM(DMV(TAGS), ["right_attach"])  # type: ignore[list-item]
    with pytest.raises(pu.StructureError, match="found no structured distribution in the model"):
        MixtureEM(enumerated_model, KNOWN[:1]).run(torch.zeros(3))

    def nothing(parts: Arcs) -> Tensor:
        return parts.head < 0

    with pytest.raises(pu.UnsupError, match="the component nothing forbids everything in all examples"):
        MixtureEM(DMV(TAGS), [nothing], pu.AddLambda(0.1)).run(SENTENCES)


def test_another_mixture_does_not_go_on() -> None:
    fit = mixture().run(SENTENCES, iterations=2)
    with pytest.raises(pu.FitError, match=r"was trained with components = \['right_attach.*, here \['right_attach"):
        MixtureEM(DMV(TAGS), KNOWN[:1], pu.AddLambda(0.1)).run(SENTENCES, resume=fit)
    with pytest.raises(pu.FitError, match=r"was trained with polytope = Loosen\("):
        mixture(polytope=pu.schedules.fixed(0.9)).run(SENTENCES, resume=fit)
    plain = pu.EM(DMV(TAGS), pu.AddLambda(0.1)).run(SENTENCES, iterations=2)
    with pytest.raises(pu.FitError, match="was trained with components = None"):
        mixture().run(SENTENCES, resume=plain)


def test_shared_parameters_need_shared_tables() -> None:
    class Scaled(DMV):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            pyro.param("extra", torch.tensor(1.0, dtype=torch.float64))
            return super().__call__(*args, **kwargs)

    with pytest.raises(pu.FitError, match=r"components cannot each have their own \['extra'\], only tables: use tied"):
        MixtureEM(Scaled(TAGS), KNOWN[:1], pu.AddLambda(0.1), tied=False).run(SENTENCES)


def test_steps_as_stock_svi_takes_them() -> None:
    engine = mixture(polytope=pu.schedules.fixed(0.8)).session()
    losses = [engine.step(SENTENCES) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert engine.evaluate_loss(SENTENCES) < losses[-1]
