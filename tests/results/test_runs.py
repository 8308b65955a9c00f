"""The runs of restarts in a folder: exact, small, and refused where they do not agree."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import UnsupError
from pyro_unsup.results.record_runs import describe

from .cases import assert_same, mixture, points, text, tree
from .damage import Record, put_back, refused, rewrite, with_tensors


@cache
def restarted() -> pu.Fit:
    model = pu.models.Tagger(3, text().vocab)
    fit: pu.Fit = pu.EM(model, pu.AddLambda(0.1)).run(text(), iterations=2, restarts=3, processes=1, progress=False)
    return fit


@cache
def featured() -> pu.Fit:
    """With features, an estimator of its own, rules and learned weights of rules."""
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(30, seed=1), 6, ["PUNCT"])
    model = pu.models.DMV.of(corpus)
    ruled = pu.regularise(model, pu.components.at_least(pu.components.distance(most=2), 0.5), bound=0)
    features = pu.LogLinear(pu.templates.dependency(({"NOUN"}, {"VERB"})), 1.0, fit_start=True)
    start = pu.init.around(model.harmonic_start(corpus), 0.5)
    fit: pu.Fit = pu.EM(ruled, features, start).run(corpus, iterations=2, restarts=2, processes=1, progress=False)
    return fit


@cache
def estimated() -> pu.Fit:
    """With a dictionary and an estimator, both of which have tensors that all runs share."""
    assert text().tagset is not None
    known = pu.data.TagDictionary.from_corpus(text(), min_count=5)
    model = pu.models.Tagger(text().tagset, text().vocab, dictionary=known)
    normal = pu.LogisticNormal(mean=torch.zeros(1), variance=0.5)
    engine = pu.EM(model, {"start": normal, "emission": pu.AddLambda(0.1)}, pu.init.noise(1.0))
    fit: pu.Fit = engine.run(text(), iterations=2, restarts=3, processes=1, progress=False)
    return fit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_back(tmp_path / "fit", restarted)
    return tmp_path / "fit"


@pytest.mark.parametrize("make", [restarted, featured, estimated])
def test_round_trip_is_exact(tmp_path: Path, make: Any) -> None:
    fit = make()
    fit.save(tmp_path / "one")
    loaded = pu.load(tmp_path / "one")
    assert_same(loaded, fit)
    assert len(loaded.runs) == len(fit.runs) > 1
    for ours, theirs in zip(loaded.runs, fit.runs, strict=True):
        assert_same(ours, theirs)
        assert (ours.runs, repr(ours.model)) == ((), repr(theirs.model))
        assert ours.features.keys() == theirs.features.keys()
        assert ours.estimators.keys() == loaded.estimators.keys()
    assert loaded.model is loaded.runs[0].model
    loaded.save(tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_consensus_after_loading() -> None:
    for make, data in ((restarted, text()), (featured, None)):
        fit = make()
        corpus = data or pu.data.short_tag_sequences(pu.data.toy.sentences(30, seed=1), 6, ["PUNCT"])
        record, tensors = describe(fit)
        loaded = pu.results.record_runs.restore(json.loads(json.dumps(record)), tensors, None)
        ours, theirs = loaded.consensus(corpus), fit.consensus(corpus)
        assert torch.equal(ours.marginals, theirs.marginals)
        assert torch.equal(ours.structure, theirs.structure)
        assert ours.agreement == theirs.agreement
        assert ours.evaluate(corpus) == theirs.evaluate(corpus)


def test_what_runs_share_is_there_once() -> None:
    fit = restarted()
    record, tensors = describe(fit)
    best = fit.report.restarts.index(max(fit.report.restarts))
    assert [one is None for one in record["runs"]] == [k == best for k in range(3)]
    others = [one for one in record["runs"] if one is not None]
    assert all(one.keys() == {"seed", "report", "rows", "config"} for one in others)  # restarts is in that of the best
    groups = {name.split("/")[2] for name in tensors if name.startswith("runs/")}
    assert groups == {"weights"}
    _, own = describe(estimated())
    assert {name.split("/")[0] for name in own} >= {"model", "estimators", "runs"}
    assert {name.split("/")[2] for name in own if name.startswith("runs/")} <= {"weights", "memory", "state"}
    features, said = describe(featured())
    assert not any("/features/" in name for name in said if name.startswith("runs/"))
    assert all("features" not in one and "model" not in one for one in features["runs"] if one)


def test_without_runs(tmp_path: Path) -> None:
    restarted().save(tmp_path / "fit", runs=False)
    record = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert "runs" not in record
    assert not any(name.startswith("runs") for name in record["tensors"])
    loaded = pu.load(tmp_path / "fit")
    assert loaded.runs == ()
    assert_same(loaded, restarted())
    with pytest.raises(UnsupError, match="nor those of a fit that was saved without them"):
        loaded.consensus(text())


def test_a_folder_from_before_loads(folder: Path) -> None:
    def older(record: Record) -> None:
        del record["runs"]

    with_tensors(folder, lambda tensors: [tensors.pop(name) for name in [*tensors] if name.startswith("runs/")])
    rewrite(folder, older)
    loaded = pu.load(folder)
    assert loaded.runs == ()
    assert_same(loaded, restarted())


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    fit = pu.EM(mixture, init=pu.init.noise(1.0)).run(points(), iterations=2, restarts=2, processes=1, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit", mixture)
    for ours, theirs in zip(loaded.runs, fit.runs, strict=True):
        assert_same(ours, theirs)
        assert ours.model is mixture
    refused(tmp_path / "fit", "this fit is of a model of your own that is not registered")
    fit.runs[0].model = lambda x: mixture(x)
    with pytest.raises(UnsupError, match=r"run 0 is of another model than the fit, and neither is registered"):
        fit.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_runs_of_other_models_and_under_other_handlers(tmp_path: Path) -> None:
    corpus = text()
    first, second = (
        pu.EM(pu.temper(pu.models.Tagger(3, corpus.vocab, order), beta)).run(corpus, iterations=1, seed=order)
        for order, beta in ((1, 0.5), (2, 0.9))
    )
    first.runs = (first, second)
    first.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert [repr(one.model) for one in loaded.runs] == [repr(first.model), repr(second.model)]
    assert_same(loaded.runs[1], second)
    assert torch.equal(loaded.consensus(corpus).structure, pu.consensus([first, second], corpus).structure)
    bare = loaded.unhandled()
    bare.save(tmp_path / "bare")
    again = pu.load(tmp_path / "bare")
    assert repr(again.model) == f"Tagger(tags=3, vocab={len(corpus.vocab)}, order=1)"
    assert [repr(one.model) for one in again.runs] == [repr(first.model), repr(second.model)]


RUNS: list[tuple[Any, str]] = [
    ({}, "expected a list of runs"),
    ("x", "expected a list of runs"),
    (3, "expected a list of runs"),
    ([None, None], "expected a list of runs, of which at most one is the fit itself"),
    ([None] * 5000, "expected a list of runs, of which at most one"),
    ([], "tensors of the run '[0-9]', which the record does not list"),
    ([None], "tensors of the run"),
    ([3, 3, 3], "run 0: expected seed, report, rows, and perhaps model"),
    ([{}, {}, {}], "run 0: expected seed, report, rows"),
    ([{"seed": 0, "report": {}, "rows": [], "runs": []}] * 3, "run 0: expected seed, report, rows"),
    ([{"seed": 0, "report": {}, "rows": []}] * 3, "the record does not describe a fit: |run 0: "),
]


@pytest.mark.parametrize(("runs", "says"), RUNS)
def test_what_is_no_list_of_runs(folder: Path, runs: Any, says: str) -> None:
    rewrite(folder, lambda record: record.update(runs=runs))
    refused(folder, says)


def other_run(record: Record) -> tuple[int, dict[str, Any]]:
    return next((i, one) for i, one in enumerate(record["runs"]) if one is not None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda run: run.update(rows=[]), "run [0-9]: the history is empty"),
        (lambda run: run.update(seed="x"), "does not describe a fit"),
        (lambda run: run.update(model={"name": "nobody", "settings": {}}), "nobody"),
        (lambda run: run.update(model={"name": "os.system", "settings": {}}), r"os\.system"),
        (lambda run: run["report"].pop("reason"), "does not describe a fit"),
        (lambda run: run.update(config={"labels": ["a"]}), "run [0-9]: expected 3 labels, one a state, actual 1"),
        (lambda run: run.update(features={"features": {}}), "does not describe a fit|run [0-9]"),
    ],
)
def test_damaged_runs(folder: Path, change: Any, says: str) -> None:
    rewrite(folder, lambda record: change(other_run(record)[1]))
    refused(folder, says)


def test_a_run_cannot_ask_for_a_large_model(folder: Path) -> None:
    def change(record: Record) -> None:
        larger = json.loads(json.dumps(record["model"]))
        larger["settings"]["tags"] = 2**40
        other_run(record)[1]["model"] = larger

    rewrite(folder, change)
    refused(folder, r"run [0-9]: tags is 1099511627776, larger than the tensors that were saved")


def test_damaged_tensors_of_runs(folder: Path) -> None:
    record = json.loads((folder / "fit.json").read_text())
    name = f"runs/{other_run(record)[0]}/weights/emission"
    for change, says in (
        (lambda tensors: tensors.pop(name), r"run [0-9]: the model has the tables"),
        (lambda tensors: tensors.update({name: tensors[name][:1]}), r"run [0-9]: .*emission"),
        (lambda tensors: tensors[name].fill_(torch.nan), r"run [0-9]: table 'emission' holds NaN"),
        (lambda tensors: tensors.update({"runs/7/weights/x": torch.zeros(1)}), "tensors of the run '7'"),
        (lambda tensors: tensors.update({"runs/x": torch.zeros(1)}), "tensors of the run 'x'"),
        (lambda tensors: tensors.update({name.replace("weights", "odd"): torch.zeros(1)}), "of no known kind"),
        (lambda tensors: tensors.update({f"runs/{'9' * 4000}/weights/x": torch.zeros(1)}), "tensors of the run"),
    ):
        put_back(folder, restarted)
        with_tensors(folder, change)
        refused(folder, says)
