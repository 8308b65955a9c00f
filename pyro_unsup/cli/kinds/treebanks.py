"""Texts to parse for dependencies: without punctuation in, and with all their words out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..common import format_of, read
from ..options import Column, Format
from .tag_sequences import kept

if TYPE_CHECKING:
    from ...data import Corpus


def read_tags(file: str, format: Format, column: Column, dropped: list[str], **options: Any) -> Corpus:
    """A text with tags; of CoNLL-U without the words that go by their UPOS, whatever column the tags are in."""
    if format_of(file, format) is not Format.CONLLU:
        return read(file, format, column, **options)
    text = read(file, format, column, drop_upos=dropped, **options)
    if text.tags is None:
        other = next(one for one in Column if one is not column)
        raise InputError(f"no tags in its column {column}; take another with --tags {other}", file)
    return text


@dataclass(frozen=True)
class Unparsed:
    """A text to parse.

    :param whole: all its words.
    :param text: what is parsed of it.
    :param keep: (words,) where that is.
    :param lines: of CoNLL-U, the lines of the file.
    """

    whole: Corpus
    text: Corpus
    keep: npt.NDArray[np.bool_]
    column: Column
    lines: list[str] | None = None

    @classmethod
    def read(cls, file: str, format: Format, column: Column, dropped: list[str]) -> Unparsed:
        """Read a file once, so that it may come from standard input."""
        from ...data.conllu import UPOS, word_cells
        from ...data.opening import open_text

        if format_of(file, format) is not Format.CONLLU:
            whole = read(file, format, column)
            keep = kept(whole, dropped)
            return cls(whole, whole.keep_tokens(keep), keep, column)
        lines = [line for _, line in open_text(file)]
        whole = read(file, Format.CONLLU, None, lines=lines)
        keep = ~np.isin(word_cells(lines, UPOS), dropped)
        if not keep.any():
            return cls(whole, whole.select([]), keep, column, lines)
        text = read_tags(file, Format.CONLLU, column, dropped, lines=lines)
        keep[keep] = rest = kept(text, dropped)
        return cls(whole, text.keep_tokens(rest), keep, column, lines)

    def write(self, heads: npt.NDArray[Any], out: str) -> None:
        """Write it as CoNLL-U with these heads, and some for the words that were not parsed."""
        from ...data import spread_heads, write_conllu, write_heads

        full = spread_heads(heads, self.whole.offsets, self.keep)
        if self.lines is None:
            write_conllu(self.whole, full, out, self.column.value)
        else:
            write_heads(self.lines, full, out)
