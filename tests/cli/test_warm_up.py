"""``pyro-unsup warm-up``: kernels of every model are compiled by one command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyro_unsup import tasks
from pyro_unsup.cli import warming

from .conftest import Run


def test_every_model_with_a_command_is_there() -> None:
    known = {name.partition(",")[0] for name in warming.cases()}
    assert known == {*tasks.names("fit"), *tasks.names("sample")}


def test_it_tells_what_it_did(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = warming.cases()["tagger"]
    monkeypatch.setattr(warming, "cases", lambda: {"tagger": tagger})
    result = run("warm-up", "--jobs", 1)
    assert result.exit_code == 0
    assert result.stdout.startswith("compiled for 1 kind of models in ")


AFTER = """
import sys
from numba.core import event
from pyro_unsup.cli import warming
with event.install_recorder("numba:compile") as recorder:
    warming.used(sys.argv[1])
loaded = [one for one in recorder.buffer if one[1].is_start]
print(len(loaded))
"""


@pytest.mark.deep
@pytest.mark.parametrize("name", ["tagger", "segmenter"])
def test_nothing_is_compiled_after_it(tmp_path: Path, name: str) -> None:
    compiled = []
    for _ in range(2):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        ended = subprocess.run([sys.executable, "-c", AFTER, name], env=env, capture_output=True, check=True)
        compiled.append(int(ended.stdout))
    assert compiled[0] > 3
    assert compiled[1] == 0
