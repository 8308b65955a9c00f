"""Hidden Markov models of tables on the command line: what the library gives, and what is wrong with a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import pyro_unsup as pu

from .conftest import Run


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 0, 1], 30)
    table = pandas.DataFrame(
        {
            "year": range(120),
            "group": ["b", "a"] * 60,
            "count": rng.poisson(np.array([3, 15])[states]),
            "size": rng.normal(np.array([-1.0, 2.0])[states], 0.5).round(4),
        }
    )
    table.to_csv(folder / "all.csv", index=False)
    table["count"] = table["count"].astype(object)
    table.loc[7, "count"] = ""
    table.to_csv(folder / "gap.tsv", index=False, sep="\t")
    table.loc[9, "count"] = "many"
    table.to_csv(folder / "bad.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(tables: Path, run: Run) -> Path:
    said = run("fit", "hmm", tables / "all.csv", "--column", "count", "--emission", "poisson", "--out", tables / "m")
    assert said.exit_code == 0, said.stderr
    assert "1 series, 120 observations of count; HMM(states=2, emission='poisson')" in said.stderr
    return tables / "m"


def test_fit_is_that_of_the_library(tables: Path, model: Path) -> None:
    x = pandas.read_csv(tables / "all.csv")["count"]
    expected = pu.EM(pu.models.HMM(2, "poisson")).run(pu.models.Series.of(x), progress=False)
    found = pu.load(model)
    assert torch.equal(found.params["rate"], expected.params["rate"])


def test_evaluate_tells_criteria(tables: Path, model: Path, run: Run) -> None:
    x = pandas.read_csv(tables / "all.csv")["count"]
    fit = pu.load(model)
    said = run("evaluate", model, tables / "all.csv", "--json")
    found = json.loads(said.stdout)
    assert found["log_likelihood"] == pytest.approx(fit.log_likelihood(x))
    assert found["aic"] == pytest.approx(fit.aic(x))
    assert found["bic"] == pytest.approx(fit.bic(x))
    assert (found["observations"], found["parameters"]) == (120, 5)
    assert "log_likelihood" in run("evaluate", model, tables / "all.csv").stdout


def test_predict_writes_a_line_a_row(tables: Path, model: Path, run: Run) -> None:
    x = pandas.read_csv(tables / "all.csv")["count"]
    posterior = pu.load(model).posterior(x)
    for given, shares in (("all", posterior.smoothed), ("past", posterior.filtered)):
        head, *lines = run("predict", model, tables / "all.csv", "--given", given).stdout.splitlines()
        assert head.split("\t") == ["state", "p0", "p1"]
        assert [int(line.split("\t")[0]) for line in lines] == posterior.mode().tolist()
        found = np.array([line.split("\t")[1:] for line in lines], float)
        np.testing.assert_allclose(found, shares, atol=1e-6)


def test_forecast_goes_on_after_the_end(tables: Path, model: Path, run: Run) -> None:
    x = pandas.read_csv(tables / "all.csv")["count"]
    expected = pu.load(model).posterior(x).forecast(4)
    head, *lines = run("forecast", model, tables / "all.csv", "--steps", 4).stdout.splitlines()
    assert head.split("\t") == ["series", "step", "mean", "q5", "q50", "q95", "p0", "p1"]
    found = np.array([line.split("\t") for line in lines], float)
    np.testing.assert_allclose(found[:, 2], expected.mean[0], rtol=1e-5)
    np.testing.assert_allclose(found[:, 6:], expected.states[0], atol=1e-5)


def test_show_tells_states(model: Path, run: Run) -> None:
    record = json.loads(run("show", model, "--json").stdout)
    fit = pu.load(model)
    assert [one["rate"] for one in record["states"]] == fit.params["rate"].tolist()
    assert record["transition"] == fit.weights["transition"].softmax(-1).tolist()
    assert "duration" in run("show", model).stdout


def test_gaps_are_missing_values(tables: Path, run: Run) -> None:
    said = run("fit", "hmm", tables / "gap.tsv", "--column", "count", "--emission", "poisson", "--out", tables / "gap")
    assert "120 observations of count, 1 missing" in said.stderr


def test_series_by_a_column_and_vectors(tables: Path, run: Run) -> None:
    out = tables / "both"
    arguments = ("--column", "count,size", "--series-column", "group", "--covariance", "diagonal", "--out", out)
    said = run("fit", "hmm", tables / "all.csv", *arguments)
    assert "2 series, 120 observations of count, size" in said.stderr
    table = pandas.read_csv(tables / "all.csv")
    pieces = [table[table["group"] == one][["count", "size"]].to_numpy() for one in ("b", "a")]
    fit = pu.load(out)
    states = fit.posterior(pieces).mode().tolist()
    written = [int(line.split("\t")[0]) for line in run("predict", out, tables / "all.csv").stdout.splitlines()[1:]]
    assert [written[i] for i in [*range(0, 120, 2), *range(1, 120, 2)]] == states
    head = run("forecast", out, tables / "all.csv", "--steps", 2).stdout.splitlines()
    assert head[0].split("\t")[:4] == ["series", "step", "mean_count", "mean_size"]
    assert len(head) == 1 + 2 * 2


def test_mistakes_are_told(tables: Path, model: Path, run: Run, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "m")
    said = run("fit", "hmm", tables / "all.csv", "--column", "counts", *out)
    assert said.exit_code == 2
    assert "has no column 'counts', but year, group, count, size" in said.stderr
    said = run("fit", "hmm", tables / "bad.csv", "--column", "count", *out)
    assert said.exit_code == 2
    assert "bad.csv:11: column 'count' holds 'many', expected a number or an empty cell" in said.stderr
    said = run("fit", "hmm", tables / "all.csv", "--column", "size", "--emission", "poisson", *out)
    assert said.exit_code == 2
    assert "which a Poisson cannot emit" in said.stderr
    said = run("fit", "hmm", tables / "all.csv", "--column", "count", "--states", 500, *out)
    assert said.exit_code == 2
    assert "500 states need at least as many whole observations" in said.stderr
    (tmp_path / "empty.csv").write_text("")
    said = run("fit", "hmm", tmp_path / "empty.csv", *out)
    assert said.exit_code == 2
    assert not (tmp_path / "m").exists()
    assert run("forecast", model, tables / "all.csv", "--steps", 0).exit_code == 2


@pytest.mark.parametrize("name", ["count", "x", "temperature"])
def test_a_table_of_one_column(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(f"{name}\n" + "1\n2\n12\n11\n1\n2\n")
    said = run("fit", "hmm", tmp_path / "one.csv", "--emission", "poisson", "--out", tmp_path / "m")
    assert said.exit_code == 0, said.stderr
    assert f"6 observations of {name}" in said.stderr


def test_frames_and_pictures(tables: Path, model: Path) -> None:
    x = pandas.read_csv(tables / "all.csv")["count"]
    fit = pu.load(model)
    frame = fit.to_frame(x)
    assert list(frame.columns) == ["series", "step", "observation", "state", "probability"]
    assert frame["state"].tolist() == fit.predict(x).tolist()
    assert len(fit.plot(x).collections) == 2
