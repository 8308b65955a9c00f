"""The code of the page on label switching runs, and its numbers are as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

PAGE = (Path(__file__).parents[2] / "docs" / "label_switching.md").read_text()


def test_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "label_switching.md", "exec"), names)
    assert abs(names["loc"].mean((0, 1))).max() < 0.1
    transition = names["mcmc"].get_samples()["transition"]
    assert torch.allclose(transition.sum(-1), torch.ones(()))
