"""The code of the page on preferences runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from pyro_unsup.handlers.components.universal_rules import RULES

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


def test_table_of_rules_is_that_of_the_code() -> None:
    table = PAGE.partition("| head | children, content heads")[2]
    rows = re.findall(r"^\| (the root|[A-Z]+) \|(.*)\|(.*)\|$", table, re.MULTILINE)
    for column, kind in ((1, "content"), (2, "function")):
        told = {row[0]: tuple(row[column].replace(",", "").split()) for row in rows if row[column].strip()}
        assert told == {head or "the root": children for head, children in RULES[kind].items()}
