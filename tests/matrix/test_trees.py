"""Models of trees under every algorithm."""

from __future__ import annotations

from pathlib import Path

from .cells import cells, check


@cells("DMV", "CCM 1", "CCM 2", "PCFG", "SimplePCFG", "DMV + CCM")
def test_cell(model: str, algorithm: str, tmp_path: Path) -> None:
    check(model, algorithm, tmp_path / "cell")
