"""Gold labels against those that were found, as a shaded table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .markup import Html, element, join, percent, short, word

if TYPE_CHECKING:
    from ..evaluate.labels import Confusion

#: Rows and columns that are shown: the largest.
MOST = 25


def matrix(found: Confusion) -> Html:
    """How gold labels (rows) fall into states (columns): shares of the gold label, in percent."""
    counts = found.counts
    rows = np.sort(np.argsort(-counts.sum(1), kind="stable")[:MOST])
    columns = np.sort(np.argsort(-counts.sum(0), kind="stable")[:MOST])
    rows, columns = rows[counts[rows].sum(1) > 0], columns[counts[:, columns].sum(0) > 0]
    left_out = int((counts.sum(1) > 0).sum()) > len(rows) or int((counts.sum(0) > 0).sum()) > len(columns)
    names = [_named(found.predicted_labels[c], int(found.clusters[c])) for c in columns]
    head = [element("td"), *(element("th", word(short(name, 12)), scope="col") for name in names)]
    body = []
    for r in rows.tolist():
        total, cells = max(int(counts[r].sum()), 1), []
        for c, name in zip(columns.tolist(), names, strict=True):
            many = int(counts[r, c])
            share, own = many / total, int(found.mapping[c]) == r
            said = f"{short(found.gold_labels[r])} in {short(name)}: {many:,}, {percent(share)}"
            text = f"{100 * share:.0f}" if share >= 0.005 else ""
            cells.append(element("td", text, class_="own" if own else None, style=f"--p:{share:.2f}", title=said))
        body.append(element("tr", element("th", word(short(found.gold_labels[r], 16)), scope="row"), cells))
    drawn = element("table", element("thead", element("tr", head)), element("tbody", body), class_="matrix")
    said = "Rows are gold labels, columns what the model found. Numbers are percent of the gold label."
    said += " A frame marks the gold label that a column goes with most."
    said += f" Only the {MOST} largest are shown." if left_out else ""
    area = element("div", drawn, class_="scroll", tabindex=0, role="region", aria_label="Confusion matrix")
    return join([element("p", said, class_="soft"), area])


def _named(label: str, number: int) -> str:
    """States of the same name are told apart by their numbers."""
    return label if label == str(number) else f"{label}\N{MIDDLE DOT}{number}"
