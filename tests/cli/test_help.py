"""Help comes fast, is there on every level without a model, and speaks of the model that was asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup import registry, tasks

from .conftest import Run

HEAVY = ("torch", "pyro", "numba", "scipy", "pandas")
PROBE = f"""
import json, sys
from pyro_unsup.cli import app
try:
    app(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["fit", "--help"], ["fit", "tagger", "--help"], ["predict", "dmv", "--help"]]
)
def test_help_does_not_wait_for_torch(words: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("name", tasks.names())
def test_every_command_of_every_task_has_help(run: Run, name: str) -> None:
    task = tasks.find(name)
    for command in ("fit", "sample", "predict", "evaluate", "show"):
        if command in task.commands:
            result = run(command, name, "--help")
            assert (result.exit_code, result.stderr) == (0, "")
            first = task.commands[command].help.splitlines()[0]
            assert first[:40] in " ".join(result.stdout.split())
            assert name in run(command, "--help").stdout


@pytest.mark.parametrize("name", tasks.names())
def test_help_of_a_model_speaks_of_no_other(run: Run, name: str) -> None:
    page = " ".join(run("fit", name, "--help").stdout.replace("│", " ").split())
    others = {"tagger", "ccm", "clusterer", "segmenter", "aligner"} - {name, *name.split("-")}
    assert not [other for other in others if f" {other} " in page or f" {other}:" in page or f" {other}," in page]


def test_options_have_one_meaning(run: Run) -> None:
    """An option of one name has one type everywhere."""
    kinds: dict[str, set[object]] = {}
    for name in tasks.names():
        for command in tasks.find(name).commands.values():
            for one in command.options:
                kinds.setdefault(one.flag, set()).add(one.type)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {"--order": {int, str}}


def test_scores_and_baselines_are_described() -> None:
    for name in tasks.names():
        task = tasks.find(name)
        known = {one.name for one in task.scores_known}
        assert set(task.main) <= known
        assert task.likelihood in known
        assert any(one.trivial for one in task.baselines_known)
        assert all(one.meaning for one in task.baselines_known)


def test_a_model_without_a_task_can_be_shown(tmp_path: Path, run: Run) -> None:
    class Small(pu.models.Tagger):
        task = None  # type: ignore[assignment]

    registry.register("models", "Small", Small)
    try:
        text = pu.data.toy.sentences(5, seed=1)
        pu.EM(Small(2, text.vocab)).run(text, iterations=1, progress=False).save(tmp_path / "m")
        assert "emission 2 x " in run("show", tmp_path / "m").stdout
        refused = run("predict", tmp_path / "m", "x.txt")
    finally:
        registry.unregister("models", "Small")
    assert refused.exit_code == 2
    what = "a Small, for which the command line has no predict: use pu.load"
    assert refused.stderr == f"error: {tmp_path / 'm'}: {what}\n"
