"""Models of words under every algorithm."""

from __future__ import annotations

from pathlib import Path

from .cells import cells, check


@cells("bigram tagger", "trigram tagger", "segmenter", "clusterer")
def test_cell(model: str, algorithm: str, tmp_path: Path) -> None:
    check(model, algorithm, tmp_path / "cell")
