"""The report of one fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .examples import examples
from .markup import Html, element, join, word
from .matrix import matrix
from .page import Figure, Part, page
from .provenance import provenance
from .scores import plain, scores, worse
from .tables import counted, likely, table
from .training import seconds, training

if TYPE_CHECKING:
    from ..results import Fit
    from ..tasks.shown import Shown
    from ..tasks.task import Task
    from .values import Example, Kinds, Picture

NO_GOLD = (
    "There is no gold structure to compare with. Give --gold FILE (in Python, data with gold structure) for scores."
)
NO_DATA = "There are no data to draw. Give --data FILE or --gold FILE (in Python, the data) to see examples."


def fit_page(
    task: Task,
    fit: Fit,
    *,
    shown: Shown,
    pictures: Sequence[Picture],
    found: Mapping[str, float] | None,
    beside: Mapping[str, Mapping[str, float]],
    confused: Any,
    mistakes: Sequence[Kinds],
    drawn: Sequence[Example],
    size: str,
    title: str | None,
    command: str,
) -> str:
    """The whole page of a fit.

    :param shown: what ``show`` shows.
    :param pictures: more of what was learned.
    :param found: scores; None without gold.
    :param beside: by baseline, its scores.
    :param confused: gold labels against states, or None.
    :param mistakes: errors by kind.
    :param drawn: examples.
    :param size: of the data that were scored.
    :param command: that made the page.
    """
    scored = None
    if found is not None:
        scored = join([worse(task, found, beside), element("p", f"On {size}.") if size else None,
                       scores(task, {"model": found}, beside)])  # fmt: skip
    parts = [
        Part("model", "The model", model(task, shown)),
        Part("training", "Training", training(fit)),
        Part("learned", "What it learned", learned(shown, pictures)),
        Part("scores", "Scores", element("p", NO_GOLD) if scored is None else scored),
        Part("confusion", "Confusion", None if confused is None else matrix(confused)),
        Part("errors", "Errors by kind", join(map(counted, mistakes)) if mistakes else None),
        Part(
            "examples", "Examples", examples(drawn, task.legend(found is not None)) if drawn else element("p", NO_DATA)
        ),
        Part("made", "How this page was made", provenance(command)),
    ]
    name = type(fit.model).__name__
    return page(f"Report \N{MIDDLE DOT} {name}", title or name, task.about, figures(task, fit, found, beside), parts)


def figures(
    task: Task, fit: Fit, found: Mapping[str, float] | None, beside: Mapping[str, Mapping[str, float]]
) -> list[Figure]:
    """The numbers that sum a fit up."""
    report, made = fit.report, []
    main = None if found is None else task.main_score(found)
    if main is not None and found is not None:
        others = {one: beside[one.name][main.name] for one in task.baselines_known
                  if one.trivial and main.name in beside.get(one.name, {})}  # fmt: skip
        sign = -1 if main.lower_is_better else 1
        best = max(others, key=lambda one: sign * others[one], default=None)
        note = "" if best is None else f"best baseline {main.show(others[best])} ({plain(best.name)})"
        made.append(Figure(plain(main.name), main.show(found[main.name]), note, bool(task.beaten(found, beside))))
    starts = f"best of {len(report.restarts)} starts" if len(report.restarts) > 1 else "one start"
    made.append(Figure("objective", f"{report.objective:,.2f}", starts))
    made.append(Figure("iterations", f"{report.iterations:,}", str(report.reason)))
    made.append(Figure("time", seconds(report.seconds), f"seed {fit.seed}"))
    return made


def model(task: Task, shown: Shown) -> Html:
    """What the model is, and how it was set up."""
    facts = [(name, text) for name, text in shown.facts if name != "training" and name]
    return element("dl", [[element("dt", name), element("dd", word_of(text))] for name, text in facts], class_="facts")


def word_of(text: str) -> Html:
    """A setting, as code."""
    return element("code", element("bdi", text if len(text) < 2000 else text[:2000] + "…"))


def learned(shown: Shown, pictures: Sequence[Picture]) -> Html | None:
    """What the model learned: pictures, numbers and likely things."""
    drawn = [
        join([element("h3", one.title),
              element("figure", element("div", one.drawn, class_="scroll"),
                      element("figcaption", one.caption) if one.caption else None)])
        for one in pictures
    ]  # fmt: skip
    numbers = None
    if shown.numbers:
        head, *rows = shown.numbers
        cells: list[list[object]] = [[word(one) for one in row] for row in rows]
        numbers = join([element("h3", "By state"), table(head, cells, 1, "Parameters by state")])
    found = [*drawn, numbers, *(likely(one) for one in shown.tables)]
    return join(found) or None
