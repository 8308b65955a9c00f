"""Dependency models with valence: heads of words, from sequences of tags."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from ...errors import InputError, UnsupError
from ..beliefs import Beliefs
from ..common import print_json, printable, say, say_impossible, say_unseen_tags
from ..engines import Algorithm
from ..fit import Task, Training, learn
from ..options import (
    ALGORITHM,
    OUTPUT,
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

NOISE = 1.0  # of starts at random


class Start(StrEnum):
    """Where training starts: short dependencies likelier, by one of four readings; all trees alike; or anywhere."""

    HARMONIC = "harmonic"
    HARMONIC_TREE = "harmonic-tree"
    HARMONIC_PARAMETERS = "harmonic-parameters"
    HARMONIC_VITERBI = "harmonic-viterbi"
    UNIFORM = "uniform"
    RANDOM = "random"


READINGS = {
    Start.HARMONIC: "counts",
    Start.HARMONIC_TREE: "tree",
    Start.HARMONIC_PARAMETERS: "parameters",
    Start.HARMONIC_VITERBI: "viterbi",
}


class Toward(StrEnum):
    """What skewed annealing begins with."""

    HARMONIC = "harmonic"


def fit(
    file: TextArgument,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    start: Annotated[
        Start,
        typer.Option(
            "--init",
            "--start",
            help="Begin with short dependencies (harmonic, in one of four readings), with all decisions alike, or at "
            "random.",
            rich_help_panel=TRAINING,
        ),
    ] = Start.HARMONIC,
    toward: Annotated[
        Toward | None,
        typer.Option(
            help="With --anneal: begin with short dependencies, not with all trees alike (skewed annealing).",
            rich_help_panel=ALGORITHM,
        ),
    ] = None,
    max_length: LengthOption = MAX_LENGTH,
    drop: DropOption = None,
    keep_punctuation: Annotated[
        bool, typer.Option("--keep-punctuation", help="Leave no tag out.", rich_help_panel=OUTPUT)
    ] = False,
    format: TextFormatOption = Format.AUTO,
    tags: TextTagsOption = Column.XPOS,
    classes: ClassesOption = None,
) -> None:
    """Induce the dependencies of a text from the tags of its words.

    Heads in the text are not looked at. Sentences are measured without punctuation; in CoNLL-U also words whose UPOS is
    to be left out are.
    """
    from ...infer.init import uniform
    from ...models import DMV
    from ..training import digest

    training.check()
    algorithm.check()
    beliefs.check("dmv", training, algorithm)
    check_classes(classes, beliefs.features)
    if toward is not None and not algorithm.anneal:
        raise UnsupError("--toward belongs to --anneal; add that, or leave it out")
    if keep_punctuation and drop is not None:
        raise UnsupError("--keep-punctuation and --drop contradict each other; give one of them")
    dropped = drop if drop is not None else [] if keep_punctuation else [*punctuation(), "SYM"]
    text = short(read_tags(file, format, tags, dropped), max_length, dropped, file)
    model = DMV.of(text)
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} tags, {len(text.vocab):,} types; {model!r}")
    begin: Any = uniform() if start is Start.UNIFORM else None
    if start in READINGS:
        begin = model.harmonic_start(text, reading=READINGS[start])
    task = Task(
        "dmv",
        model,
        text,
        text.tokens,
        {
            "--init": str(start),
            "--toward": None if toward is None else str(toward),
            "--max-length": max_length,
            "--classes": classes,
        },
        {"text": digest(text.words, text.offsets, text.vocab)},
        {"max_length": max_length, "dropped": dropped, "column": str(tags)},
        start=begin,
        templates=partial(templates_of, text, classes),
        noise=NOISE if start is Start.RANDOM else None,
        betas=BETAS,
        toward=None if toward is None else str(toward),
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: UnparsedArgument,
    out: OutFileOption = "-",
    format: FormatOption = Format.AUTO,
    tags: TagsOption = None,
    how: HeadsHowOption = How.MBR,
) -> None:
    """Parse a text, and write it as CoNLL-U with a head for every word.

    Of CoNLL-U, all but HEAD and DEPREL stays as it is. Punctuation is left out of the parse, as it was in training, and
    hangs on the word before it.
    """
    from ...results.decoding.dependencies import decode

    unparsed = Unparsed.read(file, format, column_of(fit, tags), dropped_by(fit))
    heads, unseen = np.zeros(0, np.int64), 0
    if len(unparsed.text):
        decoded = decode(fit, unparsed.text, how)
        heads, unseen = decoded.structure.numpy(), decoded.unseen
    unparsed.write(heads, out)
    sys.stdout.flush()
    say_unseen_tags(unseen, unparsed.text.tokens)


def evaluate(
    fit: FitArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A treebank in CoNLL-U. - is standard input.")],
    format: FormatOption = Format.AUTO,
    tags: TagsOption = None,
    how: HeadsHowOption = How.MBR,
    max_length: GoldLengthOption = None,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score a dependency model on a treebank, beside chains in which every word hangs on its neighbour.

    Sentences are measured without punctuation.
    """
    from ...evaluate import chain_to_next, chain_to_previous, head_counts, head_scores
    from ...results.decoding.dependencies import decode, scores

    gold = read_tags(file, format, column_of(fit, tags), dropped_by(fit))
    if gold.heads is None:
        raise InputError("no heads in it, expected a treebank in CoNLL-U; is --format right?", file)
    gold = gold_of(fit, gold, max_length, file)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    chains = {"chain_to_next": chain_to_next(gold.lengths), "chain_to_previous": chain_to_previous(gold.lengths)}
    assert gold.heads is not None
    beside = {name: head_scores(gold.heads, heads, gold.lengths) for name, heads in chains.items()}
    if as_json:
        by_length = head_counts(gold.heads, decoded.structure, gold.lengths).by_length().to_dict("index")
        print_json({**found, **beside, "by_length": by_length, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, beside={name.replace("_", " "): other for name, other in beside.items()})
    say("undirected: the head may also be a gold child; ned: or the gold grandparent. The root's word counts")
    say_unseen_tags(decoded.unseen, gold.tokens)
    say_impossible(decoded.log_likelihood, "sentences", "loglik_per_token")


def show(
    fit: FitArgument,
    top: Annotated[int, typer.Option(min=0, help="How many dependents of each tag to show.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show a dependency model: how its training ended, its likely roots, and the likely dependents of each tag."""
    model: Any = fit.model
    names = list(model.vocab)
    roots = likeliest(fit.weights["root"], names, top)
    below: dict[str, dict[str, Likely]] = {
        name: {side: likeliest(fit.weights["attach"][k, d], names, top) for d, side in enumerate(("left", "right"))}
        for k, name in enumerate(names)
    }
    if not as_json:
        print_fit(fit)
        print_likeliest("", "likeliest", [("root", roots)])
        for side in ("left", "right"):
            print_likeliest("head", f"likeliest to the {side}", ((name, rows[side]) for name, rows in below.items()))
        return
    attach = {name: {side: _listed(row) for side, row in rows.items()} for name, rows in below.items()}
    print_json({"model": "DMV", "tags": model.symbols, **fit_record(fit), "root": _listed(roots), "attach": attach})


def _listed(row: Likely) -> list[dict[str, Any]]:
    return [{"tag": tag, "probability": p} for tag, p in row]
