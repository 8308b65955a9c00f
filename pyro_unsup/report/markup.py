"""Markup that cannot be broken into: text becomes markup only by being escaped."""

from __future__ import annotations

from collections.abc import Iterable

from ..plot.svg import Svg, clean

#: Elements that hold nothing.
VOID = ("br", "hr", "img", "input", "meta")
#: Characters of a word that are shown; longer ones are cut.
LONGEST = 48


class Html(str):
    """A piece of markup. Strings that are not of this class are text, and are escaped."""

    __slots__ = ()


def element(kind: str, /, *inside: object, **attributes: object) -> Html:
    """An element of HTML or SVG.

    Text inside it is escaped, and so are the values of attributes. Underscores in the names of attributes stand for
    hyphens, and one at the end is dropped. An attribute that is None is left out; one that is True has no value.

    >>> from pyro_unsup.report.markup import element
    >>> element("p", "a < b", class_="note", hidden=None)
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(_attribute(name, value) for name, value in attributes.items())
    return Html(f"<{kind}{given}>" if kind in VOID else f"<{kind}{given}>{join(inside)}</{kind}>")


def join(inside: Iterable[object]) -> Html:
    """Pieces one after the other: markup as it is, anything else as text."""
    return Html("".join(map(_piece, inside)))


def _piece(one: object) -> str:
    if one is None:
        return ""
    if isinstance(one, Html):
        return str(one)
    if isinstance(one, Svg):
        return one.source
    if isinstance(one, list | tuple):
        return join(one)
    return clean(str(one))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    spelt = name.removesuffix("_").replace("_", "-")
    return f" {spelt}" if value is True else f' {spelt}="{clean(str(value))}"'


def word(text: str) -> Html:
    """A word of a stranger's text: cut if it is very long, and kept from turning its neighbours round."""
    return element("bdi", short(text))


def short(text: str, longest: int = LONGEST) -> str:
    """A text, cut if it is long.

    >>> from pyro_unsup.report.markup import short
    >>> short("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def percent(share: float) -> str:
    """A probability for people.

    >>> from pyro_unsup.report.markup import percent
    >>> percent(0.931), percent(0.0004), percent(0.99996)
    ('93 %', '0.04 %', '100 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"
