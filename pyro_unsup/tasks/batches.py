"""Texts of all kinds a mini-batch at a time, each with the lines that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import document_files, tagged
from ..data.opening import Block, open_text
from ..data.streams import ENDLESS, Cut, Line, blocks, by_gap, by_line, by_tree, each_line
from ..errors import InputError
from .texts import format_of, read

if TYPE_CHECKING:
    from ..data import Documents

Batches = Iterator[tuple[Block, Any]]

#: Of sentences that are more than a line.
CUTS: dict[str, Cut] = {"conllu": partial(by_gap, comment="#"), "brackets": by_tree}


def batches(
    file: str, size: int, read: Callable[[Any], Any], cut: Cut = each_line, lines: Iterable[Line] | None = None
) -> Batches:
    """So many examples at a time.

    :param read: reads a block as it would a file.
    """
    return ((block, read(block)) for block in blocks(file, size, cut, lines))


def corpora(file: str, format: str, size: int, **options: Any) -> Batches:
    """Sentences of any format."""
    lines, cut = open_text(file, ENDLESS), CUTS.get(format, by_line)
    if format == "tagged":
        first = next(((number, line) for number, line in lines if line.strip()), (1, ""))
        options["form"] = tagged.form_of(first[1])
        cut, lines = by_line if options["form"] == "slashes" else by_gap, chain([first], lines)
    yield from batches(file, size, partial(read, format=format, **options), cut, lines)


def format_of_stream(file: str, vocab_from: str, format: str) -> str:
    """The format of sentences: as given, or by the file name. For standard input the other text may decide."""
    return format_of(vocab_from if file == "-" and not Path(vocab_from).is_dir() else file, format)


def documents(file: str, form: str, split: str | None, size: int, read: Callable[[Any, Any], Documents]) -> Batches:
    """Documents a line each. Those without words are left out.

    :param read: from a block and its form.
    """
    if form == "folders" or Path(file).is_dir():
        raise InputError("a folder, which is no stream; expected lines of text, or - for standard input", file)
    lines = open_text(file, ENDLESS)
    if form == "auto":
        first = next(lines, None)
        if first is None:
            return
        form, lines = document_files.form_of(file, first[1]), chain([first], lines)

    def counts(line: str) -> bool:  # a line without its columns does, so that it is refused
        return line.count("\t") != 3 or line.partition("\t")[0] == split

    cut = each_line if split is None else partial(by_line, counts=counts)
    for block, found in batches(file, size, lambda block: read(block, form), cut, lines):
        some = found.lengths > 0
        if some.any():
            yield block, found.select(some)
