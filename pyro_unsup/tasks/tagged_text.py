"""Texts that a tagger tags: how they are read, and how they are written again with their tags."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyro_unsup as pu

from ..errors import UnsupError
from .option import Given, choice
from .texts import column_option, format_of, read

if TYPE_CHECKING:
    from ..data import Corpus

#: The part-of-speech tags of Universal Dependencies.
UPOS = frozenset([
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
])  # fmt: skip

OUTPUT_FORMAT = choice(
    "output_format",
    ("auto", "columns", "slashes", "conllu"),
    "columns: word TAG a line; slashes: word/TAG, a sentence a line; conllu: CoNLL-U, in which one column of tags "
    "changes and all else stays. auto: CoNLL-U stays CoNLL-U, every other text becomes columns.",
    "auto",
)
COLUMN = column_option(
    "With CoNLL-U, the column that the tags are written to. Those of --relabel are read from the same column.",
    default=None,
    shown="upos if all tags are those of UD, else xpos; xpos for --relabel",
)


@dataclass(frozen=True)
class Untagged:
    """A text to tag.

    :param text: its words.
    :param lines: of CoNLL-U, the lines of the file.
    """

    text: Corpus
    lines: list[str] | None = None

    @classmethod
    def read(cls, given: Given) -> Untagged:
        """Read a file once, so that it may come from standard input."""
        if given.probabilities and given.output_format not in ("auto", "columns"):
            raise UnsupError(f"--probabilities needs --output-format columns, not {given.output_format}")
        if os.path.isdir(given.file) or format_of(given.file, given.format) != "conllu":
            return cls(read(given.file, given.format))
        lines = [line for _, line in pu.data.opening.open_text(given.file)]
        return cls(read(given.file, "conllu", None, lines=lines), lines)

    def write(self, names: Sequence[str], states: Any, given: Given) -> None:
        """Write it with its tags.

        :param names: of the states.
        :param states: (tokens,) the state of each word.
        """
        tags = [names[state] for state in states.tolist()]
        format = given.output_format
        if format == "auto":
            format = "columns" if self.lines is None else "conllu"
        column = given.column or column_of(names, tags)
        if format == "conllu" and self.lines is not None:
            pu.data.write_tags(self.lines, tags, given.out, column)
        else:
            pu.data.write_tagged(self.text, tags, given.out, format, column=column)

    def write_probabilities(self, names: Sequence[str], states: Any, marginals: Any, given: Given) -> None:
        """Write columns: word, tag and the posterior probability of the tag."""
        for tag in names:
            if not tag.strip():
                raise UnsupError(f"the tag {tag!r} cannot be written in a column; relabel it")
        chosen = marginals.gather(1, states[:, None].long())[:, 0].clamp(0, 1).tolist()
        tags = [names[state] for state in states.tolist()]
        with pu.data.files.write_text(given.out) as stream:
            for i, (start, end) in enumerate(pairwise(self.text.offsets.tolist())):
                rows = zip(self.text.sentence(i), tags[start:end], chosen[start:end], strict=True)
                stream.writelines(f"{word}\t{tag}\t{p:.6f}\n" for word, tag, p in rows)
                stream.write("\n")


def column_of(names: Sequence[str], used: Sequence[str]) -> Literal["xpos", "upos"]:
    """The column of CoNLL-U that tags belong to: UPOS if all of them are tags of Universal Dependencies, else XPOS.

    :param names: of the states. A state that ``--relabel`` has no name for keeps its number.
    :param used: the tags of the text.

    >>> from pyro_unsup.tasks.tagged_text import column_of
    >>> column_of(["NOUN", "VERB", "2"], ["NOUN", "VERB"]), column_of(["NOUN", "NNS"], ["NOUN"])
    ('upos', 'xpos')
    """
    named = {name for k, name in enumerate(names) if name != str(k)}
    return "upos" if named and (named | set(used)) <= UPOS else "xpos"
