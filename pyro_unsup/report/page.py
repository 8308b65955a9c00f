"""The page: head, navigation, and its parts one after the other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from .markup import Html, element, join
from .script import SCRIPT
from .style import STYLE


@dataclass(frozen=True)
class Part:
    """A part of a page.

    :param name: in its address.
    :param title: its heading.
    :param body: what is in it; None leaves the part out.
    """

    name: str
    title: str
    body: Html | None


@dataclass(frozen=True)
class Figure:
    """A number that sums a page up.

    :param name: what it is.
    :param value: for people.
    :param note: what to compare it with.
    :param bad: whether that is better.
    """

    name: str
    value: str
    note: str = ""
    bad: bool = False


def page(kind: str, title: str, lead: str, figures: Sequence[Figure], parts: Sequence[Part]) -> str:
    """A whole document, in one text.

    :param kind: a line above the title.
    :param lead: a sentence below it.
    """
    there = [one for one in parts if one.body]
    links = [element("a", one.title, href=f"#{one.name}") for one in there]
    header = element(
        "header",
        element("p", kind, class_="kind"),
        element("h1", title),
        element("p", lead, class_="lead") if lead else None,
        element("dl", [_figure(one) for one in figures], class_="figures") if figures else None,
        element("nav", links, aria_label="Parts of this page"),
    )
    sections = [
        element("section", element("h2", one.title, id=f"{one.name}-title"), one.body, id=one.name,
                aria_labelledby=f"{one.name}-title")
        for one in there
    ]  # fmt: skip
    body = join([element("main", header, sections), element("div", id="tip", role="tooltip", hidden=True)])
    return f"<!doctype html>\n{element('html', _head(title), element('body', body, _script()), lang='en')}\n"


def _figure(one: Figure) -> Html:
    note = element("small", one.note, class_="bad" if one.bad else None) if one.note else None
    return element("div", element("dt", one.name), element("dd", one.value, note))


def _head(title: str) -> Html:
    """The policy lets a browser run our script alone, and fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        f"base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        Html(f"<style>{STYLE}</style>"),
    )


def _script() -> Html:
    return Html(f"<script>{SCRIPT}</script>")
