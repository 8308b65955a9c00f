"""What tasks share to read text: formats, columns, settings of a fit, and a line to the reader."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pyro_unsup as pu

from ..errors import FormatError, InputError, UnsupError
from .option import Option, choice, flag, number

if TYPE_CHECKING:
    from ..data import Corpus

FORMATS = ("auto", "conllu", "brackets", "tagged", "lines")
COLUMNS = ("xpos", "upos")
#: Copies of a table that an iteration needs at once: old and new weights, counts, and their scaled forms.
COPIES = 6

_NAMES = (
    "auto, conllu, brackets, tagged or lines. auto goes by the name: .conllu .conllx .conll; .mrg .ptb .brackets; "
    ".tagged .tag .pos .tsv (word TAG a line, or word/TAG); .txt .text .tok (plain lines); each perhaps with .gz .bz2 "
    ".xz after it; a folder is a corpus that was saved (`write_flat`), and stays on disk."
)


def format_option(name: str = "format", of: str = "FILE") -> Option:
    """The option for the format of a text."""
    words = f"The format of {of}: {_NAMES}" if name == "format" else f"The format of {of}, as --format."
    return choice(name, FORMATS, words, "auto", metavar="FORMAT", identity=False)


def column_option(help: str = "With CoNLL-U, the column that holds the tags.", **others: Any) -> Option:
    """The option for the column of the tags."""
    return choice("column", COLUMNS, help, **{"default": "xpos", "identity": False, **others})


def how_option(help: str, default: str = "viterbi", more: tuple[str, ...] = ()) -> Option:
    """The option for the way to decode.

    :param more: ways that only some models have.
    """
    return choice("how", ("viterbi", "mbr", *more), help, default)


def top_option(name: str, of: str, default: int) -> Option:
    """The option for how much is shown."""
    return number(name, f"How many {of} to show.", default, 0)


LOWERCASE = flag("lowercase", "Fold words to lower case.", remember=True)
MIN_COUNT = number("min_count", "Words seen fewer times become one word, `<unk>`.", 1, remember=True)


def say(text: str = "") -> None:
    """A line for the reader, on standard error."""
    print(text, file=sys.stderr, flush=True)


def read(path: Any, format: str, column: str | None = None, option: str = "--format", **options: Any) -> Corpus:
    """Read a corpus of any format.

    :param column: where CoNLL-U keeps the tags; None leaves them out, so that they need not be there.
    :param option: the option that would name the format, for errors.
    """
    if format == "auto" and os.path.isdir(path):
        return pu.data.read(path, **options)
    format = format_of(path, format, option)
    if format == "conllu":
        options["tags"] = column
        options["allow_multiple_roots"] = True  # no model here minds, and scores are of words
    return pu.data.read(path, format, **options)  # type: ignore[arg-type]


def format_of(path: Any, format: str, option: str = "--format") -> str:
    """The format of a file: as given, or as its name tells."""
    if format != "auto":
        return format
    try:
        return str(pu.data.format_of(path))
    except FormatError as error:
        known = ", ".join(FORMATS[1:])
        raise InputError(f"cannot tell the format from the name; give one with {option}: {known}", path) from error


def read_gold(path: str, format: str, column: str, option: str = "--format", **options: Any) -> Corpus:
    """Read a corpus that must have tags."""
    corpus = read(path, format, column, option, **options)
    if corpus.tags is None and not os.path.isdir(path) and format_of(path, format) == "conllu":
        raise InputError(
            f"no tags in its column {column}; take another with --column {COLUMNS[column == 'xpos']}", path
        )
    if corpus.tags is None:
        raise InputError(f"no tags in it, expected a tagged text; is {option} right, and with CoNLL-U --column?", path)
    return corpus


def setting(fit: Any, name: str, kind: Any, default: Any = None) -> Any:
    """What a fit remembers of how its text was read. It comes from a file, so it may be anything."""
    value = fit.config.get(name, default)
    if not isinstance(value, kind):
        raise UnsupError(f"the model has {value!r:.40} for its setting {name}, which makes no sense; train it again")
    return value


def finite(name: str, value: float | None) -> None:
    """Refuse infinity and NaN, which a number on the command line may well be."""
    if value is not None and not abs(value) < float("inf"):
        raise UnsupError(f"--{name.replace('_', '-')} must be a finite number, actual {value}")


def belongs(given: Any, needed: str, *names: str) -> None:
    """Refuse options that mean nothing without another one."""
    for name in names:
        if getattr(given, name) not in (None, False, []) and not getattr(given, needed):
            raise UnsupError(f"--{name.replace('_', '-')} belongs to --{needed}; add that, or leave it out")


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


def saved_model(path: str, wanted: type[Any]) -> Any:
    """The model of a folder that ``fit`` wrote; None if the path is something else, such as a text.

    :param wanted: the class of model whose vocabulary is needed.
    """
    if not os.path.isfile(os.path.join(path, "fit.json")):
        return None
    model: Any = pu.load(path).unhandled().model
    if not isinstance(model, wanted):
        raise InputError(
            f"holds a {type(model).__name__}, expected a {wanted.__name__}: --vocab-from takes the vocabulary of such "
            "a model, or of a text",
            path,
        )
    if by_number_only(model):
        raise InputError(BY_NUMBER, path)
    return model


BY_NUMBER = "this model knows its words by number only, so it cannot read text"


def by_number_only(model: Any) -> bool:
    """Whether a model has no words, but numbers for them."""
    return any(isinstance(getattr(model, name, None), int) for name in ("vocab", "source", "target"))
