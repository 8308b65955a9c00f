"""Tables for the eye: scores with what they say, and what every model can tell of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .common import console, printable

if TYPE_CHECKING:
    from ..results import Fit

IN_BITS = ("vi_bits", "bits_per_word", "bits_per_tag")
NUMBERS = {
    "clusters_used": "{:.0f}",
    "sentences": "{:.0f}",
    "words": "{:.0f}",
    "crossing": "{:.3f}",
    "loglik_per_token": "{:.4f}",
}


def shown(name: str, value: float) -> str:
    """A score for the eye.

    >>> from pyro_unsup.cli.tables import shown
    >>> shown("accuracy", 0.98765), shown("vi_bits", 2.5), shown("clusters_used", 45)
    ('98.8 %', '2.500 bits', '45')
    """
    if name in IN_BITS:
        return f"{value:.3f} bits"
    return NUMBERS[name].format(value) if name in NUMBERS else f"{100 * value:.1f} %"


def print_scores(
    found: Mapping[str, float],
    meaning: Mapping[str, str] | None = None,
    beside: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """A row a score: its name, its value, and what it says, or what the same is of others."""
    from rich import box
    from rich.table import Table

    others = {} if beside is None else beside
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("score", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True, style="bold")
    for name in others:
        table.add_column(name, justify="right")
    if meaning is not None:
        table.add_column("what it says", style="dim")
    for name, value in found.items():
        cells = [shown(name, other[name]) if name in other else "" for other in others.values()]
        table.add_row(name, shown(name, value), *cells, *([] if meaning is None else [meaning.get(name, "")]))
    console().print(table)


def fit_record(fit: Fit) -> dict[str, Any]:
    """What a fit of any model tells, for JSON."""
    return {
        "seed": fit.seed,
        "config": {key: value for key, value in fit.config.items() if key != "labels"},
        "report": asdict(fit.report),
        "tables": {name: list(w.shape) for name, w in fit.weights.items()},
    }


def print_fit(fit: Fit) -> None:
    """The same for the eye."""
    from rich.markup import escape
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_row("[bold]model", escape(repr(fit.model)))
    settings = (f"{key} {_brief(value)}" for key, value in fit.config.items() if key != "labels")
    facts.add_row("[bold]engine", escape(printable(", ".join(settings))))
    for i, line in enumerate(str(fit.report).splitlines()):
        facts.add_row("[bold]training" if i == 0 else "", escape(printable(line)))
    sizes = (f"{name} {' x '.join(map(str, w.shape))}" for name, w in fit.weights.items())
    facts.add_row("[bold]tables", ", ".join(sizes))
    console().print(facts)


def _brief(value: Any) -> str:
    """A setting; of a schedule its ends."""
    if isinstance(value, list) and value and all(isinstance(one, float) for one in value):
        return f"{value[0]:g} .. {value[-1]:g} in {len(value)} steps"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


Likely = Sequence[tuple[str, float]]  # names, with their probabilities


def print_likeliest(head: str, what: str, rows: Iterable[tuple[str, Likely]]) -> None:
    """A row a state, with what is likeliest in it. Nothing if there is nothing."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    found = list(rows)
    if not any(row for _, row in found):
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(head, justify="right", style="bold cyan", no_wrap=True)
    table.add_column(what)
    for name, row in found:
        table.add_row(escape(printable(name)), "  ".join(f"{escape(printable(w))} [dim]{p:.2g}[/dim]" for w, p in row))
    console().print(table)


def likeliest(log_weights: Any, names: Sequence[str], n: int) -> list[tuple[str, float]]:  # (names,)
    """The likeliest outcomes of a row, with their probabilities; those of probability 0 are left out."""
    best = log_weights.exp().topk(min(n, len(names)))
    return [(names[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True) if p > 0]
