"""The direct gradient: its formula, its end points, its steps, and going on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, FitError, Gradient, LogLinear, Template, same
from pyro_unsup.models import Aligner, Tagger

from ..results.cases import assert_same
from .feature_cases import BITEXT, CASES, CORPUS

cases = pytest.mark.parametrize(("model", "data", "templates"), CASES.values(), ids=CASES)
QUIET = {"progress": False, "tolerance": 0.0}


def objective(engine: Gradient, state: Any, w: Tensor) -> float:
    return engine._evaluate(state, w.numpy()).value


@cases
def test_the_gradient_is_that_of_the_log_marginal(model: Any, data: Any, templates: list[Template]) -> None:
    """Against autograd through tables and structure (1e-8), and finite differences of the objective (1e-5)."""
    how = LogLinear(templates, kappa=0.3, start=0.3)
    engine = Gradient(model, how)
    state: Any = engine.init(data)
    found = engine.gradient(state)["features"]
    w = state.memory["features"].clone().requires_grad_()
    features = how.features(state.problem.declarations)
    with pu.handlers.GivenMessenger({name: features.table(name, w) for name in features.tables}):
        log_p = pyro.poutine.trace(model).get_trace(data).log_prob_sum()
    (expected,) = torch.autograd.grad(log_p - 0.3 * w @ w, w)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    w = w.detach()
    for i in torch.randperm(len(w))[:5].tolist():
        step = torch.zeros_like(w)
        step[i] = 1e-5
        slope = (objective(engine, state, w + step) - objective(engine, state, w - step)) / 2e-5
        assert slope == pytest.approx(float(found[i]), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["tagger", "dictionary", "aligner"])
def test_basic_features_without_a_prior_end_where_em_stands_still(name: str) -> None:
    model, data, _ = CASES[name]
    model = Tagger(2, CORPUS.vocab) if name == "tagger" else model
    few = CORPUS.select(range(6)) if name != "aligner" else data
    engine = Gradient(model, LogLinear(start=0.5))
    fit = engine.run(few, iterations=3000, seed=1, **QUIET)
    end: Any = engine.load_state(engine.init(few), fit)  # type: ignore[arg-type]
    assert float(engine.gradient(end)["features"].abs().max()) < 1e-6
    em = EM(model, init=pu.init.from_weights(fit))
    state = em.init(few)
    _, counted = em.e_step(state)
    state = em.m_step(state, counted)
    for table, w in fit.weights.items():
        layout = model.declarations()[table].layout
        visited = layout.spread(layout.row_sum(counted.counts[table]) > 1e-6)  # a state may have died out
        assert bool(visited.any())
        torch.testing.assert_close(state.weights[table].exp() * visited, w.exp() * visited, rtol=0, atol=1e-5)


@cases
def test_every_step_goes_up_and_its_cost_is_told(model: Any, data: Any, templates: list[Template]) -> None:
    calls = 0
    engine = Gradient(model, LogLinear(templates, kappa=0.1))
    evaluate = engine._evaluate

    def counting(state: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return evaluate(state, x)

    engine._evaluate = counting  # type: ignore[method-assign]
    fit = engine.run(data, iterations=8, **QUIET)
    rises = np.diff(fit.history.objective)
    assert (rises > 0).all()
    assert len(rises) == 8
    assert fit.history.evaluations.tolist()[0] == 1
    assert int(fit.history.evaluations.iloc[-1]) == calls == fit.config["evaluations"]
    assert calls <= 8 * 3
    w = fit.memory["features"]
    assert fit.objective == pytest.approx(fit.log_likelihood(data) - 0.1 * float(w @ w), rel=1e-10)
    assert fit.history.log_likelihood.iloc[-1] == pytest.approx(fit.log_likelihood(data), rel=1e-10)
    tables = engine.init(data).problem.estimation.tables(fit.memory, torch.float64)
    assert all(torch.equal(tables[name], fit.weights[name]) for name in tables)


@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "from disk"])
def test_going_on_is_as_if_it_had_never_stopped(saved: bool, tmp_path: Path) -> None:
    model, data, templates = CASES["tagger"]

    def engine() -> Gradient:
        return Gradient(model, LogLinear(templates, kappa=0.2), history=3)

    whole = engine().run(data, iterations=14, seed=5, **QUIET)
    half = engine().run(data, iterations=7, seed=5, checkpoint=tmp_path / "fit", **QUIET)
    if saved:
        half = pu.load(tmp_path / "fit")
    rest = engine().run(data, iterations=14, resume=half, **QUIET)
    assert_same(rest, whole, seconds=False)
    assert torch.equal(rest.memory["features"], whole.memory["features"])
    assert rest.history.evaluations.tolist() == whole.history.evaluations.tolist()
    assert rest.state.keys() == whole.state.keys()
    assert all(torch.equal(x, whole.state[key]) for key, x in rest.state.items())


def test_a_resumed_run_goes_on_and_other_data_begin_a_new_history() -> None:
    model, data, templates = CASES["tagger"]
    engine = Gradient(model, LogLinear(templates, kappa=0.2))
    first = engine.run(data, iterations=5, **QUIET)
    second = engine.run(data, iterations=10, resume=first, **QUIET)
    straight = Gradient(model, LogLinear(templates, kappa=0.2)).run(data, iterations=10, **QUIET)
    assert second.report.iterations == 10
    assert second.objective == straight.objective > first.objective
    session = engine.session()
    for _ in range(3):
        session.step(data)
    assert session.state.steps
    session.start(data.select(range(5)))
    assert not session.state.steps


def test_after_em_it_goes_on_from_the_same_weights() -> None:
    model, data, templates = CASES["tagger"]
    how = LogLinear(templates, kappa=0.2)
    em = EM(model, how).run(data, iterations=3, **QUIET)
    fit = Gradient(model, how).run(data, iterations=6, resume=em, **QUIET)
    assert fit.rows[3]["objective"] == pytest.approx(em.objective, rel=1e-12)
    assert fit.objective > em.objective


def test_restarts_keep_the_best() -> None:
    model, data, templates = CASES["clusterer"]
    fit = Gradient(model, LogLinear(templates, kappa=0.1)).run(data, iterations=4, restarts=3, processes=1, **QUIET)
    assert fit.objective == max(fit.report.restarts)
    assert len(set(fit.report.restarts)) == 3


def test_where_no_step_leads_up_it_has_converged() -> None:
    engine = Gradient(Tagger(1, 2), LogLinear(kappa=1.0))
    fit = engine.run([[0, 1], [1]], iterations=200, **QUIET)
    assert fit.report.converged
    assert fit.report.iterations < 200
    end: Any = engine.load_state(engine.init([[0, 1], [1]]), fit)  # type: ignore[arg-type]
    assert float(engine.gradient(end)["features"].abs().max()) < 1e-7


def test_one_estimator_for_each_table_or_the_same_for_two() -> None:
    model, data, templates = CASES["tagger"]
    how = LogLinear(templates, kappa=0.5)
    apart = Gradient(model, {"emission": how}).run(data, iterations=2, **QUIET)
    assert sorted(apart.memory) == ["emission.features", "start.features"]
    assert sorted(apart.features["start.features"].tables) == ["start", "transition"]
    assert apart.top_features("transition", 3).columns.tolist() == ["template", "previous", "tag", "weight"]
    together = Gradient(model, dict.fromkeys(("emission", "start", "transition"), how)).run(data, iterations=2, **QUIET)
    assert list(together.memory) == ["features"]


def test_tempered_models_and_single_precision() -> None:
    model, data, templates = CASES["tagger"]
    fit = Gradient(pu.temper(model, 0.5), LogLinear(templates, kappa=0.1)).run(data, iterations=5, **QUIET)
    assert (np.diff(fit.history.objective) > 0).all()
    single = Gradient(model, LogLinear(templates, kappa=0.1), dtype=torch.float32)
    found = single.run(data, iterations=5, seed=2, **QUIET)
    assert found.weights["emission"].dtype == torch.float32
    double = Gradient(model, LogLinear(templates, kappa=0.1)).run(data, iterations=5, seed=2, **QUIET)
    assert found.objective == pytest.approx(double.objective, rel=1e-4)


def test_enumerated_models_of_ones_own() -> None:
    def mixture(x: Tensor) -> None:
        share = pu.table("share", 2, axes={"kind": 2})
        words = pu.table("words", 2, 3, axes={"kind": 2, "word": ["a", "ab", "b"]})
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", pu.Categorical(words[z]), obs=x)

    how = LogLinear([Template("words", "b", kind=same, word=lambda word: "b" in word)], kappa=0.1)
    fit = Gradient(mixture, how).run(torch.tensor([0, 0, 1, 2, 2]), iterations=20, **QUIET)
    ab, b = fit.weights["words"][:, 1], fit.weights["words"][:, 2]
    torch.testing.assert_close(ab, b)  # what features do not tell apart


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (
            lambda: Gradient(Tagger(2, 3), pu.AddLambda(0.1)),
            "Gradient climbs in the weights of LogLinear and Neural tables",
        ),
        (lambda: Gradient(Tagger(2, 3), {"emission": pu.AddLambda(0.1)}), "table 'emission' has AddLambda.*: use EM"),
        (lambda: Gradient(Tagger(2, 3), {"emit": LogLinear()}), "estimate names tables that the model does not have"),
        (
            lambda: Gradient(Tagger(2, 3), init=pu.init.noise(1.0)),
            "init has no effect, for features and networks begin",
        ),
    ],
)
def test_models_and_settings_that_it_is_not_for(engine: Any, message: str) -> None:
    with pytest.raises(FitError, match=message):
        engine().run([[0, 1, 2]], progress=False)


def test_other_refusals() -> None:
    with pytest.raises(FitError, match="history must be a whole number, 1 or more, actual 0"):
        Gradient(Tagger(2, 3), history=0)
    heuristic = Aligner.of(BITEXT, agreement="product", source=3, target=3)
    with pytest.raises(FitError, match="the counts of this model are a heuristic, not the gradient of its objective"):
        Gradient(heuristic).run(BITEXT, progress=False)


def test_weights_that_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.estimate.features.log_linear.LARGEST", 3.0)
    with pytest.raises(FitError, match=r"iteration \d+: the weights of features diverge: .*raise kappa, actual 0"):
        Gradient(Tagger(2, 3)).run([[0, 1], [0, 0, 0]], iterations=200, **QUIET)
