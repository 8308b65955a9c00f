"""Two processes, really: the same fits, whoever fails, dies or stops."""

from __future__ import annotations

import math
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient

import pyro_unsup as pu
from pyro_unsup import EM, Anneal, FitError, Gradient, MixtureEM
from pyro_unsup.data import toy
from pyro_unsup.infer import LostProcess
from pyro_unsup.infer.launch import launch
from pyro_unsup.infer.loop import Checkpoints, Info
from pyro_unsup.infer.processes import by_first, gathered, rank_and_size
from pyro_unsup.models import DMV, Aligner, Tagger

from ..results.cases import assert_same

CORPUS = toy.sentences(60, seed=3)
TAGS = pu.data.short_tag_sequences(CORPUS, max_length=8, drop=["PUNCT"])
BITEXT = toy.bitext(40, seed=3)
NEAR = pu.components.short_dependencies(limit=1)
LOG_LINEAR = pu.LogLinear(pu.templates.tagging(), kappa=1.0)

CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "EM": lambda: (EM(Tagger(4, CORPUS.vocab)), CORPUS),
    "aligner": lambda: (EM(Aligner.of(BITEXT)), BITEXT),
    "annealing": lambda: (Anneal(Tagger(3, CORPUS.vocab), schedule=[0.5, 1.0], steps=3), CORPUS),
    "VB": lambda: (EM(DMV(TAGS.vocab), pu.DirichletVB()), TAGS),
    "logistic normal": lambda: (EM(DMV(TAGS.vocab), pu.LogisticNormal()), TAGS),
    "mixture": lambda: (MixtureEM(DMV(TAGS.vocab), [NEAR], pu.DirichletVB()), TAGS),
    "features": lambda: (EM(Tagger(3, CORPUS.vocab), LOG_LINEAR), CORPUS),
    "gradient": lambda: (Gradient(Tagger(3, CORPUS.vocab), LOG_LINEAR), CORPUS),
}
OPTIONS: dict[str, Any] = {"iterations": 6, "tolerance": 0, "progress": False, "seed": 1}


def all_of_them() -> dict[str, tuple[dict[str, Any], list[float]]]:
    """Weights and objectives of every case, in this process or in several."""
    found = {}
    rank, size = rank_and_size()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pu.infer.UnfinishedSchedule)
        for name, make in CASES.items():
            engine, data = make()
            fit = engine.run(data, **OPTIONS)
            assert gathered([row["objective"] for row in fit.rows])[0] == [row["objective"] for row in fit.rows]
            found[name] = (fit.weights, [row["objective"] for row in fit.rows])
    engine, _ = CASES["EM"]()
    own = CORPUS.select(np.arange(len(CORPUS)) % size == rank)
    fit = engine.run(own, sharded=True, chunk=60, **OPTIONS)
    found["sharded"] = (fit.weights, [row["objective"] for row in fit.rows])
    best = CASES["EM"]()[0].run(CORPUS, restarts=2, processes=1, **OPTIONS)
    found["restarts"] = (best.weights, best.report.restarts)
    return found


def test_two_processes_find_what_one_does() -> None:
    one, two = all_of_them(), launch(all_of_them, processes=2)
    assert one.keys() == two.keys()
    for name, (weights, objectives) in one.items():
        np.testing.assert_allclose(two[name][1], objectives, rtol=1e-9)
        for table, w in weights.items():
            torch.testing.assert_close(two[name][0][table].exp(), w.exp(), rtol=0, atol=1e-9)


def eagerly(folder: Path, die_at: int | None) -> pu.Fit:
    """A run with a checkpoint an iteration, in which the second process may be killed."""
    Checkpoints.__init__.__defaults__ = (0.0,)
    rank, _ = rank_and_size()

    def die(info: Info) -> None:
        if rank == 1 and info.iteration == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    resume = pu.load(folder) if folder.exists() else None
    return EM(Tagger(4, CORPUS.vocab)).run(
        CORPUS, iterations=8, tolerance=0, progress=False, checkpoint=folder, resume=resume, callbacks=[die]
    )


def test_a_killed_worker_ends_the_run_and_its_checkpoint_goes_on(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(LostProcess, match="process 1 of 2 was ended by signal SIGKILL, and the others with it"):
        launch(lambda: eagerly(kept, 4), processes=2)
    assert pu.load(kept).report.iterations == 4
    assert pu.load(kept).report.reason == "checkpoint"
    resumed, whole = launch(lambda: (eagerly(kept, None), eagerly(tmp_path / "new", None)), processes=2)
    assert [row["iteration"] for row in resumed.rows] == list(range(9))
    assert_same(resumed, whole, seconds=False)
    assert not list(tmp_path.rglob(".*"))


def what_goes_wrong() -> dict[str, str]:
    """What each process says of what goes wrong in one of them, or in all."""
    rank, _ = rank_and_size()
    said: dict[str, str] = {}

    def note(name: str, work: Callable[[], Any]) -> None:
        try:
            said[name] = str(work())
        except pu.UnsupError as error:
            said[name] = f"{type(error).__name__}: {error}"

    model = Tagger(2, 3)
    weights = {name: d.layout.uniform() for name, d in model.declarations().items()}
    weights["emission"] = torch.tensor([[0.5, 0.5, 0.0]] * 2).log()
    impossible = [[0, 1]] * 5 + [[2, 1]]
    note("impossible", lambda: EM(model, init=pu.init.from_weights(weights)).run(impossible, progress=False))
    note(
        "bad data",
        lambda: EM(Tagger(2, 2)).run([[0, 1], [1, 0] if rank == 0 else [1, 5]], sharded=True, progress=False),
    )
    note("seeds", lambda: EM(model).run([[0, 1]] * 4, seed=rank, progress=False))
    note("other data", lambda: EM(model).run([[0, 1], [1, 0 if rank == 0 else 2]], progress=False))
    note("stepwise", lambda: pu.StepwiseEM(model).run([[0, 1]] * 4, progress=False))
    stop = [lambda info: rank == 1 and info.iteration == 2]
    note("stopped", lambda: EM(Tagger(2, CORPUS.vocab)).run(CORPUS, callbacks=stop, progress=False).report.iterations)
    note("one example", lambda: math.isfinite(EM(model).run([[0, 1, 2]], iterations=2, progress=False).objective))
    note("by first", lambda: by_first(lambda: 1 / rank if rank else "made"))
    return {key: value for i, one in enumerate(gathered(said)) for key, value in _of(one, i).items()}


def _of(said: dict[str, str], rank: int) -> dict[str, str]:
    return {f"{name} {rank}": one for name, one in said.items()}


def test_what_goes_wrong_in_one_is_said_by_all() -> None:
    said = launch(what_goes_wrong, processes=2)
    for rank in (0, 1):
        assert "iteration 0: item 5 of site 'words' has probability zero: smooth" in said[f"impossible {rank}"]
        assert "word numbers must lie in 0 .. 1, actual range 0 .. 5" in said[f"bad data {rank}"]
        assert "StepwiseEM cannot split its data over processes or chunks" in said[f"stepwise {rank}"]
        assert (said[f"stopped {rank}"], said[f"one example {rank}"], said[f"by first {rank}"]) == ("2", "True", "made")
    assert said["bad data 0"].startswith("FitError: process 1: ")
    assert "do not begin at the same place: the checksum of data is" in said["other data 0"]
    assert "do not begin at the same place: seed is 1 in process 1 and 0 here" in said["seeds 0"]


NOTEBOOK = """
import pyro_unsup as pu
model, data = pu.models.Tagger(tags=2, vocab=3), [[0, 1, 2], [2, 1], [0, 1, 0]]
def learn():  # what only the notebook knows
    return pu.EM(model).run(data, iterations=3, progress=False, seed=1)
--
fit = pu.launch(learn, processes=2)
--
abs(fit.objective - learn().objective) < 1e-9, fit.predict(data).shape
"""


def test_work_may_come_from_a_notebook(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in NOTEBOOK.split("--")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    found = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert found.cells[-1].outputs[0]["data"]["text/plain"] == "(True, torch.Size([8]))"


def test_an_error_of_the_work_comes_back() -> None:
    def divide() -> float:
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        launch(divide, processes=1)
    with pytest.raises(FitError, match="processes must be a whole number, 1 or more, actual 0"):
        launch(divide, processes=0)
    with pytest.raises(FitError, match=r"threads must be a whole number, 1 or more, actual 1\.5"):
        launch(divide, threads=1.5)  # type: ignore[arg-type]
    with pytest.raises(FitError, match="patience must be a number of seconds, more than 0, actual -1"):
        launch(divide, patience=-1)
