"""Examples, drawn, with a search over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .markup import Html, element, join, percent
from .values import Example

#: Characters of an example that a search looks through.
SEARCHED = 2000


def examples(found: Sequence[Example], caption: str) -> Html:
    """The part of a page that shows examples.

    :param caption: what the colours say.
    """
    return join([element("p", caption), search(found), *map(article, found)])


def search(found: Sequence[Example]) -> Html | None:
    """A search box, which a script brings to light."""
    if len(found) < 2:
        return None
    box = element("input", type="search", id="find", placeholder="word", autocomplete="off", spellcheck="false")
    wrong = element("input", type="checkbox", id="only-wrong")
    only = element("label", wrong, " only those with errors") if any(one.wrong for one in found) else None
    count = element("output", "", id="found", for_="find", class_="soft")
    return element("form", element("label", "Search ", box), only, count, class_="search", role="search", hidden=True)


def article(one: Example) -> Html:
    """One example."""
    return element("article", _title(one), figure(one), class_="example", data_find=find_text(one.text),
                   data_wrong=True if one.wrong else None)  # fmt: skip


def figure(one: Example) -> Html:
    """The picture of an example, which scrolls if it is wide."""
    return element("div", one.drawn, class_="scroll")


def find_text(text: str) -> str:
    """What a search compares with."""
    return " ".join(text.lower().split())[:SEARCHED]


def _title(one: Example) -> Html:
    return element("h3", *_said(one))


def _said(one: Example) -> Iterator[Html]:
    yield element("b", one.name)
    if one.certainty is not None:
        yield element("span", f"{percent(one.certainty)} sure")
    if one.verdict:
        yield element("span", one.verdict)
