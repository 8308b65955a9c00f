"""Aligners and users' own enumerated models under every algorithm."""

from __future__ import annotations

from pathlib import Path

from .cells import cells, check


@cells("Model 1", "HMM aligner", "own, tables only", "own, Gaussian")
def test_cell(model: str, algorithm: str, tmp_path: Path) -> None:
    check(model, algorithm, tmp_path / "cell")
