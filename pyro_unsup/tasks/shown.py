"""What a fit or samples show: tables for people, and the same as a record for JSON."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..results import Fit, Samples

#: Names, each with its probability.
Likely = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Table:
    """A row a state, with what is likeliest in it.

    :param head: what the rows are.
    :param what: what is in them.
    :param rows: by name, what is likeliest.

    >>> import pyro_unsup as pu
    >>> pu.tasks.Table("tag", "likeliest words", [("0", [("the", 0.5)])]).head
    'tag'
    """

    head: str
    what: str
    rows: Sequence[tuple[str, Likely]]


@dataclass(frozen=True)
class Shown:
    """What ``pyro-unsup show`` prints. ``print(shown)`` prints the same.

    :param record: for JSON.
    :param tables: for people.
    :param facts: lines above the tables, each with a name.
    :param numbers: a table of numbers above the others: heads of columns, and rows.

    >>> from pyro_unsup.tasks import Shown, Table
    >>> print(Shown(tables=[Table("tag", "likeliest words", [("0", [("the", 0.5)])])]))  # doctest: +ELLIPSIS
    tag   likeliest words
    ...
      0   the 0.5
    """

    record: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    facts: Sequence[tuple[str, str]] = ()
    numbers: Sequence[Sequence[str]] = ()

    def print(self, screen: Console) -> None:
        """Print it for people."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as Grid

        if self.facts:
            facts = Grid.grid(padding=(0, 2))
            for name, text in self.facts:
                facts.add_row(f"[bold]{name}", escape(printable(text)))
            screen.print(facts)
        if self.numbers:
            grid, (head, *rows) = Grid(box=box.SIMPLE_HEAD), self.numbers
            for k, name in enumerate(head):
                grid.add_column(name, justify="right" if k else "left")
            for row in rows:
                grid.add_row(*map(escape, row))
            screen.print(grid)
        for table in self.tables:
            if not any(row for _, row in table.rows):
                continue
            grid = Grid(box=box.SIMPLE_HEAD)
            grid.add_column(table.head, justify="right", style="bold cyan", no_wrap=True)
            grid.add_column(table.what)
            for name, likely in table.rows:
                cells = (f"{escape(printable(one))} [dim]{p:.2g}[/dim]" for one, p in likely)
                grid.add_row(escape(printable(name)), "  ".join(cells))
            screen.print(grid)

    def __str__(self) -> str:
        from rich.console import Console

        page = io.StringIO()
        self.print(Console(file=page, highlight=False, color_system=None))
        return "\n".join(
            line.strip("\n").removeprefix(" ").rstrip() for line in page.getvalue().strip("\n").split("\n")
        )


def of_fit(fit: Fit, shown: Shown) -> Shown:
    """The page of a fit: what every model tells of itself, and what its task shows."""
    config = {key: value for key, value in fit.config.items() if key != "labels"}
    first, *others = str(fit.report).splitlines()
    facts = [
        ("model", repr(fit.model)),
        *(("prefers", repr(one)) for one in fit.preferences),
        ("engine", ", ".join(f"{key} {_brief(value)}" for key, value in config.items())),
        ("training", first),
        *(("", line) for line in others),
        ("tables", ", ".join(f"{name} {' x '.join(map(str, w.shape))}" for name, w in fit.weights.items())),
    ]
    tables = {name: list(w.shape) for name, w in fit.weights.items()}
    preferences = {"preferences": [repr(one) for one in fit.preferences]} if fit.preferences else {}
    every = {"seed": fit.seed, **preferences, "config": config, "report": asdict(fit.report), "tables": tables}
    own = {"model": type(fit.model).__name__, **shown.record}
    return replace(shown, facts=facts, record={**own, **{key: x for key, x in every.items() if key not in own}})


def of_samples(samples: Samples, unit: str, shown: Shown) -> Shown:
    """The page of samples: how the chains agree, and what the task shows of the best labelling.

    :param unit: what has labels, in the plural.
    """
    chains, draws, units = samples.labels.shape
    diagnostics, trees = samples.diagnostics(), samples.structure is not None or samples.of_links
    what = "links" if samples.of_links else "trees" if trees else "labels"
    between = samples.agreement() if trees else samples.variation_between_chains()
    facts = [
        ("model", repr(samples.model)),
        ("sampler", ", ".join(f"{key} {value}" for key, value in samples.config.items())),
        ("samples", f"{chains} chain{'s' * (chains > 1)} of {draws:,} draws, {what} of {units:,} {unit}"),
        ("best log joint", ", ".join(f"{x:,.1f}" for x in samples.best_log_joint)),
    ]
    if chains > 1:
        apart = [between[i, j] for i in range(chains) for j in range(i)]
        said = f"VI {min(apart):.3f} to {max(apart):.3f} bits: 0 if all label alike"
        if trees:
            said = f"{100 * min(apart):.0f} to {100 * max(apart):.0f} % of their last {what} in common"
        facts.append(("between chains", said))
    else:
        facts.append(("between chains", "one chain cannot tell whether it has converged: sample with --chains 4"))
    if (samples.path["temperature"][:, samples.kept] != 1).any():
        facts.append(("temperature", "not 1: the draws are on the way to good labels, not of the posterior"))
    numbers: list[tuple[str, ...]] = [("statistic", "mean", "sd", "r_hat", "ess")]
    for name, one in diagnostics.items():
        known = {key: "-" if one[key] != one[key] else f"{one[key]:{how}}" for key, how in _NUMBERS.items()}
        numbers.append((name, *known.values()))
    record = {
        "model": repr(samples.model),
        "config": samples.config,
        "chains": chains,
        "draws": draws,
        unit: units,
        "best_log_joint": samples.best_log_joint.tolist(),
        "accepted": {name: rate.tolist() for name, rate in samples.rates.items()},
        "diagnostics": diagnostics,
        "agreement_of_chains" if trees else "vi_between_chains": between.tolist(),
    }
    return replace(shown, facts=[*facts, *shown.facts], numbers=numbers, record={**record, **shown.record})


_NUMBERS = {"mean": ",.3f", "sd": ".3g", "r_hat": ".3f", "ess": ",.0f"}


def likeliest(log_weights: Any, names: Sequence[str], n: int) -> list[tuple[str, float]]:  # (names,)
    """The likeliest outcomes of a row, with their probabilities; those of probability 0 are left out."""
    best = log_weights.exp().topk(min(n, len(names)))
    return [(names[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True) if p > 0]


def commonest(counts: Any, names: Sequence[str], n: int) -> list[tuple[str, float]]:  # (names,)
    """The names of the largest counts, each with its share of the whole; none without any."""
    best = (-counts).argsort(kind="stable")[:n]
    return [(names[i], float(counts[i] / counts.sum())) for i in best.tolist() if counts[i]]


def listed(row: Likely, name: str, value: str = "probability") -> list[dict[str, Any]]:
    """A row for JSON."""
    return [{name: one, value: p} for one, p in row]


def distinct(names: Sequence[str]) -> list[str]:
    """Names of states; where several states have the same name, each with its number."""
    if len(set(names)) == len(names):
        return list(names)
    return [f"{name}\N{MIDDLE DOT}{k}" for k, name in enumerate(names)]


def printable(text: str) -> str:
    """A text from a file, harmless on a terminal: characters that do not print are escaped.

    >>> from pyro_unsup.tasks.shown import printable
    >>> printable("café" + chr(27) + "[2J")
    'café\\\\x1b[2J'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _brief(value: Any) -> str:
    """A setting; of a schedule its ends."""
    if isinstance(value, list) and value and all(isinstance(one, float) for one in value):
        if len(value) < 3:
            return " ".join(f"{one:g}" for one in value)
        return f"{value[0]:g} .. {value[-1]:g} in {len(value)} steps"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
