"""Products of dependency and constituent-context model: heads and brackets, from sequences of tags."""

from __future__ import annotations

import sys
from copy import copy
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from ...errors import InputError
from ..beliefs import Beliefs
from ..common import print_json, printable, say, say_impossible, say_unseen_tags
from ..engines import Algorithm, finite
from ..fit import Task, Training, learn
from ..options import (
    MODEL,
    TRAINING,
    Column,
    FitArgument,
    Format,
    FormatOption,
    How,
    JsonOption,
    OutFileOption,
    ScoresJsonOption,
    TextFormatOption,
)
from ..tables import Likely, fit_record, likeliest, print_fit, print_likeliest, print_scores
from . import ccm, dmv
from .ccm import SMOOTH
from .tag_sequences import dropped_by, punctuation, short
from .treebanks import (
    BETAS,
    MAX_LENGTH,
    ClassesOption,
    DropOption,
    GoldLengthOption,
    HeadsHowOption,
    LengthOption,
    TagsOption,
    TextArgument,
    TextTagsOption,
    Unparsed,
    UnparsedArgument,
    check_classes,
    column_of,
    gold_of,
    read_tags,
    templates_of,
)


class Order(StrEnum):
    """The side on which heads take their children first."""

    RIGHT = "right"
    LEFT = "left"


class Start(StrEnum):
    """Short dependencies likelier, by one of four readings."""

    HARMONIC = "harmonic"
    HARMONIC_TREE = "harmonic-tree"
    HARMONIC_PARAMETERS = "harmonic-parameters"
    HARMONIC_VITERBI = "harmonic-viterbi"


def fit(
    file: TextArgument,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    order: Annotated[
        Order, typer.Option(help="The side on which heads take their children first.", rich_help_panel=MODEL)
    ] = Order.RIGHT,
    start: Annotated[
        Start,
        typer.Option(
            "--init",
            "--start",
            help="What short dependencies are, which training begins with, in one of four readings; trees are split at "
            "random.",
            rich_help_panel=TRAINING,
        ),
    ] = Start.HARMONIC,
    smooth_constituents: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            min=0,
            help="Add this to the counts of what constituents consist of and stand between; --smooth is for "
            "dependencies.",
            show_default=f"{SMOOTH[0]:g}",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    smooth_distituents: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            min=0,
            help="The same of what is no constituent.",
            show_default=f"{SMOOTH[1]:g}",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    max_length: LengthOption = MAX_LENGTH,
    drop: DropOption = None,
    format: TextFormatOption = Format.AUTO,
    tags: TextTagsOption = Column.XPOS,
    classes: ClassesOption = None,
) -> None:
    """Induce the dependencies and brackets of a text together, from the tags of its words.

    Heads and brackets in the text are not looked at. Sentences are measured without punctuation; in CoNLL-U also words
    whose UPOS is to be left out are.
    """
    from ...estimate import DirichletMAP
    from ...models import DMVCCM
    from ..training import digest

    training.check()
    algorithm.check()
    smoothing = {"smooth_constituents": smooth_constituents, "smooth_distituents": smooth_distituents}
    beliefs.check("dmv-ccm", training, algorithm, **smoothing)
    check_classes(classes, beliefs.features)
    for name, amount in smoothing.items():
        finite(name, amount)
    spans = [usual if given is None else given for usual, given in zip(SMOOTH, smoothing.values(), strict=True)]
    dropped = [*punctuation(), "SYM"] if drop is None else drop
    text = short(read_tags(file, format, tags, dropped), max_length, dropped, file)
    arcs = dict.fromkeys(("root", "attach", "stop"), 1 + (training.smooth or 0.0))
    prior: dict[str, Any] = {**arcs, **dict.fromkeys(("yield", "context"), (1 + spans[0], 1 + spans[1]))}
    model = DMVCCM.of(text, prior=prior, order=order.value)
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} tags, {len(text.vocab):,} types; {model!r}")
    estimate = DirichletMAP() if training.smooth or any(spans) else None
    begin: Any = model.start(text, reading=dmv.READINGS[dmv.Start(start.value)], estimate=estimate)
    task = Task(
        "dmv-ccm",
        model,
        text,
        text.tokens,
        {
            "--order": str(order),
            "--init": str(start),
            "--smooth-constituents": spans[0],
            "--smooth-distituents": spans[1],
            "--max-length": max_length,
            "--classes": classes,
        },
        {"text": digest(text.words, text.offsets, text.vocab)},
        {"max_length": max_length, "dropped": dropped, "column": str(tags)},
        start=begin,
        templates=partial(templates_of, text, classes),
        estimate=estimate,
        betas=BETAS,
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: UnparsedArgument,
    out: OutFileOption = "-",
    format: FormatOption = Format.AUTO,
    tags: TagsOption = None,
    how: HeadsHowOption = How.MBR,
    brackets: Annotated[
        bool, typer.Option("--brackets", help="Write the tree of each sentence in brackets, a line each.")
    ] = False,
) -> None:
    """Parse a text, and write it as CoNLL-U with a head for every word, or in brackets.

    Of CoNLL-U, all but HEAD and DEPREL stays as it is. Punctuation is left out of the parse, as it was in training, and
    hangs on the word before it; brackets do without it, and without sentences of nothing else.
    """
    from ...data import write_brackets
    from ...results.decoding.headed import decode

    unparsed = Unparsed.read(file, format, column_of(fit, tags), dropped_by(fit))
    heads, rows, unseen = np.zeros(0, np.int64), np.zeros((0, 3), np.int64), 0
    if len(unparsed.text):
        decoded = decode(fit, unparsed.text, how)
        heads, rows, unseen = decoded.structure.numpy(), decoded.brackets, decoded.unseen
    if brackets:
        write_brackets(unparsed.text, rows, out)
    else:
        unparsed.write(heads, out)
    sys.stdout.flush()
    say_unseen_tags(unseen, unparsed.text.tokens)


def evaluate(
    fit: FitArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A treebank in CoNLL-U or Penn brackets. - is standard input.")
    ],
    format: FormatOption = Format.AUTO,
    tags: TagsOption = None,
    how: HeadsHowOption = How.MBR,
    max_length: GoldLengthOption = None,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score the heads of a product model on a treebank of dependencies, or its brackets on one of brackets.

    Sentences are measured without punctuation.
    """
    from ...results.decoding.headed import decode, scores

    gold = read_tags(file, format, column_of(fit, tags), dropped_by(fit))
    if gold.heads is None and gold.spans is None:
        raise InputError("no heads or brackets in it, expected a treebank; is --format right?", file)
    gold = gold_of(fit, gold, max_length, file)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    if as_json:
        print_json({**found, "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found)
    say_unseen_tags(decoded.unseen, gold.tokens)
    say_impossible(decoded.log_likelihood, "sentences", "loglik_per_token")


def show(
    fit: FitArgument,
    top: Annotated[int, typer.Option(min=0, help="How many roots, sequences and contexts to show.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show a product model: how its training ended, its likely roots, and what it takes for constituents."""
    model: Any = fit.model
    spans = copy(fit)
    spans.model = model.ccm
    rows: dict[str, Likely] = {"root": likeliest(fit.weights["root"], list(model.vocab), top)}
    rows |= ccm.likeliest_spans(spans, top)
    if not as_json:
        print_fit(fit)
        print_likeliest("", "likeliest", rows.items())
        return
    listed = {name: [{"tags": tags, "probability": p} for tags, p in row] for name, row in rows.items()}
    print_json({"model": "DMVCCM", "tags": model.symbols, "order": model.order, **fit_record(fit), **listed})
