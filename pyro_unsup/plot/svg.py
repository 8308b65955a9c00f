"""Pictures as SVG: text that a notebook shows by itself, and that any browser opens."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from pyro_unsup.data.files import write_text

FONT, FONT_SIZE = "system-ui, sans-serif", 15
#: Widths of characters, in font sizes: of most, of those of East Asia, and of those that combine with the one before.
NARROW, WIDE, NONE = 0.58, 1.0, 0.0
#: What XML cannot hold: control characters, halves of surrogate pairs, and two that are no characters at all.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Svg:
    """A picture. A notebook shows it; ``str`` is its source.

    :param source: a whole SVG document. It has no ids and no style sheet, so that pictures never disturb each other.
    """

    source: str

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"Svg({len(self.source):,} characters)"

    def _repr_svg_(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.source}</div>'  # long sentences scroll

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which appears only when it is complete. ``-`` is standard output."""
        with write_text(path) as stream:
            stream.write(self.source)


def drawing(width: float, height: float, parts: Iterable[str], description: str, kind: str | None = None) -> Svg:
    """A picture from its elements.

    :param description: what it shows, for those who cannot see it.
    :param kind: the class by which a style sheet knows it.
    """
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'font-family="{FONT}" font-size="{FONT_SIZE}" fill="currentColor"' + (f' class="{kind}"' if kind else "")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>'
    return Svg("\n".join([head, f"<title>{clean(description)}</title>", *parts, "</svg>\n"]))


def label(text: str, x: float, y: float, **attributes: object) -> str:
    """A piece of text, its middle at x (or as ``text_anchor`` says) and its foot at y."""
    given = {"text_anchor": "middle", **attributes}
    return f'<text x="{x:.1f}" y="{y:.1f}"{_attributes(given)}>{clean(text)}</text>'


def shape(kind: str, **attributes: object) -> str:
    """A ``path``, ``rect`` or ``circle``."""
    return f"<{kind}{_attributes(attributes)}/>"


def group(parts: Iterable[str], title: str, reached: bool = True, **attributes: object) -> str:
    """Elements that belong together, with what a pointer on them shows.

    :param reached: whether a keyboard reaches them too.
    """
    given = {**({"tabindex": 0, "role": "img"} if reached else {}), **attributes}
    return f"<g{_attributes(given)}><title>{clean(title)}</title>{''.join(parts)}</g>"


def _attributes(given: dict[str, object]) -> str:
    """Underscores in names stand for hyphens; one at the end is dropped."""
    spelt = {name.removesuffix("_").replace("_", "-"): value for name, value in given.items()}
    return "".join(f' {name}="{clean(str(value))}"' for name, value in spelt.items())


def clean(text: str) -> str:
    """A text, escaped for XML. Characters that XML does not allow are replaced.

    >>> from pyro_unsup.plot.svg import clean
    >>> clean("a < b" + chr(27))
    'a &lt; b\N{REPLACEMENT CHARACTER}'
    """
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def width_of(text: str) -> float:
    """About how wide a text is, in pixels."""
    return FONT_SIZE * sum(map(_width, text))


def _width(one: str) -> float:
    if unicodedata.combining(one):
        return NONE
    return WIDE if unicodedata.east_asian_width(one) in "FW" else NARROW
