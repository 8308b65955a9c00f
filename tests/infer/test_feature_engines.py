"""Engines with log-linear tables: EM's M step, annealing, mini-batches, memory, and fits on disk."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import EM, Anneal, FitError, IncrementalEM, LogLinear, StepwiseEM, Template, UnsupError, same
from pyro_unsup.errors import TableError
from pyro_unsup.models import Tagger

from ..results.cases import assert_same
from .feature_cases import CASES, CORPUS, ends_in

cases = pytest.mark.parametrize(("model", "data", "templates"), CASES.values(), ids=CASES)
QUIET = {"progress": False, "tolerance": 0.0}
ENDING = [Template("emission", "end", tag=same, word=ends_in)]


@cases
def test_em_never_falls(model: Any, data: Any, templates: list[Template]) -> None:
    how = LogLinear(templates, kappa=0.2, lbfgs_iterations=20)
    fit = EM(model, how).run(data, iterations=6, **QUIET)
    assert (np.diff(fit.history.objective) >= 0).all()
    w = fit.memory["features"]
    assert fit.objective == pytest.approx(fit.log_likelihood(data) - 0.2 * float(w @ w), rel=1e-9)


@cases
def test_a_whole_m_step_of_basic_features_is_that_of_plain_em(model: Any, data: Any, templates: list[Template]) -> None:
    init = pu.init.noise(0.5)
    features = EM(model, LogLinear(lbfgs_iterations=1000, fit_start=True), init=init).session(seed=2)
    features.start(data)
    plain = EM(model, init=pu.init.from_weights(features.weights))
    state = plain.init(data)
    info, counted = plain.e_step(state)
    state = plain.m_step(state, counted)
    assert features.step(data) == pytest.approx(-info.objective, rel=1e-12)
    for name, w in state.weights.items():
        layout = model.declarations()[name].layout
        visited = layout.spread(layout.row_sum(counted.counts[name]) > 0)
        expected = layout.normalise(w).exp() * visited
        torch.testing.assert_close(features.weights[name].exp() * visited, expected, rtol=0, atol=1e-5)


def test_some_tables_with_features_and_others_without() -> None:
    model = Tagger(3, CORPUS.vocab)
    how = {"emission": LogLinear(ENDING, kappa=0.1), "start": pu.AddLambda(0.5)}
    fit = EM(model, how).run(CORPUS, iterations=5, **QUIET)
    assert list(fit.memory) == ["features"]
    assert fit.features["features"].tables == ["emission"]
    assert (np.diff(fit.history.objective) >= 0).all()
    assert float(fit.weights["start"].exp().min()) > 0.5 / (25 + 1.5) * 0.99
    counted = len({word[-1] for word in CORPUS.vocab})
    assert len(fit.weights["emission"][0].unique()) == counted


def test_a_prior_holds_weights_back() -> None:
    model = Tagger(3, CORPUS.vocab)
    sizes = [
        float(EM(model, LogLinear(ENDING, kappa)).run(CORPUS, iterations=5, **QUIET).memory["features"].norm())
        for kappa in (0.01, 1.0, 100.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


@cases
def test_annealing(model: Any, data: Any, templates: list[Template]) -> None:
    schedule = [0.3, 0.6, 1.0]
    engine = Anneal(
        model, LogLinear(templates, kappa=0.1, lbfgs_iterations=10), schedule=schedule, steps=2, jitter=0.05
    )
    fit = engine.run(data, iterations=9, progress=False)
    assert fit.history.beta.unique().tolist() == schedule
    for _, rows in fit.history.groupby("beta"):
        assert (np.diff(rows.objective) >= -1e-9).all()
    tables = engine.init(data).problem.estimation.tables(fit.memory, torch.float64)
    assert all(torch.equal(tables[name], fit.weights[name]) for name in tables)


def test_annealing_goes_on_bit_for_bit() -> None:
    def engine() -> Anneal:
        return Anneal(Tagger(3, CORPUS.vocab), LogLinear(ENDING, kappa=0.1), schedule=[0.3, 1.0], steps=2)

    whole = engine().run(CORPUS, iterations=6, seed=3, **QUIET)
    with pytest.warns(UserWarning, match="annealing ended at beta"):
        half = engine().run(CORPUS, iterations=1, seed=3, **QUIET)
    rest = engine().run(CORPUS, iterations=6, resume=half, **QUIET)
    assert_same(rest, whole, seconds=False)
    assert torch.equal(rest.memory["features"], whole.memory["features"])


@pytest.mark.parametrize("name", ["tagger", "dictionary", "segmenter", "aligner"])
def test_stepwise_em(name: str) -> None:
    model, data, templates = CASES[name]
    engine = StepwiseEM(model, LogLinear(templates, kappa=0.1), batch_size=2, exact=True)
    fit = engine.run(data, iterations=4, **QUIET)
    assert fit.objective > fit.rows[0]["objective"]
    tables = engine.init(data).problem.estimation.tables(fit.memory, torch.float64)
    assert all(torch.equal(tables[table], fit.weights[table]) for table in tables)
    assert fit.objective == pytest.approx(
        fit.log_likelihood(data) - 0.1 * float(fit.memory["features"] @ fit.memory["features"]), rel=1e-9
    )


def test_a_mini_batch_of_all_with_step_one_is_an_m_step_of_em() -> None:
    """With step size one the running counts are those of the batch."""
    model, data, templates = CASES["dictionary"]
    how = LogLinear(templates, kappa=0.5, lbfgs_iterations=3)
    engine = StepwiseEM(model, how, batch_size=len(data), schedule=lambda k: 1.0)
    online = engine.run(data, iterations=1, seed=4, **QUIET)
    batch = EM(model, LogLinear(templates, kappa=0.5, lbfgs_iterations=3)).run(data, iterations=1, seed=4, **QUIET)
    torch.testing.assert_close(online.memory["features"], batch.memory["features"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["stepwise", "incremental"])
def test_mini_batches_go_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model, data, templates = CASES["dictionary"]

    def engine() -> Any:
        how = LogLinear(templates, kappa=0.2)
        return (StepwiseEM if kind == "stepwise" else IncrementalEM)(model, how, batch_size=5)

    whole = engine().run(data, iterations=4, seed=3, **QUIET)
    engine().run(data, iterations=2, seed=3, checkpoint=tmp_path / "fit", **QUIET)
    rest = engine().run(data, iterations=4, resume=pu.load(tmp_path / "fit"), **QUIET)
    assert_same(rest, whole, seconds=False)
    assert torch.equal(rest.memory["features"], whole.memory["features"])


@pytest.mark.parametrize("name", ["tagger", "segmenter"])
def test_incremental_em_raises_its_bound(name: str) -> None:
    model, data, templates = CASES[name]
    engine = IncrementalEM(model, LogLinear(templates, kappa=0.3), batch_size=4)
    fit = engine.run(data, iterations=4, **QUIET)
    assert (np.diff(fit.history.objective) >= 0).all()
    w = fit.memory["features"]
    assert fit.objective <= fit.log_likelihood(data) - 0.3 * float(w @ w) + 1e-9


def test_streams() -> None:
    engine = StepwiseEM(Tagger(3, CORPUS.vocab), LogLinear(ENDING, kappa=0.1))
    fit = engine.run_stream((CORPUS.select([i, i + 1]) for i in range(8)), progress=False)
    assert fit.top_features("emission", 3).columns.tolist() == ["template", "tag", "word", "weight"]
    assert math.isfinite(fit.objective)


@cases
def test_a_fit_on_disk_knows_its_features(model: Any, data: Any, templates: list[Template], tmp_path: Path) -> None:
    fit = EM(model, LogLinear(templates, kappa=0.2, lbfgs_iterations=5)).run(data, iterations=2, **QUIET)
    fit.save(tmp_path / "fit")
    again = pu.load(tmp_path / "fit")
    assert_same(again, fit)
    assert torch.equal(again.memory["features"], fit.memory["features"])
    for table in model.declarations():
        assert again.top_features(table, 10).equals(fit.top_features(table, 10))
    assert [p.name for p in (tmp_path / "fit").iterdir() if p.suffix not in (".json", ".safetensors")] == []
    rest = EM(model, LogLinear(templates, kappa=0.2, lbfgs_iterations=5)).run(data, iterations=4, resume=again, **QUIET)
    whole = EM(model, LogLinear(templates, kappa=0.2, lbfgs_iterations=5)).run(data, iterations=4, **QUIET)
    assert_same(rest, whole, seconds=False)


def test_going_on_takes_the_same_templates() -> None:
    model = Tagger(3, CORPUS.vocab)
    fit = EM(model, LogLinear(ENDING)).run(CORPUS, iterations=1, **QUIET)
    other = [Template("emission", "end", tag=same, word=len)]
    with pytest.raises(FitError, match="trained with other features: template 'end' of table 'emission' has other"):
        EM(model, LogLinear(other)).run(CORPUS, iterations=2, resume=fit, **QUIET)
    more = [*ENDING, Template("emission", "len", word=len)]
    with pytest.raises(FitError, match=r"it has no template 'len' of table 'emission'. Resume with the templates"):
        EM(model, LogLinear(more)).run(CORPUS, iterations=2, resume=fit, **QUIET)
    plain = EM(model).run(CORPUS, iterations=1, **QUIET)
    with pytest.raises(FitError, match=r"has no 'features' in its memory, which has \[\]: it was trained with other"):
        EM(model, LogLinear(ENDING)).run(CORPUS, iterations=2, resume=plain, **QUIET)
    # The way that this says.
    near = EM(model, LogLinear(fit_start=True), init=pu.init.from_weights(plain)).run(CORPUS, iterations=0, **QUIET)
    assert near.objective == pytest.approx(plain.objective, rel=1e-3)
    # Without features any fit will do, and what it remembers is left alone.
    assert EM(model).run(CORPUS, iterations=2, resume=fit, **QUIET).memory == {}


def test_an_init_that_nothing_would_come_of() -> None:
    with pytest.raises(FitError, match=r"init has no effect, .*: leave it out, or fit the weights to it"):
        EM(Tagger(2, 3), LogLinear(), init=pu.init.uniform()).run([[0, 1]], progress=False)
    mixed = EM(Tagger(2, 3), {"emission": LogLinear()}, init=pu.init.noise(0.1))  # other tables do start there
    assert mixed.run([[0, 1, 2]], iterations=1, progress=False).report.iterations == 1


def test_an_m_step_that_diverges_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.estimate.features.log_linear.LARGEST", 2.0)
    with pytest.raises(FitError, match="iteration 0: the weights of features diverge"):
        EM(Tagger(2, 3), LogLinear()).run([[0, 1], [0, 0, 0]], progress=False)


def test_fits_without_features_have_none_to_show() -> None:
    fit = EM(Tagger(2, 3)).run([[0, 1, 2]], iterations=1, progress=False)
    with pytest.raises(UnsupError, match="the fit has no features of table 'emission'"):
        fit.top_features("emission")
    some = EM(Tagger(2, 3), {"emission": LogLinear()}).run([[0, 1, 2]], iterations=1, progress=False)
    with pytest.raises(UnsupError, match=r"the fit has no features of table 'start', but of \['emission'\]"):
        some.top_features("start")
    with pytest.raises(TableError, match="have no axis"):
        some.top_features("emission", letter="a")


def test_a_record_with_other_features_than_weights(tmp_path: Path) -> None:
    fit = EM(Tagger(2, 3), LogLinear()).run([[0, 1, 2]], iterations=1, progress=False)
    fit.memory["features"] = fit.memory["features"][:-1]
    with pytest.raises(UnsupError, match="expected a weight for each of the 12 features 'features'"):
        fit.save(tmp_path / "fit")
