"""The command line: ``pyro-unsup demo | fit | sample | predict | forecast | evaluate | show | report | compare`` and
``fetch | pack | warm-up | reproduce``.

Only results go to standard output, so that it can be piped. Messages go to standard error. Exit codes: 0 done, 2 bad
input or usage (one line says what, with file and line), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import UnsupError
from .commands import USES, ByModel, ByTask
from .common import BAD_INPUT, INTERRUPTED, done, utf8_stdout
from .demo import demo
from .fetch import fetch
from .pack import pack
from .reproduce import reproduce
from .together import rank_and_size, together
from .warming import warm_up

__all__ = ["app"]

WRITES_FILES = ("demo", "fit", "pack", "sample")  # the commands whose result is not their output


class _Commands(TyperGroup):
    """Lists the commands in the order of use, and turns errors into one line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        use = ["fit", "sample", "predict", "forecast", "evaluate", "show", "report", "compare"]
        return ["demo", *use, "fetch", "pack", "warm-up", "reproduce"]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        utf8_stdout()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        done.set(False)
        try:
            with together(ctx.invoked_subcommand or next(iter(_words(ctx)), None), _words(ctx)):
                return super().invoke(ctx)
        except UnsupError as error:
            _refuse(str(error))
        except BrokenPipeError:
            if ctx.invoked_subcommand in WRITES_FILES:
                raise  # typer ends quietly, but not as if all had been done
            _silence()  # the reader of our output has seen enough
            raise typer.Exit from None
        except OSError as error:
            _refuse(": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None))
        except MemoryError:
            _refuse("out of memory: take fewer tags or clusters, a lower order, or a smaller text")
        except KeyboardInterrupt:
            if done.get():
                return None
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _silence() -> None:
    """Discard what is still in the buffer of standard output, so that flushing it at the exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _words(ctx: Any) -> list[str]:
    """The command and what follows it."""
    return [*ctx._protected_args, *ctx.args]


def _refuse(what: str) -> None:
    rank, _ = rank_and_size()
    who = f"process {rank}: " if rank else ""
    typer.echo(who + typer.style("error:", fg="red", bold=True) + f" {' '.join(what.split())}", err=True)
    raise typer.Exit(BAD_INPUT)


def _version(wanted: bool) -> None:
    if wanted:
        from pyro_unsup import __version__

        typer.echo(f"pyro-unsup {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
fit = typer.Typer(cls=ByTask, no_args_is_help=True, rich_markup_mode="markdown")
sample = typer.Typer(cls=ByTask, no_args_is_help=True, rich_markup_mode="markdown")


@fit.callback()
def _models() -> None:
    """Train a model on a text, and save it.

    While it trains, checkpoints go to DIR.checkpoint every few seconds. Ctrl-C keeps the last one; the same command
    with --resume goes on from it, to the same result as without the break.

    Several processes share the work if torchrun starts them: torchrun --nproc-per-node 2 -m pyro_unsup fit ...
    """


@sample.callback()
def _sampled() -> None:
    """Sample the hidden labels of a text by Gibbs sampling, and save the samples.

    While it samples, the chains are kept in DIR.checkpoint. Ctrl-C keeps them where they are; the same command with
    --resume goes on from there, to the same samples as without the break.
    """


app.command()(demo)
app.add_typer(fit, name="fit")
app.add_typer(sample, name="sample")
for _name, _what in USES.items():
    app.command(_name, cls=ByModel, no_args_is_help=True, help=_what)(lambda: None)
app.command()(fetch)
app.command()(pack)
app.command("warm-up")(warm_up)
app.command()(reproduce)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Learn hidden structure from unlabelled text and time series.

    Start with `pyro-unsup demo`. A file may be plain, gzip, bzip2 or xz; - is standard input.
    """
