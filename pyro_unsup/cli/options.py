"""Options that several commands have, each declared once; and groups of options as one parameter of a command."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from ..results import Fit
from ..results.samples import Samples

MODEL, TRAINING, ALGORITHM, OUTPUT = "The model", "Training", "Another algorithm than EM", "Text and output"
BELIEFS = "Priors, features and knowledge"


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


def _loaded(ctx: typer.Context, folder: str) -> Fit:
    """The fit that told which kind of model it is (:mod:`.by_kind`)."""
    from ..results import load

    if ctx.obj is not None and ctx.obj[0] == folder:
        found: Fit = ctx.obj[1]
        return found
    return load(folder).unhandled()


def _loaded_samples(ctx: typer.Context, folder: str) -> Samples:
    if ctx.obj is not None and ctx.obj[0] == folder:
        found: Samples = ctx.obj[1]
        return found
    return Samples.load(folder)


FORMATS = (
    "auto, conllu, brackets, tagged or lines. auto goes by the name: .conllu .conllx .conll; .mrg .ptb .brackets; "
    ".tagged .tag .pos .tsv (word TAG a line, or word/TAG); .txt .text .tok (plain lines); each perhaps with .gz .bz2 "
    ".xz after it; a folder is a corpus that was saved (`write_flat`), and stays on disk."
)
FitArgument = Annotated[
    Fit, typer.Argument(metavar="DIR", parser=str, callback=_loaded, help="A model that `pyro-unsup fit` wrote.")
]
SamplesArgument = Annotated[
    Samples,
    typer.Argument(metavar="DIR", parser=str, callback=_loaded_samples, help="What `pyro-unsup sample` wrote."),
]
FormatOption = Annotated[Format, typer.Option("--format", metavar="FORMAT", help=f"The format of FILE: {FORMATS}")]
TextFormatOption = Annotated[
    Format,
    typer.Option("--format", metavar="FORMAT", help=f"The format of FILE: {FORMATS}", rich_help_panel=OUTPUT),
]
ColumnOption = Annotated[Column, typer.Option("--column", help="With CoNLL-U, the column that holds the tags.")]
OutFileOption = Annotated[
    str,
    typer.Option("--out", "-o", metavar="FILE", help="Where to write; replaced if it exists. - is standard output."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
ScoresJsonOption = Annotated[bool, typer.Option("--json", help="One JSON object; fractions of 1, null for infinity.")]
VocabFromOption = Annotated[
    str | None,
    typer.Option(
        "--vocab-from",
        metavar="TEXT",
        help="With --stepwise, learn from FILE as from a stream: once, a mini-batch at a time as it comes, however "
        "long it is. What can be in it is told by this: a text in the same format, or the folder of a model. --smooth "
        "is then for each mini-batch.",
        show_default="FILE is read to its end first",
        rich_help_panel=ALGORITHM,
    ),
]
LowercaseOption = Annotated[bool, typer.Option("--lowercase", help="Fold words to lower case.", rich_help_panel=OUTPUT)]


def apart(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses are taken apart: each of their fields is an option of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    for loaded in ("fit", "samples"):  # they are arguments, and happen to be dataclasses
        groups.pop(loaded, None)
    flat: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        flat += _fields(groups[one.name]) if one.name in groups else [_keyword(one.name, hints[one.name], one.default)]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
        command(**given)

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in flat}
    return run


def _fields(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        _keyword(
            one.name, hints[one.name], inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
        )
        for one in dataclasses.fields(kind)
    ]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
