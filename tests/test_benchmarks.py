"""What benchmarks print is JSON that any program reads."""

from __future__ import annotations

import json
import math

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
