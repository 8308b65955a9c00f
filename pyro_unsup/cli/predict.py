"""``pyro-unsup predict``: tag new text."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UnsupError
from .common import (
    Column,
    ColumnOption,
    Format,
    FormatOption,
    How,
    HowOption,
    ModelArgument,
    load_tagger,
    printable,
    read,
    read_gold,
    say,
    state_names,
)

if TYPE_CHECKING:
    from ..data import Corpus


class OutputFormat(StrEnum):
    """How tagged text is written."""

    COLUMNS = "columns"
    SLASHES = "slashes"
    CONLLU = "conllu"


def predict(
    folder: ModelArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text to tag. - is standard input.")],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where to write; replaced if it exists. - is standard output."
        ),
    ] = "-",
    format: FormatOption = Format.AUTO,
    output_format: Annotated[
        OutputFormat,
        typer.Option(help="columns: word TAG a line; slashes: word/TAG, a sentence a line; conllu: CoNLL-U."),
    ] = OutputFormat.COLUMNS,
    how: HowOption = How.VITERBI,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A third column: the posterior probability of the tag.")
    ] = False,
    relabel: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A tagged text: call each induced tag by the gold tag it goes with most."),
    ] = None,
    relabel_format: Annotated[
        Format, typer.Option(metavar="FORMAT", help="The format of that tagged text, as --format.")
    ] = Format.AUTO,
    column: ColumnOption = Column.XPOS,
) -> None:
    """Tag a text, word by word, and write it out.

    Words are written as the text has them. One that the model has never met may have any tag: its neighbours decide.
    """
    from ..data import write_tagged
    from ..results.decoding.tagging import decode

    if probabilities and output_format is not OutputFormat.COLUMNS:
        raise UnsupError(f"--probabilities need columns to stand in, not --output-format {output_format}")
    fit, model = load_tagger(folder)
    text = read(file, format)
    if relabel is not None:
        fit = fit.relabel(read_gold(relabel, relabel_format, column, "--relabel-format"))
    names = [printable(name) for name in state_names(fit, model.states)]
    decoded = decode(fit, text, how)
    tags = [names[state] for state in decoded.structure.tolist()]
    if probabilities:
        chosen = decoded.posterior.marginals.gather(1, decoded.structure[:, None].long())[:, 0]
        _write_columns(text, tags, chosen.clamp(0, 1).tolist(), out)
    else:
        write_tagged(text, tags, out, output_format.value)
    sys.stdout.flush()
    if decoded.unseen:
        say(f"{decoded.unseen:,} of {text.tokens:,} words are unknown to the model: their neighbours decided")


def _write_columns(text: Corpus, tags: list[str], chosen: list[float], out: str) -> None:
    """``word TAG probability``, split by tabs."""
    from ..data.files import write_text

    for tag in set(tags):
        if not tag.strip():
            raise UnsupError(f"the tag {tag!r} cannot be written in a column; relabel it")
    with write_text(out) as stream:
        for i, (start, end) in enumerate(pairwise(text.offsets.tolist())):
            rows = zip(text.sentence(i), tags[start:end], chosen[start:end], strict=True)
            stream.writelines(f"{word}\t{tag}\t{p:.6f}\n" for word, tag, p in rows)
            stream.write("\n")
