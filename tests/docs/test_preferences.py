"""The code of the page on preferences runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "preferences.md").read_text()


def test_page_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") == 4
    names: dict[str, Any] = {}
    for code, said in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "preferences.md", "exec"), names)
        assert out.getvalue().split() == said.split()
    assert names["fit"].evaluate(names["corpus"])["directed"] > names["plain"].evaluate(names["corpus"])["directed"]
