"""The code of the page on ArviZ runs, and says what the page says that it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.cases import arviz_at_work

PAGE = (Path(__file__).parents[2] / "docs" / "arviz.md").read_text()


def test_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 9
    names: dict[str, Any] = {}
    with arviz_at_work():
        for block in blocks:
            exec(compile(block, "arviz.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "('chain', 'draw', 'emission_tag', 'emission_word')"
    assert said[1] == "(1, 200, 60)"
    assert said[3:6] == ["(1, 50, 12)", "['rate[0]', 'rate[1]']", "(1, 50, 12)"]
    assert said[6:8] == ["['types', 'once_only', 'repeats']", "i (1, 200, 60)"]
    assert said[8:10] == ["(20, 20)", "['arc_child', 'arc_example', 'arc_head']"]
    assert said[10:] in (["(1, 50, 1)"], [])
