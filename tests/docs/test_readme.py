"""The README's examples run, print what is shown, and make the picture above them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ..matrix.cells import split
from ..readme import DPI, PICTURE, README, ROOT, examples, picture, run

#: Mean difference of pixels, of 1, that other versions of matplotlib and other fonts may make.
NEAR = 0.03


@pytest.mark.parametrize("number", range(len(examples())))
def test_examples_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source, shown = examples()[number]
    printed, _ = run(source)
    assert shown is None or printed == shown
    plt.close("all")


def test_first_example_is_short_and_shows_its_output() -> None:
    source, shown = examples()[0]
    assert shown is not None
    assert len([line for line in source.splitlines() if line]) <= 8


def test_picture_is_what_the_example_draws() -> None:
    drawn = io.BytesIO()
    picture().savefig(drawn, dpi=DPI)
    drawn.seek(0)
    found, saved = (plt.imread(one)[..., :3] for one in (drawn, PICTURE))
    plt.close("all")
    assert found.shape == saved.shape
    assert np.abs(found - saved).mean() < NEAR
    assert found.std() > 5 * NEAR  # an empty picture would be no match


def test_local_links_exist() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text()):
        assert (ROOT / target).exists(), target


def test_number_of_combinations() -> None:
    text = README.read_text()
    rows = [line for line in split(matrix_page())[1].splitlines() if line.startswith("|")]
    there, all_of_them = "\n".join(rows).count("✓"), (len(rows) - 2) * (rows[0].count("|") - 2)
    assert f"{there} of the {all_of_them} combinations" in " ".join(text.split())


def matrix_page() -> str:
    return (ROOT / "docs" / "reference" / "matrix.md").read_text()
