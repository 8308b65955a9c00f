"""The explanation in one file runs, and stays one file of torch and Pyro."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest
import torch

MINI = Path(__file__).resolve().parents[2] / "tutorials" / "mini.py"


def test_it_explains_by_running(capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_default_dtype()
    try:
        runpy.run_path(str(MINI), run_name="__main__")  # its own assertions are checked
    finally:
        torch.set_default_dtype(before)
    said = capsys.readouterr().out
    assert all(name in said for name in ("EM", "annealing", "stepwise", "features", "variational"))


def test_it_is_short_and_needs_but_torch_and_pyro() -> None:
    text = MINI.read_text()
    assert len(text.splitlines()) <= 150
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names == {"itertools", "pyro", "torch"}
