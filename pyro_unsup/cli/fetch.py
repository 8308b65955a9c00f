"""``pyro-unsup fetch``: real corpora by name, fetched once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .common import console


def fetch(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which corpus. Without one, all are listed.")
    ] = None,
    part: Annotated[
        str, typer.Option(metavar="PART", help="train, dev or test, as far as the corpus has them.")
    ] = "train",
    cache: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where files are kept; by default the folder for caches of this computer."),
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Fetch from here instead, under the same file names.")
    ] = None,
) -> None:
    """Fetch a public corpus, and print where its file is.

    A file is fetched once and checked by its SHA-256 whenever it is used. The licence of each corpus is its own.

    `pyro-unsup fit tagger $(pyro-unsup fetch ud-english-ewt) --out tagger` fetches a treebank and trains on it.
    """
    from ..data import remote

    if name is None:
        _list()
        return
    with console(stderr=True).status(f"fetching {name}, {part}") if sys.stderr.isatty() else console(stderr=True):
        path = remote.fetch(name, part, cache, mirror)
    typer.echo(path)


def _list() -> None:
    from rich.table import Table

    from ..data import remote

    table = Table("corpus", "parts", "licence", box=None)
    for name in remote.names():
        source = remote.REGISTRY[name]
        table.add_row(name, ", ".join(source.parts), source.licence)
    console().print(table)
