"""Commands on a saved model: what they do and take is up to its kind, so the model is looked at first."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand

from ..errors import InputError
from ..results import Fit, load
from ..results.samples import Samples
from . import kinds
from .options import apart


class ByKind(TyperCommand):
    """A command that is another one for each kind of model, known by the folder among its arguments.

    The name of a kind in the place of the folder does as well to ask for help.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["DIR", "[OPTIONS]", "..."]

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        kind, loaded = _look(args)
        if kind is None:
            return super().make_context(info_name, args, parent, **extra)
        function = getattr(kind, self.name or "", None)
        if function is None:
            raise InputError(f"holds samples, of which there are evaluate and show, not {self.name}", loaded[0])  # type: ignore[index]
        command: Any = _command(function)
        return command.make_context(info_name, args, parent, obj=loaded, **extra)


def described(name: str, summary: str) -> Any:
    """A callback for such a command, of which only the help is ever shown."""

    def command() -> None: ...

    listed = (f"- `{kind}`: {_first(getattr(module, name))}" for kind, module in kinds.KINDS.items())
    command.__doc__ = "\n".join([
        summary,
        "",
        "What it reads, writes and can be told depends on the model. DIR --help says, where DIR is the folder of a "
        "model, and so does the name of a kind with --help:",
        "",
        *listed,
    ])  # fmt: skip
    return command


def _first(function: Any) -> str:
    return inspect.cleandoc(function.__doc__).splitlines()[0]


def _look(args: list[str]) -> tuple[ModuleType | None, tuple[str, Fit | Samples] | None]:
    """The kind of model or of samples among these arguments, and those with the name of their folder."""
    names = [one for one in args if not one.startswith("-")]
    if not names:
        return None, None
    known = ("fit.json", "samples.json")
    folder = next((one for one in names if any(Path(one, file).is_file() for file in known)), names[0])
    if folder in kinds.KINDS and not Path(folder).exists():
        return kinds.KINDS[folder], None
    sampled = Path(folder, "samples.json").is_file()
    found: Fit | Samples = Samples.load(folder) if sampled else load(folder).unhandled()
    kind = kinds.name_of(found.model)
    modules = kinds.SAMPLED if sampled else kinds.KINDS
    if kind is None or kind not in modules:
        what = f"samples of a {type(found.model).__name__}" if sampled else f"a {type(found.model).__name__}"
        use = "pu.Samples.load" if sampled else "pu.load"
        raise InputError(f"{what}, which the command line does not know: use {use}", folder)
    if any(isinstance(getattr(found.model, name, None), int) for name in ("vocab", "source", "target")):
        raise InputError("this model knows its words by number only, so it cannot read text", folder)
    return modules[kind], (folder, found)


def _command(function: Any) -> Any:
    only = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    only.command()(apart(function))
    return typer.main.get_command(only)
