"""``pyro-unsup fit``: train a model on a text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, UnsupError
from .common import FORMATS, Column, ColumnOption, Format, FormatOption, printable, read, read_gold, say

if TYPE_CHECKING:
    from ..data import Corpus, TagDictionary
    from ..models import Tagger

DEFAULT_TAGS = 45
MODEL, TRAINING, OUTPUT = "The model", "Training", "Text and output"
#: Copies of a table that an iteration needs at once: old and new weights, counts, and their scaled forms.
COPIES = 6

fit = typer.Typer(no_args_is_help=True, help="Train a model on a text, and save it.")


@fit.callback()
def _models() -> None:
    """Train a model on a text, and save it."""


@fit.command()
def tagger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; tags in it are not looked at. - is stdin.")],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="The new folder for the model.", rich_help_panel=OUTPUT)
    ],
    tags: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=f"{DEFAULT_TAGS}, or as the dictionary has",
            help="How many tags to induce.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    order: Annotated[int, typer.Option(min=1, max=2, help="1: bigram, 2: trigram.", rich_help_panel=MODEL)] = 1,
    stop: Annotated[
        bool, typer.Option("--stop/--no-stop", help="Whether tags predict the end.", rich_help_panel=MODEL)
    ] = False,
    dictionary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Which tags a word may have: `word TAG TAG ...` a line, or .json. Words not in it may have any tag.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    dictionary_from: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A tagged text to take the dictionary from instead.", rich_help_panel=MODEL
        ),
    ] = None,
    dictionary_format: Annotated[
        Format, typer.Option(help="The format of that tagged text.", rich_help_panel=MODEL)
    ] = Format.AUTO,
    dictionary_min_count: Annotated[
        int,
        typer.Option(min=1, help="Words that it has fewer times may have any tag.", rich_help_panel=MODEL),
    ] = 1,
    column: ColumnOption = Column.XPOS,
    smooth: Annotated[
        float,
        typer.Option(
            min=0, metavar="LAMBDA", help="Add this to every expected count; 0 is plain EM.", rich_help_panel=TRAINING
        ),
    ] = 0.0,
    iterations: Annotated[int, typer.Option(min=0, help="The most to make.", rich_help_panel=TRAINING)] = 100,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Stop when the objective's relative change is this small.", rich_help_panel=TRAINING),
    ] = 1e-6,
    restarts: Annotated[
        int, typer.Option(min=1, help="How many starts to try; the best objective wins.", rich_help_panel=TRAINING)
    ] = 1,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many of them at a time.", show_default="as many as cores", rich_help_panel=TRAINING
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Same seed, same result; restarts count up from it.", rich_help_panel=TRAINING)
    ] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from DIR.checkpoint of an interrupted run.", rich_help_panel=TRAINING)
    ] = False,
    format: FormatOption = Format.AUTO,
    min_count: Annotated[
        int,
        typer.Option(min=1, help="Words seen fewer times become one, <unk>.", rich_help_panel=OUTPUT),
    ] = 1,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Fold words to lower case.", rich_help_panel=OUTPUT)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is in DIR.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Induce the tags of a text by a hidden Markov model and EM.

    Without a dictionary the tags are anonymous, numbered from 0; with one they are those of the dictionary. While it
    trains, checkpoints go to DIR.checkpoint every few seconds. Ctrl-C keeps the last one; the same command with --resume
    goes on from it, to the same result as without the break.
    """
    from ..results.storage import may_write
    from .training import Checkpoint

    target = Path(os.path.abspath(out))
    may_write(out, overwrite)
    Checkpoint.may_start(Checkpoint.beside(Path(out)), resume, overwrite)
    if dictionary is not None and dictionary_from is not None:
        raise UnsupError("--dictionary and --dictionary-from are two ways to say the same; give one of them")
    text = read(file, format, lowercase=lowercase, min_count=min_count)
    known = _dictionary(dictionary, dictionary_from, dictionary_format, dictionary_min_count, column, lowercase)
    model = _model(text, tags, order, stop, known, str(dictionary or dictionary_from))
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} words, {len(text.vocab):,} types; {model!r}")
    settings = {"--order": order, "--stop": stop, "--smooth": smooth, "--seed": seed}
    _train(model, text, out, target, settings, resume, overwrite,
           {"iterations": iterations, "tolerance": tolerance, "restarts": restarts, "processes": processes, "seed": seed},
           {"lowercase": lowercase, "min_count": min_count})  # fmt: skip
