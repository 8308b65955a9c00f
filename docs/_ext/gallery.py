"""The gallery of tutorials: notebooks as they are in ``tutorials/``, and a card for each, with one of its pictures.

Nothing is run. The pictures are those that were saved with the notebooks.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdit_py_plugins.anchors.index import slugify
from pages import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The cell whose picture is on the card.
TAG = "thumbnail"
#: By the type of a picture, the ending of its file; what is drawn for screens before what is drawn for paper.
PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}
#: Letters of a card's text, about.
SUMMARY = 150
#: What every chapter of the gallery has, by the first numbers of its notebooks.
CHAPTERS = {
    "First steps": ("01", "10", "14"),
    "Learning": ("02", "03", "07", "09"),
    "Models": ("04", "08", "11"),
    "Bayes": ("05", "06", "12", "13"),
}


@dataclass(frozen=True)
class Tutorial:
    """A notebook.

    :param name: of its file, without ending.
    :param cells: as in the file.
    """

    name: str
    cells: list[dict[str, Any]]

    @property
    def opening(self) -> list[str]:
        """The paragraphs of the first cell."""
        return [" ".join(one.split()) for one in source(self.cells[0]).split("\n\n") if one.strip()]

    @property
    def title(self) -> str:
        return self.opening[0].lstrip("# ")

    @property
    def summary(self) -> str:
        """The first sentences, as Markdown."""
        told = ""
        for sentence in re.split(r"(?<=[.?!]) ", self.opening[1] if len(self.opening) > 1 else ""):
            if len(told) + len(sentence) > SUMMARY and told:
                break
            told = f"{told} {sentence}".strip()
        return re.sub(r"\$[^$]*\$", "", told)

    @property
    def picture(self) -> tuple[str, bytes] | None:
        """The picture of the tagged cell, else the first one, with the ending of its file."""
        tagged = [one for one in self.cells if TAG in one.get("metadata", {}).get("tags", ())]
        for cell in (*tagged, *self.cells):
            for output in cell.get("outputs", ()):
                for kind, ending in PICTURES.items():
                    if data := output.get("data", {}).get(kind):
                        text = data if isinstance(data, str) else "".join(data)
                        return ending, text.encode() if ending == "svg" else base64.b64decode(text)
        return None


def source(cell: dict[str, Any]) -> str:
    found = cell["source"]
    return found if isinstance(found, str) else "".join(found)


def with_links_of_the_site(text: str) -> str:
    """Markdown whose links lead to places of the site: Jupyter has other anchors, and files are elsewhere."""
    text = re.sub(r"\]\(#([^)\s]+)\)", lambda found: f"](#{slugify(found[1].replace('-', ' '))})", text)
    text = text.replace("](../benchmarks/RESULTS.md", "](../reference/results.md").replace(
        "](../docs/examples)", "](../your_own_model.md)"
    )
    text = text.replace("](../docs/", "](../")
    return text.replace("](mini.py)", "](mini.md)").replace("](../README.md)", "](../index.md)")


def copied(path: Path) -> str:
    """A notebook with links that lead to places of the site."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = with_links_of_the_site(source(cell))
    return json.dumps(notebook, indent=1, ensure_ascii=False)


def tutorials(folder: Path) -> list[Tutorial]:
    """The notebooks of a folder, by number."""
    return [Tutorial(path.stem, json.loads(path.read_text())["cells"]) for path in sorted(folder.glob("*.ipynb"))]


def gallery(found: list[Tutorial], pictures: dict[str, str]) -> str:
    """The page of cards.

    :param found: the notebooks.
    :param pictures: by the name of a notebook, the file of its picture.
    """
    lines = [
        "---",
        "html_theme.sidebar_secondary.remove: true",
        "---",
        "# Tutorials",
        "",
        "Each tutorial is a notebook that goes from data to a result. All data are made up, or",
    ]
    lines += ["are in the notebook. Download one from `tutorials/` of the repository and run it.", ""]
    placed = [number for numbers in CHAPTERS.values() for number in numbers]
    others = [one.name[:2] for one in found if one.name[:2] not in placed]
    for chapter, numbers in {**CHAPTERS, "More": tuple(others)}.items():
        inside = [one for number in numbers for one in found if one.name.startswith(f"{number}_")]
        if inside:
            lines += [f"## {chapter}", "", "::::{grid} 1 2 2 3", ":gutter: 3", ""]
            for one in inside:
                lines += [*card(one, pictures.get(one.name)), ""]
            lines += ["::::", ""]
    lines += ["```{toctree}", ":hidden:", "", *(one.name for one in found), "mini", "```"]
    return "\n".join(lines) + "\n"


def card(one: Tutorial, picture: str | None) -> list[str]:
    """A card of sphinx-design. Without a picture it has a coloured field with the number."""
    lines = [f":::{{grid-item-card}} {one.title}", f":link: {one.name}", ":link-type: doc", ":class-card: tutorial"]
    if picture is not None:
        return [
            *lines,
            f":img-top: {picture}",
            f":img-alt: A picture from the tutorial {one.title}",
            "",
            one.summary,
            ":::",
        ]
    hue = int(hashlib.sha256(one.name.encode()).hexdigest(), 16) % 4
    return [*lines, f":class-item: neutral neutral-{hue}", "", one.summary, ":::"]


MINI = """# The smallest version: `mini.py`

`tutorials/mini.py` is the idea of the library in one short file: a tagger, its exact expected counts by a gradient, and
EM. It needs torch only. Read it from top to bottom.

```python
{code}
```
"""


def make(app: Sphinx) -> None:
    """Copy the notebooks, and write the page of cards, before Sphinx looks for them."""
    root = Path(app.srcdir).parent / "tutorials"
    found = tutorials(root)
    pages: dict[str, str | bytes] = {f"{one.name}.ipynb": copied(root / f"{one.name}.ipynb") for one in found}
    pictures = {}
    for one in found:
        if (picture := one.picture) is not None:
            pictures[one.name] = f"thumbnails/{one.name}.{picture[0]}"
            pages[pictures[one.name]] = picture[1]
    pages["mini.md"] = MINI.format(code=(root / "mini.py").read_text().rstrip())
    pages["index.md"] = gallery(found, pictures)
    write(Path(app.srcdir, "tutorials"), pages)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
