"""What the commands share: reading files and models, talking to the reader, and printing JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ..data import Corpus
    from ..models import Tagger
    from ..results import Fit


BAD_INPUT, INTERRUPTED = 2, 130  # exit codes
MAX_SEED = 2**63 - 1 - 1000  # what generators take, less room for restarts to count up from it


class Format(StrEnum):
    """How a file says what it says."""

    AUTO = "auto"
    CONLLU = "conllu"
    BRACKETS = "brackets"
    TAGGED = "tagged"
    LINES = "lines"


class Column(StrEnum):
    """Where CoNLL-U keeps the tags."""

    XPOS = "xpos"
    UPOS = "upos"


class How(StrEnum):
    """How to decode."""

    VITERBI = "viterbi"
    MBR = "mbr"


FORMATS = (
    "auto, conllu, brackets, tagged or lines. auto goes by the name: .conllu .conllx .conll; .mrg .ptb .brackets; "
    ".tagged .tag .pos .tsv (word TAG a line, or word/TAG); .txt .text .tok (plain lines); each perhaps with .gz .bz2 "
    ".xz after it."
)
ModelArgument = Annotated[str, typer.Argument(metavar="DIR", help="A model that `pyro-unsup fit` wrote.")]
FormatOption = Annotated[Format, typer.Option("--format", metavar="FORMAT", help=f"The format of FILE: {FORMATS}")]
ColumnOption = Annotated[Column, typer.Option("--column", help="With CoNLL-U, the column that holds the tags.")]
HowOption = Annotated[
    How, typer.Option("--how", help="viterbi: the best tag sequence; mbr: the best tag of each word on its own.")
]


def say(text: str = "") -> None:
    """A line for the reader, on standard error."""
    typer.echo(text, err=True)


def console(stderr: bool = False) -> Console:
    """A rich console, in colour on a terminal."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process with an error
            raise BrokenPipeError

    return Piped(stderr=stderr, highlight=False)


def printable(text: str) -> str:
    """A text from a file, harmless on a terminal: what does not print is spelt out.

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

    if format is Format.AUTO:
        try:
            format = Format(data.format_of(path))
        except InputError as error:
            known = ", ".join(one for one in Format if one is not Format.AUTO)
            raise InputError(f"the name does not tell the format; give one with {option}: {known}", path) from error
    if format is Format.CONLLU:
        options["tags"] = None if column is None else str(column)
        options["allow_multiple_roots"] = True  # heads do not matter to a tagger
    return data.read(path, format.value, **options)


def read_gold(path: str, format: Format, column: Column, option: str = "--format", **options: Any) -> Corpus:
    """Read a corpus that must have tags."""
    corpus = read(path, format, column, option, **options)
    if corpus.tags is None:
        raise InputError(f"no tags in it, expected a tagged text; is {option} right, and with CoNLL-U --column?", path)
    return corpus


def load_tagger(folder: str) -> tuple[Fit, Tagger]:
    """A fit of a tagger that knows its words."""
    from ..models import Tagger
    from ..results import load

    fit = load(folder)
    if not isinstance(fit.model, Tagger):
        raise InputError(f"expected a tagger, found {type(fit.model).__name__}", folder)
    if isinstance(fit.model.vocab, int):
        raise InputError("this model knows its words by number only, so it cannot read text", folder)
    return fit, fit.model


def state_names(fit: Fit, states: int) -> list[str]:
    """What to call the states: their labels, or their numbers."""
    return [str(k) for k in range(states)] if fit.labels is None else list(fit.labels)


def utf8_stdout() -> None:
    """Let standard output take any character, whatever the locale."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
