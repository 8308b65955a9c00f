"""``pyro-unsup fit``: train a model on a text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import FitError, UnsupError
from .building import DEFAULT_TAGS, build, dictionary_of, read_dictionary, with_listed
from .common import FORMATS, INTERRUPTED, MAX_SEED, Column, Format, printable, read, say

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models import Tagger

MODEL, TRAINING, OUTPUT = "The model", "Training", "Text and output"

fit = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Train a model on a text, and save it.")


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
            metavar="N",
            min=1,
            show_default=f"{DEFAULT_TAGS}, or as the dictionary has",
            help="How many tags to induce.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    order: Annotated[
        int, typer.Option(metavar="N", min=1, max=2, help="1: bigram, 2: trigram.", rich_help_panel=MODEL)
    ] = 1,
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
        typer.Option(metavar="FILE", help="A tagged text to take the dictionary from instead.", rich_help_panel=MODEL),
    ] = None,
    dictionary_format: Annotated[
        Format,
        typer.Option(metavar="FORMAT", help="The format of that tagged text, as --format.", rich_help_panel=MODEL),
    ] = Format.AUTO,
    dictionary_min_count: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Words that it has fewer times may have any tag.", rich_help_panel=MODEL),
    ] = 1,
    column: Annotated[
        Column, typer.Option(help="With CoNLL-U, the column of its tags.", rich_help_panel=MODEL)
    ] = Column.XPOS,
    smooth: Annotated[
        float,
        typer.Option(
            min=0, metavar="LAMBDA", help="Add this to every expected count; 0 is plain EM.", rich_help_panel=TRAINING
        ),
    ] = 0.0,
    iterations: Annotated[
        int, typer.Option(metavar="N", min=0, help="The most to make.", rich_help_panel=TRAINING)
    ] = 100,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            help="Stop when the objective's relative change is this small.",
            rich_help_panel=TRAINING,
        ),
    ] = 1e-6,
    restarts: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="How many starts to try; the best objective wins.", rich_help_panel=TRAINING
        ),
    ] = 1,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many of them at a time.",
            show_default="as many as cores",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=MAX_SEED,
            help="Same seed, same result; restarts count up from it.",
            rich_help_panel=TRAINING,
        ),
    ] = 0,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from DIR.checkpoint of an interrupted run.", rich_help_panel=TRAINING),
    ] = False,
    format: Annotated[
        Format, typer.Option(metavar="FORMAT", help=f"The format of FILE: {FORMATS}", rich_help_panel=OUTPUT)
    ] = Format.AUTO,
    min_count: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Words seen fewer times become one, `<unk>`, unless a dictionary lists them.",
            rich_help_panel=OUTPUT,
        ),
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
    trains, checkpoints go to DIR.checkpoint every few seconds. Ctrl-C keeps the last one; the same command with
    --resume goes on from it, to the same result as without the break.
    """
    from .. import EM, AddLambda, Normalise
    from ..results.storage import may_write
    from .training import Checkpoint, Interrupted, train

    target = Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()
    may_write(target, overwrite)
    beside = Checkpoint.beside(target)
    Checkpoint.may_start(beside, resume, overwrite)
    if dictionary is not None and dictionary_from is not None:
        raise UnsupError("--dictionary and --dictionary-from are two ways to say the same; give one of them")
    for name, value in (("--tolerance", tolerance), ("--smooth", smooth)):
        if not math.isfinite(value):
            raise UnsupError(f"{name} must be a finite number, actual {value}")
    with_dictionary = dictionary is not None or dictionary_from is not None
    text = read(file, format, lowercase=lowercase, min_count=1 if with_dictionary else min_count)
    known = None
    if dictionary is not None:
        known = read_dictionary(dictionary, lowercase)
    elif dictionary_from is not None:
        known = dictionary_of(dictionary_from, dictionary_format, column, lowercase, dictionary_min_count)
    seen = len(text.vocab)
    if known is not None:
        text = with_listed(text, known, min_count)
    model = build(text, tags, order, stop, known, dictionary or dictionary_from)
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} words, {seen:,} types; {model!r}")

    checkpoint = Checkpoint(beside, identity(model, text, smooth, seed))
    resumed = checkpoint.open(resume)
    if resumed:
        say(f"going on from {beside}")
    elif resume:
        say(f"{beside} is not there: starting from the beginning")
    try:
        found = train(
            EM(model, AddLambda(smooth) if smooth else Normalise()),
            text,
            checkpoint,
            iterations=iterations,
            tolerance=tolerance,
            restarts=restarts,
            processes=processes,
            seed=seed,
        )
    except Interrupted:
        if checkpoint.reached:
            say(f"interrupted; what was learned is kept in {beside}. To go on, repeat the command with --resume")
        else:
            checkpoint.remove()
            say("interrupted before the first iteration; nothing was kept")
        raise typer.Exit(INTERRUPTED) from None
    except BaseException as error:
        # After an error of ours the same would happen again; after any other, what was reached is worth keeping.
        if not resumed and (isinstance(error, UnsupError) or not checkpoint.reached):
            checkpoint.remove()
        if isinstance(error, FitError) and not smooth:
            raise FitError(f"{error}. On the command line, --smooth 0.1 often helps") from error
        raise
    found.config |= {"lowercase": lowercase, "min_count": min_count}
    found.save(target, overwrite)
    checkpoint.remove()
    say(str(found.report))
    say(f"saved in {out}; see it with: pyro-unsup show {out}")


def identity(model: Tagger, text: Corpus, smooth: float, seed: int) -> dict[str, Any]:
    """What makes a run the same run."""
    from .training import digest

    mask = model.declarations()["emission"].layout.support
    names = [] if isinstance(model.tags, int) else list(model.tags)  # type: ignore[call-overload]
    return {
        "--tags": model.states,
        "--order": model.order,
        "--stop": model.stop,
        "--smooth": smooth,
        "--seed": seed,
        "text": digest(text.words.tobytes(), text.offsets.tobytes(), "\n".join(text.vocab).encode()),
        "dictionary": digest("\n".join(names).encode(), b"" if mask is None else mask.numpy().tobytes()),
    }
