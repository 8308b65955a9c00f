"""SVG: valid whatever the text is."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.plot.svg import FONT_SIZE, Svg, drawing, label, shape, width_of

NAME = "{http://www.w3.org/2000/svg}"


def parsed(picture: Svg) -> ET.Element:
    return ET.fromstring(str(picture))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_any_text_is_valid_xml(text: str) -> None:
    root = parsed(drawing(10, 20, [label(text, 1, 2, fill=text)], text))
    found = root.findtext(f"{NAME}text") or ""
    assert len(found.replace("\r\n", "\n")) == len(text.replace("\r\n", "\n"))
    kept = [(one, other) for one, other in zip(text, found, strict=False) if one.isprintable()]
    assert all(one == other for one, other in kept) or "\r\n" in text


def test_elements() -> None:
    parts = [label("a<b>&\"'", 1, 2.25, text_anchor="end"), shape("rect", x=1, stroke_width=0.5)]
    root = parsed(drawing(10, 20, parts, "猫 & dog"))
    assert root.tag == f"{NAME}svg"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("10", "20", "0 0 10 20")
    assert [one.tag.removeprefix(NAME) for one in root] == ["title", "text", "rect"]
    title, text, rect = root
    assert (title.text, text.text) == ("猫 & dog", "a<b>&\"'")
    assert (text.get("x"), text.get("y"), text.get("text-anchor")) == ("1.0", "2.2", "end")
    assert rect.get("stroke-width") == "0.5"


def test_a_notebook_shows_it_and_a_file_keeps_it(tmp_path: Path) -> None:
    picture = drawing(10, 20, [], "nothing")
    assert picture._repr_svg_() == str(picture)
    assert str(picture) in picture._repr_html_()
    assert repr(picture) == f"Svg({len(str(picture)):,} characters)"
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8") == str(picture)


def test_widths() -> None:
    assert width_of("猫") == FONT_SIZE
    assert width_of("e\u0301") == width_of("e") < width_of("ee") == 2 * width_of("e")
    assert width_of("") == 0
