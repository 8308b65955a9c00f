"""From tasks to commands: options that are data become options of the command line."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import pyro_unsup as pu

from .. import registry, tasks
from ..errors import InputError, UnsupError, an
from ..tasks.option import Given, Option
from ..tasks.task import Task
from ..tasks.texts import BY_NUMBER, by_number_only

if TYPE_CHECKING:
    from ..results import Fit, Samples

#: What is done with a saved model. Of samples there are only the last two.
USES = {
    "predict": "Find the hidden structure of new text by a model, and write it out.",
    "forecast": "Forecast what comes after the end of time series.",
    "evaluate": "Score a model, or samples, on data with gold structure.",
    "show": "Show what a model is and what it has learned, or what samples say.",
    "report": "Write a report of a model, one page for the browser.",
    "compare": "Compare models of one task, in a table and on a page for the browser.",
}


class ByTask(TyperGroup):
    """A group with one command for each task: ``fit`` and ``sample``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return tasks.names(self.name or "")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = self.name or ""
        task = tasks.find(cmd_name) if cmd_name in registry.names("tasks") else None
        if task is None or name not in task.commands:
            return None
        words = task.commands[name].help
        return command(cmd_name, words, task.options(name), lambda given: _runner(name)(task, given))


class ByModel(TyperCommand):
    """A command on a saved model. The task of the model decides its options, so the model is read first.

    The name of a task in the place of the folder does as well to ask for help.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["DIR", *(["DIR..."] if self.name == "compare" else []), "[OPTIONS]", "..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        name = self.name or ""
        found = {one: _help(one, name).partition("\n")[0] for one in tasks.names(name)}
        self.help = "\n".join([
            USES[name],
            "",
            "What it reads, writes and can be told depends on the model. DIR --help says it, where DIR is the folder "
            "of a model. Without a model, so does its name with --help:",
            "",
            *(f"- `{one}`: {first}" for one, first in found.items() if one != "generic"),
        ])  # fmt: skip
        super().format_help(ctx, formatter)

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        name, words = self.name or "", [*args]
        try:
            task, folder, found = _look(args)
        except UnsupError:
            if not extra.get("resilient_parsing"):
                raise
            task = None  # the shell asks how a line may go on that is not whole yet
        if task is None:
            return super().make_context(info_name, args, parent, **extra)
        sampled = found is not None and not hasattr(found, "weights")
        use = f"{name}_samples" if sampled else name
        own = task.command(use)
        if own is None and sampled and name == "predict":
            raise InputError(
                f"holds samples of {an(task.name)}; evaluate and show take them, predict needs a model", folder
            )
        if own is None:
            kind = task.name if found is None else type(found.model).__name__
            what, instead = (f"samples of {an(kind)}", "pu.Samples.load") if sampled else (an(kind), "pu.load")
            raise InputError(f"{what}, for which the command line has no {name}: use {instead}", folder)

        def run(given: Given) -> None:
            given.command = shlex.join(["pyro-unsup", name, *words])
            if isinstance(given.folder, list):
                loaded: Any = {one: found if one == folder else _load(one) for one in given.folder}
            else:
                loaded = found if given.folder == folder else _load(given.folder)
            _runner(use)(task, loaded, given)

        made = command(name, own.help, [replace(one, panel=None) for one in task.options(use)], run)
        return made.make_context(info_name, args, parent, **extra)


def _help(task: str, name: str) -> str:
    """What a command is for, with models of a task; of pages, which are alike for all, what the model is."""
    known = tasks.find(task)
    own = known.commands.get(name)
    return known.about.partition(". ")[0] if own is None else own.help


def command(name: str, help: str, wanted: Sequence[Option], run: Callable[[Given], None]) -> Any:
    """A command with these options."""

    def callback(**given: Any) -> None:
        run(Given(**{key: _plain(value) for key, value in given.items()}))

    flat = [_parameter(one) for one in wanted]
    callback.__doc__ = help
    callback.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    callback.__annotations__ = {one.name: one.annotation for one in flat}
    only = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    only.command(name)(callback)
    return typer.main.get_command(only)


def _parameter(option: Option) -> inspect.Parameter:
    """The option as typer has it: a parameter with an annotation."""
    kind: Any = StrEnum("Choice", {one: one for one in option.choices}) if option.choices else option.type
    default = kind(option.default) if option.choices and option.default is not None else option.default
    kind = list[kind] if option.many else kind
    words: dict[str, Any] = {"metavar": option.metavar, "help": option.help}
    if option.type in (int, float):
        words |= {"min": option.low, "max": option.high}
    if option.positional:
        said: Any = typer.Argument(**words, show_default=False)
    else:
        names = option.flag.split(",") if option.off is None else [f"{option.flag}/{option.off}"]
        shown = option.shown if option.shown is not None else default is not None
        said = typer.Option(*names, **words, show_default=shown, rich_help_panel=option.panel)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.required else default,
        annotation=Annotated[kind if option.required or default is not None else kind | None, said],
    )


def _plain(value: Any) -> Any:
    """Values as tasks have them: strings instead of choices; None for a list that was not given."""
    if isinstance(value, Enum):
        return value.value
    return value or None if isinstance(value, list) else value


def _runner(name: str) -> Callable[..., None]:
    """What a command does. It is imported when it is needed: help need not wait for torch."""
    from . import use
    from .fit import fit
    from .reports import compare, report
    from .sample import sample

    known: dict[str, Callable[..., None]] = {"fit": fit, "sample": sample, "report": report, "compare": compare}
    return known[name] if name in known else getattr(use, name)


def _look(args: list[str]) -> tuple[Task | None, str, Fit | Samples | None]:
    """The task among these arguments, and the fit or samples that it is of, with their folder."""
    names = [one for one in args if not one.startswith("-")]
    if not names:
        return None, "", None
    known = ("fit.json", "samples.json")
    folder = next((one for one in names if any(Path(one, file).is_file() for file in known)), names[0])
    if folder in tasks.names("show") and not Path(folder).exists():
        return tasks.find(folder), folder, None
    found = _load(folder)
    return pu.results.evaluation.task_of(found.model), folder, found


def _load(folder: str) -> Fit | Samples:
    """A fit, or samples, of a model that can read text."""
    found: Any = pu.load(folder)
    if isinstance(found, pu.Fit):
        found = found.unhandled()
    elif not isinstance(found, pu.Samples):
        raise InputError(f"holds {found!r:.80}, expected a model that `fit` wrote, or what `sample` wrote", folder)
    if by_number_only(found.model):
        raise InputError(BY_NUMBER, folder)
    model: Fit | Samples = found
    return model
