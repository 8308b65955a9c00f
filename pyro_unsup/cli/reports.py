"""Pages for the browser: ``report`` of one model, ``compare`` of several."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..results.evaluation import task_of
from ..tasks.compared import Compared, compared
from ..tasks.option import Given
from ..tasks.task import Task
from ..tasks.texts import say
from .common import console
from .use import print_scores

if TYPE_CHECKING:
    from ..results import Fit


def report(task: Task, fit: Fit, given: Given) -> None:
    """Write the page of a model."""
    data, gold = read(task, fit, given)
    fit = heeding(fit, given)
    task.report(fit, data, gold, given.out, command=given.command, title=_title(given), **decoding(task, given))
    if given.out != "-":
        say(f"written to {given.out}; open it in a browser")


def compare(task: Task, fits: Mapping[str, Fit], given: Given) -> None:
    """Print models side by side, and write the page of them."""
    if len(fits) < 2:
        raise InputError("is one model; give the folders of two or more", next(iter(fits)))
    first = next(iter(fits))
    for folder, one in fits.items():
        if not hasattr(one, "weights"):
            raise InputError("holds samples; compare takes models", folder)
        if (other := task_of(one.model)).name != task.name:
            raise InputError(
                f"is for the task {other.name}, and {first} for {task_of(fits[first].model).name}; "
                f"compare models of one "
                "task", folder
            )  # fmt: skip
    data, gold = read(task, fits[first], given)
    named = dict(zip(short_names(list(fits)), (heeding(one, given) for one in fits.values()), strict=True))
    found = compared(task, named, data, gold, given.out, command=given.command, **decoding(task, given))
    _print(task, named, found)
    if given.out not in (None, "-"):
        say(f"written to {given.out}; open it in a browser")


def read(task: Task, fit: Fit, given: Given) -> tuple[Any, Any]:
    """The data of ``--data``, and those of ``--gold``; None for those that were not given."""
    scored, new = (task.commands.get(name) for name in ("evaluate", "predict"))
    apart = scored is not None and any(one.name == "gold" for one in scored.options)
    if given.gold is not None and scored is None:
        raise InputError("models of this task cannot be scored; leave --gold out", given.gold)
    if given.data is not None and new is None:
        raise InputError("models of this task find no structure in files; leave --data out", given.data)
    if apart and given.gold is not None and given.data is None:
        raise InputError("gold structure alone says nothing; give --data FILE, what it is of", given.gold)
    if apart and given.gold is not None:
        return None, task.read_gold(fit, _filled(task, given, given.data))
    gold = None if given.gold is None else _gold(task, fit, given)
    data = None if given.data is None else task.text_of(task.read_new(fit, _filled(task, given, given.data)))
    return data, gold


def _gold(task: Task, fit: Fit, given: Given) -> Any:
    try:
        return task.read_gold(fit, _filled(task, given, given.gold))
    except InputError as error:
        hint = "; a file without gold structure is given by --data"
        raise InputError(error.what + hint, error.path, error.line) from error


def decoding(task: Task, given: Given) -> dict[str, Any]:
    """Options of decoding, for tasks that have some."""
    return task.decoding(given) if hasattr(given, "how") else {}


def heeding(fit: Fit, given: Given) -> Fit:
    """The fit, without what it preferred in training if that was asked for."""
    return fit.without_preferences() if getattr(given, "without_preferences", False) else fit


def short_names(folders: list[str]) -> list[str]:
    """What to call models: the names of their folders, or the folders, if two have one name.

    >>> from pyro_unsup.cli.reports import short_names
    >>> short_names(["a/em", "a/vb/"]), short_names(["a/em", "b/em"])
    (['em', 'vb'], ['a/em', 'b/em'])
    """
    names = [Path(one).resolve().name for one in folders]
    return names if len(set(names)) == len(names) else folders


def _filled(task: Task, given: Given, file: str) -> Given:
    """The options as ``predict`` and ``evaluate`` have them, those that were not given by default."""
    filled = copy(given)
    for name in ("evaluate", "predict"):
        for one in task.commands[name].options if name in task.commands else ():
            if not hasattr(filled, one.name):
                setattr(filled, one.name, one.default)
    filled.file, filled.keep_words, filled.out = file, True, None
    return filled


def _title(given: Given) -> str:
    return Path(given.folder).resolve().name


def _print(task: Task, fits: Mapping[str, Fit], found: Compared) -> None:
    """Tables of training, of scores, and of sign tests."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from ..report.compare_page import p_value
    from ..tasks.shown import printable

    def row(table: Table, *cells: object) -> None:
        table.add_row(*(escape(printable(str(one))) for one in cells))

    trained = Table(box=box.SIMPLE_HEAD)
    for k, name in enumerate(("model", "iterations", "ended", "objective", "seconds")):
        trained.add_column(name, justify="right" if k in (1, 3, 4) else "left")
    for name, fit in fits.items():
        one = fit.report
        row(trained, name, f"{one.iterations:,}", one.reason, f"{one.objective:,.2f}", f"{one.seconds:.1f}")
    console().print(trained)
    if found.scores:
        first, *others = found.scores
        beside = {name: found.scores[name] for name in others} | dict(found.baselines)
        print_scores(task, found.scores[first], beside, name=escape(printable(first)))
    if found.tests:
        tests = Table(box=box.SIMPLE_HEAD)
        for k, name in enumerate(("sign test", f"better on {task.examples}", "worse on", "equal on", "p")):
            tests.add_column(name, justify="right" if k else "left")
        for (a, b), test in found.tests.items():
            row(tests, f"{a} against {b}", test.wins, test.losses, test.ties, p_value(test.p_value))
        console().print(tests)
