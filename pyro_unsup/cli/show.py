"""``pyro-unsup show``: what a model is and what it has learned."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import ModelArgument, console, load_tagger, print_json, printable, state_names

if TYPE_CHECKING:
    from ..models import Tagger
    from ..results import Fit


def show(
    folder: ModelArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each tag.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show a model: what it is, how its training ended, its tables, and the likeliest words of each tag."""
    fit, model = load_tagger(folder)
    likeliest = top_words(fit, model, words)
    if as_json:
        print_json(_record(fit, model, likeliest))
    else:
        _print(fit, model, likeliest)


def top_words(fit: Fit, model: Tagger, n: int) -> list[list[tuple[str, float]]]:
    """The likeliest words of each state with their probabilities; those of probability 0 are left out."""
    vocab: Any = model.vocab
    best = fit.weights["emission"].exp().topk(min(n, len(vocab)), dim=1)  # (K, n)
    return [
        [(vocab[i], p) for i, p in zip(ids, values, strict=True) if p > 0]
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _record(fit: Fit, model: Tagger, likeliest: list[list[tuple[str, float]]]) -> dict[str, Any]:
    names = state_names(fit, model.states)
    return {
        "model": type(model).__name__,
        "tags": model.states,
        "words": model.words,
        "order": model.order,
        "stop": model.stop,
        "dictionary": model.declarations()["emission"].layout.support is not None,
        "seed": fit.seed,
        "config": {key: value for key, value in fit.config.items() if key != "labels"},
        "report": asdict(fit.report),
        "tables": {name: list(w.shape) for name, w in fit.weights.items()},
        "states": [
            {"state": k, "label": name, "top_words": [{"word": word, "probability": p} for word, p in row]}
            for k, (name, row) in enumerate(zip(names, likeliest, strict=True))
        ],
    }


def _print(fit: Fit, model: Tagger, likeliest: list[list[tuple[str, float]]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    screen = console()
    facts = Table.grid(padding=(0, 2))
    facts.add_row("[bold]model", escape(repr(model)))
    settings = (f"{key} {value}" for key, value in fit.config.items() if key != "labels")
    facts.add_row("[bold]engine", escape(printable(", ".join(settings))))
    for i, line in enumerate(str(fit.report).splitlines()):
        facts.add_row("[bold]training" if i == 0 else "", escape(printable(line)))
    sizes = (f"{name} {' x '.join(map(str, w.shape))}" for name, w in fit.weights.items())
    facts.add_row("[bold]tables", ", ".join(sizes))
    screen.print(facts)
    if not any(likeliest):
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("tag", justify="right", style="bold cyan", no_wrap=True)
    table.add_column("likeliest words")
    for name, row in zip(state_names(fit, model.states), likeliest, strict=True):
        table.add_row(escape(printable(name)), "  ".join(f"{escape(printable(w))} [dim]{p:.2g}[/dim]" for w, p in row))
    screen.print(table)
