"""Scores beside those of trivial baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .markup import Html, element, join
from .tables import table

if TYPE_CHECKING:
    from ..tasks.task import Task

Scores = Mapping[str, float]


def scores(task: Task, found: Mapping[str, Scores], beside: Mapping[str, Scores]) -> Html:
    """A row a score: of the model, or of several, and of baselines.

    :param found: by model, its scores.
    :param beside: by baseline, its scores.
    """
    known = task.score_named
    trivial = [beside[one.name] for one in task.baselines_known if one.trivial and one.name in beside]
    names = list(dict.fromkeys(name for one in found.values() for name in one))
    rows = []
    for name in names:
        score, values = known(name), {model: one.get(name) for model, one in found.items()}
        said = [values[model] for model in found]
        sign = -1 if score.lower_is_better else 1
        best = max((sign * x for x in said if x is not None and math.isfinite(x)), default=None)
        cells: list[object] = [element("span", plain(name))]
        for value in said:
            shown = "" if value is None else score.show(value)
            judged = score.meaning and score.unit != ".0f"  # others are sizes
            strong = len(found) == 1 or (judged and value is not None and sign * value == best)
            behind = judged and value is not None and any(sign * one.get(name, value) > sign * value for one in trivial)
            kind = "number behind" if behind else "number best" if strong else "number"
            cells.append(element("td", shown, class_=kind))
        cells += [score.show(one[name]) if name in one else "\N{EN DASH}" for one in beside.values()]
        rows.append([*cells, element("td", score.meaning, class_="soft")])
    heads = ["score", *found, *(plain(name) for name in beside), element("th", "what it says", scope="col")]
    drawn = table(heads, rows, 1, "Scores")
    means = [(plain(one.name), one.meaning) for one in task.baselines_known if one.name in beside]
    return join([drawn, *(element("p", f"{name}: {meaning}.", class_="soft") for name, meaning in means)])


def plain(name: str) -> str:
    """The name of a score or a baseline, for people."""
    return name.replace("_", " ")


def worse(task: Task, found: Scores, beside: Mapping[str, Scores]) -> Html | None:
    """One sentence in red, if a trivial baseline is better than the model."""
    said = task.beaten(found, beside)
    return element("p", said[0].upper() + said[1:] + ".", class_="worse") if said else None
