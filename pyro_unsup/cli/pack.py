"""``pyro-unsup pack``: a long text into a corpus on disk."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..tasks.shown import printable


def pack(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Plain text, one sentence a line; packed too; - for standard input.")
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="The folder of the corpus. An older corpus is replaced.")],
    min_count: Annotated[
        int, typer.Option(metavar="N", min=1, help="Words seen fewer times become the unknown symbol, <unk>.")
    ] = 1,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Fold words to lower case.")] = False,
) -> None:
    """Turn a long text into a corpus on disk, which may be larger than memory.

    Commands take the folder in the place of a file: `pyro-unsup pack news.txt --out news --min-count 5`, then
    `pyro-unsup fit tagger news --stepwise --out tagger`.
    """
    from ..data import pack_lines
    from ..infer.progress import progress_bar

    size = os.path.getsize(file) if os.path.isfile(file) else None
    with progress_bar(shown=sys.stderr.isatty(), total=size, unit="B", unit_scale=True, desc="reading") as bar:
        corpus = pack_lines(file, out, min_count=min_count, lowercase=lowercase, on_bytes=bar.update)
    typer.echo(f"{printable(out)}: {len(corpus):,} sentences, {corpus.tokens:,} words, {len(corpus.vocab):,} different")
