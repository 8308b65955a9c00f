"""What the commands share: exit codes, the console, and printing JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes

#: Whether the command has written and told its result. A late Ctrl-C changes nothing then.
done: ContextVar[bool] = ContextVar("done", default=False)


def console(stderr: bool = False) -> Console:
    """A rich console, in colour on a terminal."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process with an error
            raise BrokenPipeError

    return Piped(stderr=stderr, highlight=False)


def folder_of(out: str) -> Path:
    """The folder that ``--out`` names, as a path with a name, so that a checkpoint folder can lie beside it."""
    return Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()


def print_json(record: Mapping[str, Any]) -> None:
    """One JSON object on standard output. Numbers that JSON does not have (infinity, NaN) are null."""
    typer.echo(json.dumps(_plain(record), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def utf8_stdout() -> None:
    """Let standard output take any character, whatever the locale; lone surrogates are escaped."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
