"""The pages of the site: each has front matter and code that runs, is short, and links to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: Pages with blocks of Python that do not run when the site is built: a test of their own runs them, or they are in
#: another library, which is not installed here.
RUN_BY_TESTS = {"arviz.md", "label_switching.md", "preferences.md", "your_own_model.md"}
ELSEWHERE = {
    "coming_from/dynamax.md",
    "coming_from/numpyro.md",
    "coming_from/pymc.md",
    "howto/data_from_huggingface.md",
}
PAGES = sorted(
    page for folder in ("start", "howto", "coming_from", "explanation") for page in (DOCS / folder).glob("*.md")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_page_runs_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n# ")
    assert "```{code-cell} python" in text
    assert len(text.split()) <= 900


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_links_lead_to_pages(page: Path) -> None:
    for target in re.findall(r"\{doc\}`([^`]+)`", page.read_text(encoding="utf-8")):
        if not target.startswith("/tutorials/"):
            base = DOCS if target.startswith("/") else page.parent
            assert (base / f"{target.lstrip('/')}.md").exists(), target


def test_every_block_of_python_runs() -> None:
    written = [
        *DOCS.glob("*.md"),
        *(page for one in ("papers", "reference") for page in (DOCS / one).glob("*.md")),
        *PAGES,
    ]
    still = {str(page.relative_to(DOCS)) for page in written if "\n```python\n" in page.read_text(encoding="utf-8")}
    assert still == RUN_BY_TESTS | ELSEWHERE
    for name in RUN_BY_TESTS:
        assert (Path(__file__).parent / f"test_{name.removesuffix('.md')}.py").is_file()
