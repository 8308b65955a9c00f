"""What the commands share: reading text, talking to the reader, and printing JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError, UnsupError
from .options import Column, Format

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from ..data import Corpus
    from ..results import Fit


BAD_INPUT, INTERRUPTED = 2, 130  # exit codes
#: Copies of a table that an iteration needs at once: old and new weights, counts, and their scaled forms.
COPIES = 6
MAX_SEED = 2**63 - 1 - 1000  # what generators take, less room for restarts to count up from it


def say(text: str = "") -> None:
    """A line for the reader, on standard error."""
    typer.echo(text, err=True)


def say_impossible(log_likelihood: Tensor, what: str, score: str) -> None:  # (examples,)
    """Tell how many examples a fit holds impossible, and so which score is infinite."""
    impossible = int((log_likelihood == -math.inf).sum())
    if impossible:
        say(
            f"{impossible:,} of {len(log_likelihood):,} {what} have probability zero, so {score} is infinite: "
            "train with --smooth for text like this"
        )


def say_unseen_tags(unseen: int, tokens: int) -> None:
    """Tell how many tags training has not met."""
    if unseen:
        say(f"{unseen:,} of {tokens:,} tags are unknown to the model: the rest of the sentence decided")


def console(stderr: bool = False) -> Console:
    """A rich console, in colour on a terminal."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process with an error
            raise BrokenPipeError

    return Piped(stderr=stderr, highlight=False)


def folder_of(out: str) -> Path:
    """The folder that ``--out`` names, with a name of its own that a checkpoint can lie beside."""
    return Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()


def printable(text: str) -> str:
    """A text from a file, harmless on a terminal: what does not print is spelt out.

    >>> from pyro_unsup.cli.common import printable
    >>> printable("café" + chr(27) + "[2J")
    'café\\\\x1b[2J'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


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


def read(path: str, format: Format, column: Column | None = None, option: str = "--format", **options: Any) -> Corpus:
    """Read a corpus of any format.

    :param column: where CoNLL-U keeps the tags; None leaves them out, so that they need not be there.
    :param option: the option that would name the format, for errors.
    """
    from .. import data

    if format is Format.AUTO and os.path.isdir(path):
        return data.read(path, **options)
    format = format_of(path, format, option)
    if format is Format.CONLLU:
        options["tags"] = None if column is None else str(column)
        options["allow_multiple_roots"] = True  # no model here minds, and scores are of words
    return data.read(path, format.value, **options)


def format_of(path: str, format: Format, option: str = "--format") -> Format:
    """The format of a file: as given, or as its name tells."""
    from .. import data

    if format is not Format.AUTO:
        return format
    try:
        return Format(data.format_of(path))
    except InputError as error:
        if not error.what.startswith("the name"):
            raise
        known = ", ".join(one for one in Format if one is not Format.AUTO)
        raise InputError(f"the name does not tell the format; give one with {option}: {known}", path) from error


def read_gold(path: str, format: Format, column: Column, option: str = "--format", **options: Any) -> Corpus:
    """Read a corpus that must have tags."""
    corpus = read(path, format, column, option, **options)
    if corpus.tags is None:
        raise InputError(f"no tags in it, expected a tagged text; is {option} right, and with CoNLL-U --column?", path)
    return corpus


def setting(fit: Fit, name: str, kind: Any, default: Any = None) -> Any:
    """What a fit remembers of how its text was read. It comes from a file, so it may be anything."""
    value = fit.config.get(name, default)
    if not isinstance(value, kind):
        raise UnsupError(f"the model has {value!r:.40} for its setting {name}, which makes no sense; train it again")
    return value


def check_memory(cells: int, what: str, fix: str) -> None:
    """Refuse what cannot fit into memory, before anything is allocated.

    :param cells: numbers in the tables of a model.
    """
    needed = COPIES * 8 * cells
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if needed > there:
        raise UnsupError(f"{what} need about {needed / 2**30:,.0f} GiB, of {there / 2**30:,.0f}; {fix}")


def utf8_stdout() -> None:
    """Let standard output take any character, whatever the locale; what is none (half of a pair) is spelt out."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
