"""Tutorials are complete: saved outputs that belong to their code, a summary, a picture, exercises. Nothing is run.

``pytest -m deep tutorials`` runs them and compares what they show with what is saved.
"""

from __future__ import annotations

import ast
import base64
import copy
import io
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from PIL import Image, ImageDraw

from tests.notebooks import NOTEBOOKS, ROOT, code_cells, compare_pictures, compare_text, differences, digest, main

WORDS, KILOBYTES, ALL_KILOBYTES = 1200, 600, 5000
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
#: An address in memory, a path from the root of a file system, a progress bar, a duration.
CHANCE = re.compile(r"0x[0-9a-f]{6,}|(?<![\w<:/.*])/(?:\w[\w.-]*/)+\w|\d+%\|| it/s|\b\d+(?:\.\d+)? (?:s|ms|seconds)\b")
PLOTS = re.compile(r"plt\.(?:subplots|figure)\(|\bplot\.\w+\(|\baz\.plot_\w+\(|\.plot\(")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> NotebookNode:
    return nbformat.read(request.param, as_version=4)


def tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def shown(cell: NotebookNode) -> str:
    """All text of a cell's outputs."""
    parts = [output.get("text", "") for output in cell.outputs]
    return "\n".join(parts + [output["data"].get("text/plain", "") for output in cell.outputs if "data" in output])


def pictures(cell: NotebookNode) -> list[str]:
    kinds = ("image/png", "image/svg+xml")
    return [one["data"][kind] for one in cell.outputs for kind in kinds if kind in one.get("data", {})]


def missing(cell: NotebookNode) -> str | None:
    """What a cell should have shown, going by its source, and has not."""
    last = ast.parse(cell.source).body[-1]
    if any(isinstance(part, ast.Call) and ast.unparse(part.func) == "print" for part in outside_functions(cell.source)):
        return None if any(one.output_type == "stream" for one in cell.outputs) else "a printed text"
    if PLOTS.search(cell.source) and "def " not in cell.source and not pictures(cell):
        return "a picture"
    names = (ast.Name, ast.Attribute, ast.Subscript)
    if isinstance(last, ast.Expr) and isinstance(last.value, names) and not cell.outputs:
        return "a value"
    return None


def outside_functions(source: str) -> list[ast.AST]:
    top = [part for part in ast.parse(source).body if not isinstance(part, ast.FunctionDef | ast.ClassDef)]
    return [part for one in top for part in ast.walk(one)]


def test_outputs_belong_to_the_code(notebook: NotebookNode) -> None:
    assert notebook.metadata.get("sources") == digest(notebook), "code has changed: python -m tests.notebooks --write"
    assert [cell.execution_count for cell in code_cells(notebook)] == [*range(1, len(code_cells(notebook)) + 1)]


def test_every_cell_has_its_outputs(notebook: NotebookNode) -> None:
    found = {cell.id: missing(cell) for cell in code_cells(notebook)}
    assert not {name: what for name, what in found.items() if what}


def test_outputs_hold_nothing_of_chance(notebook: NotebookNode) -> None:
    for cell in code_cells(notebook):
        assert not [one for one in cell.outputs if one.output_type == "error" or one.get("name") == "stderr"], cell.id
        assert not CHANCE.search(shown(cell)), f"{cell.id}: {CHANCE.search(shown(cell))}"
        if "remove-cell" in tags(cell):
            assert not cell.outputs, cell.id


def test_form(notebook: NotebookNode) -> None:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    title, _, summary = texts[0].partition("\n\n")
    assert title.startswith("# ")
    assert "\n\n" not in summary, "the summary is one paragraph"
    assert "You will learn" in " ".join(summary.split())
    assert re.match(r"## Exercises\n\n1\. ", texts[-2])
    assert 2 <= len(re.findall(r"^\d\. ", texts[-2], re.MULTILINE)) <= 4
    assert texts[-1].startswith("## References\n\n- ")
    words = [word for word in FORMULA.sub(" ", "\n".join(texts)).split() if re.search(r"[^\W\d_]", word)]
    assert len(words) <= WORDS
    sections = [int(number) for number in re.findall(r"^## (\d+)\. ", "\n".join(texts), re.MULTILINE)]
    assert sections == [*range(1, len(sections) + 1)]


def test_setup(notebook: NotebookNode) -> None:
    visible = [cell.source for cell in code_cells(notebook) if "remove-cell" not in tags(cell)]
    assert 'smoke_test = "CI" in os.environ' in visible[0]
    assert "pyro.set_rng_seed(" in visible[0]
    assert "torch.set_num_threads(1)" in visible[0]
    for source in visible:
        parts = [*ast.walk(ast.parse(source))]
        assert not any(isinstance(part, ast.Assert) or "assert_close" in getattr(part, "attr", "") for part in parts)
    for source in visible[1:]:
        assert not any(isinstance(part, ast.Import | ast.ImportFrom) for part in ast.walk(ast.parse(source))), source


def test_one_picture_is_the_thumbnail(notebook: NotebookNode) -> None:
    (cell,) = [cell for cell in code_cells(notebook) if "thumbnail" in tags(cell)]
    png = next(one["data"]["image/png"] for one in cell.outputs if "image/png" in one.get("data", {}))
    assert Image.open(io.BytesIO(base64.b64decode(png))).width > 400


def test_they_are_small() -> None:
    sizes = {path.name: path.stat().st_size / 1000 for path in NOTEBOOKS}
    assert len(sizes) >= 14
    assert max(sizes.values()) < KILOBYTES, sizes
    assert sum(sizes.values()) < ALL_KILOBYTES, sizes


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_paths_of_a_machine(path: Path) -> None:
    """Neither in sources nor anywhere else in the file."""
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", path.read_text())
    assert str(ROOT) not in path.read_text()


def test_texts_differ_by_their_numbers() -> None:
    assert not [*compare_text("a 0.613 and -69,460.43", "a  0.614 and \N{MINUS SIGN}69,460.40")]
    assert not [*compare_text("largest difference 2.1e-14", "largest difference 5.0e-15")]
    assert not [*compare_text("a -0.000", "a 0.000")]
    assert [*compare_text("a 0.613", "a 0.630")]
    assert [*compare_text("12 states", "13 states")]
    assert [*compare_text("a 0.613", "b 0.613")]
    assert [*compare_text("1 2", "1 2 3")]
    assert not [*compare_text("mean 1.00", "mean 1.20", 0.3)]
    assert [*compare_text("mean 1.00", "mean 1.40", 0.3)]


def curve(height: int, width: int = 600, weight: int = 2) -> Image.Image:
    """Axes and a line through them."""
    image = Image.new("RGB", (width, 300), "white")
    pen = ImageDraw.Draw(image)
    pen.line([(40, 10), (40, 280), (590, 280)], "black", 1)
    pen.line([(40, 250), (590, 250 - height)], (31, 119, 180), weight)
    return image


def test_pictures_differ_by_their_ink() -> None:
    assert not [*compare_pictures(curve(200), curve(200))]
    assert not [*compare_pictures(curve(200), curve(199))]
    assert not [*compare_pictures(curve(200), curve(200).resize((605, 302)))]
    assert [*compare_pictures(curve(200), curve(150))]
    assert [*compare_pictures(curve(200), curve(0))]
    assert [*compare_pictures(curve(200), curve(200, width=700))]


def test_changed_outputs_are_noticed() -> None:
    saved = nbformat.read(NOTEBOOKS[0], as_version=4)
    found = copy.deepcopy(saved)
    assert not [*differences(saved, found)]
    spoken = next(cell for cell in code_cells(found) if any(one.output_type == "stream" for one in cell.outputs))
    spoken.outputs[0].text += "more"
    drawn = next(cell for cell in code_cells(found) if "thumbnail" in tags(cell))
    drawn.outputs = [one for one in drawn.outputs if "image/png" not in one.get("data", {})]
    assert {re.split("[ :]", what)[1] for what in differences(saved, found)} == {spoken.id, drawn.id}
    spoken.source += "\n"
    assert digest(found) != saved.metadata["sources"]


def test_missing_outputs_are_noticed() -> None:
    cell = nbformat.v4.new_code_cell
    assert missing(cell("x = 1\nprint(x)")) == "a printed text"
    assert missing(cell("figure, ax = plt.subplots()")) == "a picture"
    assert missing(cell("table = 1\ntable")) == "a value"
    assert missing(cell("def f():\n    print(1)")) is None


def test_unknown_tutorials_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["99"])
    assert "no tutorial 99, expected some of 01, 02" in capsys.readouterr().err
