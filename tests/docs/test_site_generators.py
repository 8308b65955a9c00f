"""The parts of the site that are made from code, notebooks and results; without Sphinx building anything."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.deep  # where Sphinx is installed
pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install 'pyro-unsup[docs]'")
pytest.importorskip("mdit_py_plugins", reason="myst-nb is not installed: pip install 'pyro-unsup[docs]'")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import api  # noqa: E402
import commands  # noqa: E402
import gallery  # noqa: E402
import pages  # noqa: E402
import papers  # noqa: E402
import public  # noqa: E402
import shapes  # noqa: E402

from pyro_unsup import reproduce, tasks  # noqa: E402

from . import test_public_names as rules  # noqa: E402


def test_a_folder_holds_the_pages_and_no_others(tmp_path: Path) -> None:
    pages.write(tmp_path, {"a.md": "one", "in/b.md": b"two"})
    before = (tmp_path / "a.md").stat().st_mtime_ns
    pages.write(tmp_path, {"a.md": "one", "c.md": "three"})
    assert (tmp_path / "a.md").stat().st_mtime_ns == before  # Sphinx need not read it again
    assert sorted(one.name for one in tmp_path.rglob("*.md")) == ["a.md", "c.md"]


def test_every_public_name_is_on_one_page() -> None:
    assert {room.path: room.module for room in public.rooms()} == rules.public_modules()
    listed = [one for names in public.names().values() for one in names]
    found = {one.path for one in listed if one.kind != "data"}
    assert found == {one.path for one in rules.NAMES}
    everything = {path for one in listed for path in (one.path, *one.aliases)}
    for path, module in rules.public_modules().items():
        named = {f"{path}.{name}" for name in module.__all__ if not hasattr(getattr(module, name), "__path__")}
        named = {one for one in named if type(getattr(module, one.rpartition(".")[2])).__name__ != "module"}
        assert named <= everything


def test_every_constant_is_described() -> None:
    constants = [one for names in public.names().values() for one in names if one.kind == "data"]
    assert len(constants) > 10
    assert not [one.path for one in constants if not public.constant(one)[1]]


def test_a_page_has_the_members_of_its_classes() -> None:
    import pyro_unsup as pu

    known = {one.value for names in public.names().values() for one in names if one.kind == "class"}
    own, above = api.members(pu.Fit, known)
    assert {"save", "evaluate", "predict", "posterior"} <= {*own, *(one for names in above.values() for one in names)}
    text = "\n".join(api.class_(public.Name("pyro_unsup.Fit", pu.Fit), known))
    assert ".. autoclass:: pyro_unsup.Fit" in text


def test_comments_on_arguments_are_told() -> None:
    lines = ["What it does.", "", ":param x: numbers.", "", ">>> f(1)"]

    def f(
        x: Any,  # (B, T)
        y: Any,  # (*draws, B)
    ) -> None: ...

    shapes.add_shapes(None, "function", "f", f, None, lines)  # type: ignore[arg-type]
    assert ":param x: ``(B, T)``; numbers." in lines
    assert ":param y: ``(*draws, B)``" in lines
    text = ["Rows (*batch, K), or ``(*B,)``.", "", "    a sketch", "", "[1] One.", "[2] Two."]
    shapes.tidy(None, "function", "f", None, None, text)  # type: ignore[arg-type]
    assert text == ["Rows ``(*batch, K)``, or ``(*B,)``.", "", "::", "", "    a sketch", "", "| [1] One.", "| [2] Two."]


def notebook(*cells: dict[str, Any]) -> gallery.Tutorial:
    first = {
        "cell_type": "markdown",
        "metadata": {},
        "source": ["# A title\n", "\n", "It *does* one thing. And more.\n"],
    }
    return gallery.Tutorial("01_title", [first, *cells])


def picture(what: bytes, *tags: str) -> dict[str, Any]:
    output = {"data": {"image/png": base64.b64encode(what).decode()}, "output_type": "display_data"}
    return {"cell_type": "code", "metadata": {"tags": [*tags]}, "source": "", "outputs": [output]}


def test_a_card_has_the_tagged_picture_or_the_first_or_none() -> None:
    assert notebook(picture(b"one"), picture(b"two", "thumbnail")).picture == ("png", b"two")
    assert notebook(picture(b"one"), picture(b"two")).picture == ("png", b"one")
    bare = notebook({"cell_type": "code", "metadata": {}, "source": "1", "outputs": []})
    assert bare.picture is None
    assert (bare.title, bare.summary) == ("A title", "It *does* one thing. And more.")
    assert any("neutral" in line for line in gallery.card(bare, None))
    assert ":img-top: a.png" in gallery.card(bare, "a.png")


def test_every_tutorial_has_a_card() -> None:
    found = gallery.tutorials(ROOT / "tutorials")
    text = gallery.gallery(found, {})
    for one in found:
        assert one.summary
        assert text.count(f":link: {one.name}\n") == 1


def test_links_of_notebooks_lead_to_places_of_the_site() -> None:
    said = "[a](#1.-How-many-states?) [b](../benchmarks/RESULTS.md) [c](../docs/arviz.md) [d](mini.py)"
    assert gallery.with_links_of_the_site(said) == (
        "[a](#1-how-many-states) [b](../reference/results.md) [c](../arviz.md) [d](mini.md)"
    )


def test_every_option_of_every_command_is_listed() -> None:
    made = commands.pages()
    for name in tasks.names("fit"):
        for one in tasks.find(name).options("fit"):
            flag = one.metavar if one.positional else one.flag.split(",")[0]
            assert re.search(
                rf"^````{{option}} (?:.*, )?{re.escape(str(flag))}(?:[ ,]|$)", made[f"fit-{name}.md"], re.M
            ), flag
    for command in ("sample", "predict", "forecast", "evaluate", "show"):
        for name in tasks.names(command):
            assert f"## {name}\n" in made[f"{command}.md"]
    assert "````{option} --seeds NUMBER" in made["reproduce.md"]


def test_examples_are_those_that_were_run() -> None:
    shown = commands.recorded()
    assert {page: [command for command, _ in listed] for page, listed in shown.items()} == commands.EXAMPLES
    assert all(printed for listed in shown.values() for command, printed in listed if ">" not in command)


def test_examples_print_the_same_again() -> None:
    """But for numbers, such as times, and how wide they make a column."""

    def words(shown: dict[str, list[list[str]]]) -> list[str]:
        texts = [printed for listed in shown.values() for _, printed in listed]
        return re.sub(r"[\d.,─]+|e-\d+", " ", " ".join(texts)).split()

    assert words(commands.run()) == words(commands.recorded())


@pytest.mark.parametrize("name", [one.replace("_", "-") for one in reproduce.PAPERS])
def test_a_page_of_a_paper_tells_every_table(name: str) -> None:
    one = reproduce.paper(name)
    assert f"generated/{name}.md" in (ROOT / "docs" / "papers" / f"{name}.md").read_text()
    path = papers.KEPT / name / papers.RESULTS
    record = json.loads(path.read_text()) if path.is_file() else {"tables": {}}
    text = papers.fragment(one, record, {})
    for table in one.tables:
        assert f"--only {table.name}\n" in text
    assert text.count(":::{admonition} Not run yet") == len(one.tables) - len(record["tables"])
    assert text.count("Run on ") == len(record["tables"])


def test_results_are_small_and_name_no_place() -> None:
    for path in papers.KEPT.glob("*/results.json"):
        assert path.stat().st_size <= papers.LARGEST
        assert not re.search(r'"/|/home/|/root/|/tmp/', path.read_text())


def test_results_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = reproduce.paper("textbook-hmm")
    table = one.tables[0]
    found = {table.columns[0].name: 1.5, "secret": "no", "seconds": 1.0}
    line = {"paper": one.name, "table": table.name, "row": table.rows[0].name, "seed": 0, "small": False}
    line |= {"version": "1", "data": "x", "found": found}
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(papers, "KEPT", tmp_path / "kept")
    kept = json.loads(papers.keep(tmp_path).read_text())
    row = kept["tables"][table.name]["rows"][0]
    assert row["runs"] == [{"seed": 0, table.columns[0].name: 1.5, "seconds": 1.0}]
    assert "1.5" in papers.fragment(one, kept, {})
