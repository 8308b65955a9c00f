"""Tables and lists of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from .markup import Html, element, join, percent, short, word
from .values import Kinds

if TYPE_CHECKING:
    from ..tasks.shown import Table

#: Rows of a table, and cards of a list, that are shown.
ROWS = 60
#: Characters in the longest name for which two cards have room beside each other on a phone.
NARROW = 14
#: Lines of a card above which it has columns; and the least probability that is worth a line.
MANY, LEAST = 15, 0.0005


def table(heads: Sequence[object], rows: Sequence[Sequence[object]], numbers: int, label: str) -> Html:
    """A table with a header; columns from ``numbers`` on are aligned to the right, but for cells that are made already.

    :param label: what it is, for those who cannot see it.
    """
    head = [one if _is_cell(one) else _cell("th", one, k >= numbers, scope="col") for k, one in enumerate(heads)]
    body = [element("tr", [_row_cell(k, one, numbers) for k, one in enumerate(row)]) for row in rows[:ROWS]]
    drawn = element("table", element("thead", element("tr", head)), element("tbody", body), aria_label=label)
    return join([element("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=label), cut(len(rows))])


def _row_cell(k: int, one: object, numbers: int) -> Html:
    if _is_cell(one):
        return one
    return _cell("th", one, False, scope="row") if k == 0 else _cell("td", one, k >= numbers)


def _is_cell(one: object) -> TypeGuard[Html]:
    """Whether it is a cell already, such as a bar or one with a class of its own."""
    return isinstance(one, Html) and one.startswith(("<td", "<th"))


def _cell(kind: str, inside: object, number: bool, **attributes: object) -> Html:
    return element(kind, inside, class_="number" if number else None, **attributes)


def bar(share: float) -> Html:
    """A cell with a bar, beside a number."""
    return element("td", element("i", style=f"--p:{min(max(share, 0.0), 1.0):.3f}"), class_="bar", aria_hidden="true")


def cut(rows: int, shown: int = ROWS, what: str = "rows") -> Html | None:
    """A sentence that says how much was left out; None if nothing was."""
    return element("p", f"{rows - shown:,} more {what} are left out.", class_="soft") if rows > shown else None


def counted(kinds: Kinds) -> Html:
    """How often something happened, by kind, with bars."""
    most = max((many for _, many in kinds.rows), default=1) or 1
    rows = [
        [*(word(cell) for cell in cells), f"{many:,}", percent(many / max(kinds.of, 1)), bar(many / most)]
        for cells, many in kinds.rows
    ]
    heads = [*kinds.heads, "times", "share", element("span", "", class_="soft")]
    caption = element("p", kinds.caption, class_="soft") if kinds.caption else None
    return join([element("h3", kinds.title), caption, table(heads, rows, len(kinds.heads), kinds.title)])


def likely(shown: Table) -> Html | None:
    """What is likeliest in each state: a card a state, a word a line, with bars."""
    rows = [(name, row) for name, row in shown.rows if row]
    if not rows:
        return None
    cards = []
    for name, row in rows[:ROWS]:
        top, row = row[0][1] or 1.0, [row[0], *(pair for pair in row[1:] if pair[1] >= LEAST)]
        lines = [
            element(
                "li", word(one), element("span", f"{p:.2g}"), style=f"--p:{p / top:.3f}", title=f"{short(one)}: {p:.4g}"
            )
            for one, p in row
        ]
        title = f"{shown.head} {name}".strip().replace("_", " ")
        kind = "card many" if len(lines) > MANY else "card"
        cards.append(element("div", element("h4", word(title)) if title else None, element("ol", lines), class_=kind))
    wide = any(len(one) > NARROW for _, row in rows for one, _ in row)
    grid = element("div", cards, class_="cards wide" if wide else "cards")
    return join([element("h3", shown.what.capitalize()), grid, cut(len(rows), what="of them")])
