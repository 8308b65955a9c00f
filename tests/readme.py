"""The examples of the README, the picture that the first one makes, and a picture of a report.

python -m tests.readme --write   makes both pictures again (needs a browser)
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "_static" / "readme.png"
REPORT = ROOT / "docs" / "_static" / "report.png"
DPI = 130


def examples() -> list[tuple[str, str | None]]:
    """The blocks of Python, each with the output that is shown right below it, if there is one."""
    text = README.read_text()
    pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?"
    return [(found[1], found[2]) for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE)]


def run(source: str) -> tuple[str, dict[str, Any]]:
    """What an example prints, and the names that it leaves, in the precision that torch has from the start."""
    import torch

    names: dict[str, Any] = {"__name__": "__main__"}
    printed, before = io.StringIO(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(README), "exec"), names)
    finally:
        torch.set_default_dtype(before)
    return printed.getvalue(), names


def picture() -> Any:
    """The figure that the first example draws."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    run(examples()[0][0])
    return plt.gcf()


def report(path: Path, height: int = 1250) -> None:
    """Save the top of a report of a tagger, as a browser shows it."""
    import matplotlib.pyplot as plt

    import pyro_unsup as pu

    from .browser import browser

    corpus = pu.data.toy.sentences(2000, seed=1)
    fit = pu.EM(pu.models.Tagger(tags=12, vocab=corpus.vocab)).run(corpus, iterations=80, restarts=4)
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        out = Path(folder, "report.html")
        fit.report_html(corpus, out, title="Parts of speech of a toy language")
        page.open(out, (1000, 900))
        plt.imsave(path, plt.imread(page.screenshot("report", Path(folder)))[:height])


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    picture().savefig(PICTURE, dpi=DPI)
    report(REPORT)
