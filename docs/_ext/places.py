"""Places in the table of contents for the guides that are older than the folder of how-tos."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: By the page that lists them, pages in the folder above.
OLDER = {
    "howto/index": ("your_own_model", "preferences", "arviz", "label_switching", "report"),
    "explanation/index": ("architecture",),
}


def add(app: Sphinx, name: str, source: list[str]) -> None:
    """List the guides at the end of their page; of a page that is not there, at the end of the first page."""
    known = app.env.found_docs
    for page, listed in OLDER.items():
        if name == (page if page in known else "index"):
            named = [f"/{one}" for one in listed if one in known and f"../{one}" not in source[0]]
            if named:
                source[0] += "\n".join(["\n", "```{toctree}", ":hidden:", "", *named, "```", ""])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
