"""Pages as a strict reader sees them: elements must nest, and attributes must be quoted."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "meta"}
#: What a page may be made of. Nothing here fetches anything, or runs but our own script.
KNOWN = {
    *[
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "main",
        "header",
        "nav",
        "section",
        "article",
        "figure",
        "figcaption",
        "footer",
    ],
    *[
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "a",
        "b",
        "i",
        "bdi",
        "small",
        "span",
        "div",
        "dl",
        "dt",
        "dd",
        "ol",
        "li",
        "pre",
        "code",
        "form",
        "label",
        "input",
        "output",
    ],
    *["table", "thead", "tbody", "tr", "th", "td", "svg", "g", "path", "rect", "circle", "text"],
}


@dataclass
class Element:
    """An element of a page."""

    kind: str
    attributes: dict[str, str | None]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    own: str = ""

    @property
    def text(self) -> str:
        """All text inside it."""
        return self.own + "".join(one.text for one in self.children)

    def all(self, kind: str, **wanted: str) -> list[Element]:
        """Elements below it of a kind, with a class among theirs (``class_``) or other attributes."""
        found = []
        for one in self.children:
            have = dict(one.attributes)
            classes = (have.get("class") or "").split()
            fits = all(value in classes if key == "class_" else have.get(key) == value for key, value in wanted.items())
            found += [one] if one.kind == kind and fits else []
            found += one.all(kind, **wanted)
        return found


class Reader(HTMLParser):
    """Builds the tree of a page, and refuses elements that do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("", {})
        self.kinds: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        self.kinds.add(tag)
        made = Element(tag, dict(attrs), self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.at.kind == tag, f"</{tag}> closes <{self.at.kind}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.own += data


def read(page: str) -> Element:
    """The tree of a page that is whole, and made of known elements alone."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.kind}> is never closed"
    assert reader.kinds <= KNOWN, reader.kinds - KNOWN
    return reader.root


def section(page: Element, name: str) -> Element | None:
    """A part of a page; None if it is not there."""
    found = page.all("section", id=name)
    return found[0] if found else None
