"""The page that puts several fits side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .examples import figure, find_text, search
from .fit_page import NO_GOLD, word_of
from .markup import Html, element, join, percent, word
from .page import Figure, Part, page
from .provenance import provenance
from .scores import plain, scores, worse
from .tables import table
from .training import curve, seconds

if TYPE_CHECKING:
    from ..results import Fit
    from ..tasks.compared import Compared
    from ..tasks.task import Task
    from .values import Example

NO_DATA = "There are no data to draw. Give --data FILE or --gold FILE to see examples on which the models differ."
ALIKE = "The models found the same in every example that was looked at."
#: The level below which a difference is called more than luck.
LEVEL = 0.05
#: Smaller probabilities are not told to the digit.
SMALLEST = 1e-6


def compare_page(task: Task, fits: Mapping[str, Fit], found: Compared, command: str) -> str:
    """The whole page of a comparison.

    :param fits: by name.
    :param command: that made the page.
    """
    parts = [
        Part("models", "The models", models(fits)),
        Part("training", "Training", training(fits)),
        Part("scores", "Scores", scored(task, found)),
        Part("tests", "More than luck?", tests(task, found) if found.tests else None),
        Part("examples", "Where they differ", examples(task, found)),
        Part("made", "How this page was made", provenance(command)),
    ]
    return page(f"Comparison of {len(fits)} models", " · ".join(fits), task.about, figures(task, found), parts)


def figures(task: Task, found: Compared) -> list[Figure]:
    """The main score of every model."""
    made = []
    for name, one in found.scores.items():
        main = task.main_score(one)
        if main is not None:
            beaten = task.beaten(one, found.baselines)
            note = "a trivial baseline is better" if beaten else plain(main.name)
            made.append(Figure(name, main.show(one[main.name]), note, bool(beaten)))
    return made


def models(fits: Mapping[str, Fit]) -> Html:
    """What each model is."""
    rows = [[element("dt", word(name)), element("dd", word_of(repr(fit.model)))] for name, fit in fits.items()]
    return element("dl", rows, class_="facts")


def training(fits: Mapping[str, Fit]) -> Html:
    """How each was trained, with curves beside each other."""
    rows = []
    for name, fit in fits.items():
        one = fit.report
        starts = f"{max(len(one.restarts), 1):,}"
        cells = [f"{one.iterations:,}", str(one.reason), f"{one.objective:,.2f}", starts, seconds(one.seconds)]
        rows.append([word(name), *cells])
    heads = ["model", "iterations", "ended", "objective", "starts", "time"]
    curves = [element("div", element("h3", word(name)), curve(fit), class_="card") for name, fit in fits.items()]
    said = "Objectives compare models of one kind on one text, and nothing else."
    drawn = element("div", curves, class_="curves")
    return join([table(heads, rows, 1, "Training"), element("p", said, class_="soft"), drawn])


def scored(task: Task, found: Compared) -> Html:
    """Scores of all models, and baselines; in red, which models a baseline beats."""
    if not found.scores:
        return element("p", NO_GOLD)
    beaten = []
    for name, one in found.scores.items():
        said = worse(task, one, found.baselines)
        beaten.append(element("div", element("h3", word(name)), said) if said else None)
    return join([element("p", f"On {found.size}."), beaten, scores(task, found.scores, found.baselines)])


def tests(task: Task, found: Compared) -> Html:
    """Sign tests between all pairs of models."""
    rows = []
    for (a, b), test in found.tests.items():
        better = a if test.wins > test.losses else b
        said = f"{better} is better, by more than luck" if test.p_value < LEVEL else "this may be luck"
        numbers = [f"{n:,}" for n in (test.wins, test.losses, test.ties)]
        rows.append([join([word(a), " against ", word(b)]), *numbers, p_value(test.p_value), element("td", word(said))])
    heads = ["models", "first better", "second better", "equal", "p", element("th", "what it says", scope="col")]
    caption = (
        f"The sign test over {task.examples}: each is won by the model that {task.won_by}. p "
        f"is the probability of a "
        "split at least this uneven, if both models were equally good."
    )
    return join([element("p", caption), table(heads, rows, 1, "Sign tests")])


def examples(task: Task, found: Compared) -> Html:
    """Examples on which the models differ, each drawn by every model."""
    if not found.differing:
        return element("p", ALIKE if found.scores else NO_DATA)
    first = [next(iter(one.values())) for one in found.differing]
    articles = [article(one) for one in found.differing]
    return join([element("p", task.legend(bool(found.scores))), search(_wrong(found.differing, first)), articles])


def _wrong(every: Sequence[Mapping[str, Example]], first: list[Example]) -> list[Example]:
    return [next((e for e in one.values() if e.wrong), first[k]) for k, one in enumerate(every)]


def article(one: Mapping[str, Example]) -> Html:
    """One example, as every model has it."""
    first, drawn = next(iter(one.values())), []
    for name, example in one.items():
        sure = "" if example.certainty is None else f"{percent(example.certainty)} sure"
        title = element("h4", word(name), " ", element("span", sure, " ", example.verdict, class_="soft"))
        drawn.append(element("div", title, figure(example)))
    return element("article", element("h3", element("b", first.name)), drawn, class_="example",
                   data_find=find_text(" ".join(e.text for e in one.values())),
                   data_wrong=True if any(e.wrong for e in one.values()) else None)  # fmt: skip


def p_value(p: float) -> str:
    """A probability of a test; very small ones are told as such, since they are never zero."""
    return f"{p:.3g}" if p >= SMALLEST else f"< {SMALLEST:g}"
