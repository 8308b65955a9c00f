"""What grammar induction shares: options, gold sentences, and texts to parse, of which all words come out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from ...errors import InputError, UnsupError
from ..common import format_of, printable, read, say, setting
from ..options import BELIEFS, OUTPUT, Column, Format, How
from .tag_sequences import dropped_by, kept, short

if TYPE_CHECKING:
    from ...data import Corpus
    from ...estimate import Template
    from ...results import Fit

MAX_LENGTH = 10
#: The first beta and the factor of Smith & Eisner (2004) for grammar.
BETAS = (0.01, 1.5)
TextArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="CoNLL-U, Penn brackets or another tagged text, of which the tags are taken; or plain lines of tags. "
        "- is stdin.",
    ),
]
UnparsedArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A tagged text, or plain lines of tags. - is standard input.")
]
HeadsHowOption = Annotated[
    How, typer.Option("--how", help="mbr: the tree with the most expected right heads; viterbi: the best tree.")
]
LengthOption = Annotated[
    int, typer.Option("--max-length", metavar="N", min=1, help="Leave longer sentences out.", rich_help_panel=OUTPUT)
]
GoldLengthOption = Annotated[
    int | None,
    typer.Option("--max-length", metavar="N", min=1, help="Leave longer sentences out.", show_default="as in training"),
]
DropOption = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="TAG",
        help="A tag to leave out with its words; may be repeated.",
        show_default="punctuation",
        rich_help_panel=OUTPUT,
    ),
]
TextTagsOption = Annotated[
    Column, typer.Option("--tags", "--column", help="With CoNLL-U, the column of the tags.", rich_help_panel=OUTPUT)
]
TagsOption = Annotated[
    Column | None,
    typer.Option("--tags", "--column", help="With CoNLL-U, the column of the tags.", show_default="as in training"),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="TAGS",
        help="With --features, which tags are nouns and which are verbs: those of penn, upos or ctb, or your own, "
        "NOUN,NOUN:VERB,VERB.",
        show_default="those that the text has most of",
        rich_help_panel=BELIEFS,
    ),
]


def check_classes(given: str | None, features: float | None) -> None:
    """Refuse classes that are not written as they should be."""
    from ...estimate.templates import TAG_CLASSES

    if given is None:
        return
    if features is None:
        raise UnsupError("--classes belongs to --features; add that, or leave it out")
    if given not in TAG_CLASSES and given.count(":") != 1:
        raise UnsupError(f"--classes is one of {', '.join(TAG_CLASSES)}, or NOUN,NOUN:VERB,VERB, actual {given!r:.80}")


def templates_of(text: Corpus, given: str | None) -> list[Template]:
    """Features of dependencies, by the nouns and verbs of the tag set that a text most likely has."""
    from ...estimate.templates import TAG_CLASSES, dependency

    counts: dict[str, int] = dict(
        zip(text.vocab, np.bincount(text.words, minlength=len(text.vocab)).tolist(), strict=True)
    )

    def fewer(classes: tuple[Any, Any]) -> int:  # tag sets share some tags, but not nouns and verbs both
        return min(sum(counts.get(tag, 0) for tag in tags) for tags in classes)

    sets: dict[str, tuple[Any, Any]] = {**TAG_CLASSES}
    if given is not None and given not in sets:
        nouns, verbs = (tags.split(",") for tags in given.split(":"))
        sets[given] = (nouns, verbs)
    name = max(sets, key=lambda one: fewer(sets[one])) if given is None else given
    if not fewer(sets[name]):
        which = ", ".join(sets) if given is None else f"--classes {printable(given)}"
        raise UnsupError(f"--features needs nouns and verbs, and the text does not have both by {which}; say which "
                         "tags are, by --classes NOUN,NOUN:VERB,VERB")  # fmt: skip
    say(f"features: nouns are {', '.join(tag for tag in counts if tag in sets[name][0])}; verbs are "
        f"{', '.join(tag for tag in counts if tag in sets[name][1])}")  # fmt: skip
    return dependency(sets[name])


def column_of(fit: Fit, given: Column | None) -> Column:
    """Where the tags are, if nobody says: where they were in training."""
    if given is not None:
        return given
    found = setting(fit, "column", str, Column.XPOS.value)
    if found not in list(Column):
        raise UnsupError(f"the model has {found!r:.40} for its setting column, which makes no sense; train it again")
    return Column(found)


def gold_of(fit: Fit, gold: Corpus, max_length: int | None, file: str) -> Corpus:
    """Gold sentences as those of training were: without punctuation, and short ones, unless told how long."""
    most = setting(fit, "max_length", int, MAX_LENGTH) if max_length is None else max_length
    return short(gold, most, dropped_by(fit), file)


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
