"""What the demo prints, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..tasks import find
from ..tasks.shown import likeliest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..data import Corpus
    from ..results import Fit

SAMPLES = 4
SAMPLE_LENGTHS = (6, 8)  # words: enough to be a sentence, few enough for a line
TOP = 7


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; columns ``right`` are aligned to the right."""
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return grid


def say(screen: Console, text: str) -> None:
    """A paragraph, wrapped at the width of the screen."""
    from rich.padding import Padding

    screen.print(Padding(text, (0, 2)))


def opening(screen: Console, text: Corpus, starts: int) -> None:
    """What there is to learn from, and how."""
    assert text.tagset is not None
    screen.rule("[bold]The text", align="left")
    say(
        screen,
        f"{len(text):,} sentences, {text.tokens:,} words, drawn from a small hand-written grammar. The first:\n\n"
        f"  [bold]{' '.join(text.sentence(0))}[/bold]\n\n"
        f"Each word has one of {len(text.tagset)} tags ({', '.join(text.tagset)}). The learner sees the words alone.\n",
    )
    screen.rule("[bold]Learning", align="left")
    say(
        screen,
        f"A hidden Markov model with {len(text.tagset)} tags that mean nothing yet: a tag says which tags may follow, "
        "and which words it is likely to be. EM starts from noise and raises the probability of the text step by step. "
        f"Where it ends depends on where it starts, so it starts {starts} times.",
    )


def starts_page(screen: Console, fits: list[Fit], best: Fit) -> None:
    """How the starts fared."""
    grid = table(
        "start", "steps", "log-likelihood", "many-to-1", "", right=("start", "steps", "log-likelihood", "many-to-1")
    )
    for i, fit in enumerate(fits):
        mark = "<- the likeliest: kept" if fit is best else ""
        grid.add_row(
            str(i + 1),
            str(fit.report.iterations),
            f"{fit.objective:,.1f}",
            f"{100 * fit.rows[-1]['many_to_one']:.1f} %",
            mark,
            style="bold green" if fit is best else "",
        )
    screen.print(grid)
    best_score = max(fit.rows[-1]["many_to_one"] for fit in fits)
    if best.rows[-1]["many_to_one"] < best_score:
        say(screen, "The likeliest is not the one with the best score: a likely model is not always a good tagger.\n")


def scores_page(screen: Console, text: Corpus, fit: Fit) -> None:
    """The scores of the best start, against gold tags."""
    assert text.tags is not None
    screen.rule("[bold]Scores against the gold tags", align="left")
    grid = table("score", "value", "what it says", right=("value",))
    scores = {one.name: one for one in find("tagger").scores_known}
    for name, value in fit.evaluate(text).items():
        grid.add_row(name, f"[bold]{scores[name].show(value)}[/bold]", f"[dim]{scores[name].meaning}[/dim]")
    screen.print(grid)
    most = np.bincount(text.tags).max() / text.tokens
    say(screen, f"One tag for every word would have a many_to_one of {100 * most:.1f} %.\n")


def sample(screen: Console, text: Corpus, states: Any) -> None:
    """A few sentences: words, induced tags, gold tags."""
    from rich.table import Table

    assert text.tags is not None
    assert text.tagset is not None
    names = _names(text, states)
    screen.rule("[bold]A sample", align="left")
    say(
        screen,
        "Under each word its induced tag, called by the gold tag that it goes with most, with its number: [green]green"
        "[/green] where that is right, [red]red[/red] where it is not. Under it the gold tag.\n",
    )
    short, long = SAMPLE_LENGTHS
    for i in np.flatnonzero((text.lengths >= short) & (text.lengths <= long))[1 : SAMPLES + 1].tolist():
        start, end = text.offsets[i], text.offsets[i + 1]
        gold = text.sentence_tags(i)
        induced = [
            f"[{'green' if names[state] == tag else 'red'}]{names[state]}·{state}"
            for state, tag in zip(states[start:end].tolist(), gold, strict=True)
        ]
        rows = Table.grid(padding=(0, 1))
        rows.add_row(" ", *(f"[bold]{word}" for word in text.sentence(i)))
        rows.add_row(" ", *induced)
        rows.add_row(" ", *(f"[dim]{tag}" for tag in gold))
        screen.print(rows)
        screen.print()


def tags_page(screen: Console, text: Corpus, states: Any, fit: Fit) -> None:
    """What each induced tag has become."""
    from ..evaluate import contingency

    assert text.tagset is not None
    names, top = _names(text, states), [likeliest(row, text.vocab.types, TOP) for row in fit.weights["emission"]]
    counts = contingency(text.tags, states, len(text.tagset), len(top))  # type: ignore[arg-type]
    share, purity = counts.sum(0) / text.tokens, counts.max(0) / np.maximum(counts.sum(0), 1)
    screen.rule("[bold]What the induced tags are", align="left")
    grid = table("tag", "words", "mostly", "", "likeliest words", right=("tag", "words", ""))
    for state in np.argsort(-share, kind="stable").tolist():
        grid.add_row(
            str(state),
            f"{100 * share[state]:.0f} %",
            f"[bold]{names[state]}[/bold]",
            f"{100 * purity[state]:.0f} %",
            "  ".join(word for word, _ in top[state]),
        )
    screen.print(grid)


def _names(text: Corpus, states: Any) -> list[str]:
    """Each state by its commonest gold tag."""
    from ..evaluate import relabel

    assert text.tagset is not None
    mapping = relabel(text.tags, states, predicted_size=len(text.tagset))  # type: ignore[arg-type]
    return [text.tagset[int(tag)] if tag >= 0 else "-" for tag in mapping]
