"""What benchmarks print is JSON that any program reads."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import as_json, figure


def test_no_number_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    figure("agreement", value=math.nan, several=[1.0, math.inf], deep={"x": (np.float64("nan"), 2)})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert (found["value"], found["several"], found["deep"]) == (None, [1.0, None], {"x": [None, 2]})
    assert json.loads(as_json({"a": 1.5}, indent=1)) == {"a": 1.5}


def test_the_commands_of_adaptor_grammars_are_of_their_rows() -> None:
    from benchmarks.adaptor import SWEEPS

    text = Path(__file__).parents[1].joinpath("benchmarks", "RESULTS.md").read_text("utf-8")
    section = text.partition("### Words by adaptor grammars")[2].partition("\n#")[0]
    commands = [line for line in section.splitlines() if "python -m benchmarks.adaptor" in line]
    named = [re.findall(r"--only (\S+?),?(?=\s|,|$)", line) for line in commands]
    assert all(named)  # without that, all grammars and Chinese are run
    assert {one for row in named for one in row} == {*SWEEPS}
    rows = [line.split("|")[3].strip() for line in section.splitlines() if line.startswith("| ")][1:]
    told = [re.findall(r"--sweeps (\d+)", line) for line in commands]
    wanted = [int(sweeps[0]) if sweeps else SWEEPS[one] for row, sweeps in zip(named, told, strict=True) for one in row]
    assert sorted(map(int, rows)) == sorted(wanted)
