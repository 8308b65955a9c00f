"""``pyro-unsup reproduce``: the tables of papers, run again on the corpora at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UnsupError
from ..tasks.texts import say
from .common import INTERRUPTED, console, folder_of

if TYPE_CHECKING:
    from ..reproduce import Finished

FOLDER = "reproduced"


def reproduce(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="Which paper. Without one, all are listed.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", envvar="PYRO_UNSUP_DATA", help="The folder of corpora.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TABLE", help="This table; may be given several times.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="NUMBER", min=1, help="Runs of a row, from seed 0 on; by default as listed."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="NUMBER", min=1, help="Runs at a time, each on one thread.")
    ] = 1,
    small: Annotated[
        bool, typer.Option("--small", help="A little text and few iterations, to see in some minutes that it runs.")
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="DIR", help=f"Where results go; by default {FOLDER}/PAPER.")
    ] = None,
) -> None:
    """Run the tables of a paper again, with its own figures beside them.

    Tables go to standard output and to DIR/tables.md, everything to DIR/results.json, figures to DIR/*.png. Every run
    is written down when it ends: after Ctrl-C, or anything else, the same command goes on where it was.
    """
    if name is None:
        _list(_given(ctx))
        return
    from ..reproduce import Plan, paper, run
    from ..reproduce.corpora import corpora_in
    from ..reproduce.report import markdown, write

    wanted = paper(name)
    plan = Plan.of(wanted, corpora_in(data), only or (), seeds, small)
    folder = folder_of(out or str(Path(FOLDER) / (wanted.name + ("-small" if small else ""))))
    state, interrupted = None, False
    with _progress() as show, closing(run(plan, folder, jobs)) as states:
        try:
            for state in states:
                show(state)
        except KeyboardInterrupt:
            interrupted = True
    if state is None:
        raise KeyboardInterrupt
    written = write(state, folder)
    typer.echo(markdown(state), nl=False)
    say("written: " + ", ".join(map(str, written)))
    if interrupted:
        say(f"interrupted: {state.over} of {len(plan.jobs)} runs are kept; the same command goes on with the others")
        raise typer.Exit(INTERRUPTED)
    if state.failed:
        (table, row, seed), what = next(iter(state.failed.items()))
        raise UnsupError(
            f"{len(state.failed)} of {len(plan.jobs)} runs failed, {table}: {row}, seed {seed} first: {what}"
        )


def _given(ctx: typer.Context) -> list[str]:
    """The options on the command line, as they are spelt there at their longest."""
    sources = {one: ctx.get_parameter_source(one.name or "") for one in ctx.command.params}
    return [one.opts[0] for one, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _list(options: list[str]) -> None:
    """The papers with their tables, corpora and cost."""
    from rich import box
    from rich.table import Table

    from ..reproduce import PAPERS, paper
    from ..reproduce.corpora import SOURCES

    screen, papers = console(), [paper(name) for name in PAPERS]
    if options:
        known = ", ".join(one.name for one in papers)
        raise UnsupError(f"{', '.join(options)}: for which PAPER? Expected one of {known}")
    for one in papers:
        screen.print(f"[bold]{one.name}[/bold]  {one.title}", soft_wrap=True)
        listed = Table(box=box.SIMPLE_HEAD)
        for title in ("table", "", "corpora", "seeds", "minutes"):
            listed.add_column(title, justify="right" if title in ("seeds", "minutes") else "left")
        for table in one.tables:
            fixed = {row.trials for row in table.rows}
            seeds = one.seeds if None in fixed else max(x for x in fixed if x is not None)
            listed.add_row(table.name, table.title, ", ".join(table.needs), str(seeds), f"{table.minutes:,.0f}")
        screen.print(listed)
    corpora = Table(box=box.SIMPLE_HEAD)
    for title in ("corpus", "what it is, and in which files"):
        corpora.add_column(title, overflow="fold")
    for name in dict.fromkeys(name for one in papers for table in one.tables for name in table.needs):
        corpora.add_row(name, "\n".join([SOURCES[name].what, *(f"  {file}" for file in SOURCES[name].files)]))
    screen.print(corpora)
    say("Files may be packed: .xz, .gz, .bz2.")
    say("Minutes are of one core, with that many seeds. Then: pyro-unsup reproduce PAPER --data DIR")


@contextmanager
def _progress() -> Iterator[Callable[[Finished], None]]:
    """Something that shows how far it has come: a bar on a terminal, else a line a run, on standard error."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield _line
        return
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        whole, lines = bar.add_task("all runs", done=""), dict[str, Any]()

        def show(state: Finished) -> None:
            total = len(state.plan.jobs)
            bar.update(whole, completed=state.over, total=total, done=f"{state.over} of {total}")
            running = [str(job) for job in state.running]
            for job in lines.keys() - set(running):
                bar.remove_task(lines.pop(job))
            for job in running:
                if job not in lines:
                    lines[job] = bar.add_task(escape(job), total=None, done="")

        yield show


def _line(state: Finished) -> None:
    if state.latest is None:
        if state.over and not state.running:
            say(f"{state.over} of {len(state.plan.jobs)} runs are there already")
        return
    job = state.latest
    key = job.table.name, job.row.name, job.seed
    what = f"failed: {state.failed[key]}" if key in state.failed else f"{state.found[key]['seconds']} s"
    say(f"{state.over} of {len(state.plan.jobs)}  {job}  {what}")
