"""Constituent-context models: binary trees over sequences of tags."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, UnsupError
from ..beliefs import Beliefs
from ..common import print_json, printable, read, say, say_impossible, say_unseen_tags
from ..engines import Algorithm, finite
from ..fit import Task, Training, learn
from ..options import (
    ALGORITHM,
    MODEL,
    OUTPUT,
    TRAINING,
    Column,
    ColumnOption,
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
from .tag_sequences import dropped_by, punctuation, short, without
from .treebanks import BETAS, MAX_LENGTH, DropOption, GoldLengthOption, LengthOption, UnparsedArgument, gold_of

if TYPE_CHECKING:
    from ...results import Fit

#: Pseudo-counts of constituents and distituents: without any, what is learned is below right-branching trees.
SMOOTH = (2.0, 8.0)
HowOption = Annotated[
    How, typer.Option("--how", help="viterbi: the best tree; mbr: the tree with the most expected right brackets.")
]


class Start(StrEnum):
    """What trees are expected at the start."""

    SPLIT = "split"
    UNIFORM = "uniform"


def fit(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A treebank or another tagged text, of which the tags are taken; or plain lines of tags. - is stdin.",
        ),
    ],
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    variant: Annotated[
        int, typer.Option(metavar="N", min=1, max=2, help="2: yields given their width.", rich_help_panel=MODEL)
    ] = 1,
    empty_spans: Annotated[
        bool, typer.Option("--empty-spans", help="Let spans of no words count too.", rich_help_panel=MODEL)
    ] = False,
    start: Annotated[
        Start,
        typer.Option(help="Expect trees made by splits at random, or all trees alike.", rich_help_panel=TRAINING),
    ] = Start.SPLIT,
    smooth_distituents: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            min=0,
            help="Add this to the counts of what is no constituent, and --smooth to those of constituents.",
            show_default="as --smooth, or 8",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    toward: Annotated[
        Start | None,
        typer.Option(
            help="With --anneal: begin with these trees, not with all alike (skewed annealing).",
            rich_help_panel=ALGORITHM,
        ),
    ] = None,
    max_length: LengthOption = MAX_LENGTH,
    drop: DropOption = None,
    format: TextFormatOption = Format.AUTO,
    column: Annotated[
        Column, typer.Option(help="With CoNLL-U, the column of the tags.", rich_help_panel=OUTPUT)
    ] = Column.XPOS,
) -> None:
    """Induce the trees of a text from the tags of its words.

    Brackets in the text are not looked at. Sentences are measured without punctuation.
    """
    from ...estimate import DirichletMAP
    from ...models import CCM
    from ..training import digest

    training.check()
    algorithm.check()
    beliefs.check("ccm", training, algorithm, smooth_distituents=smooth_distituents)
    finite("smooth_distituents", smooth_distituents)
    if toward is not None and not algorithm.anneal:
        raise UnsupError("--toward belongs to --anneal; add that, or leave it out")
    dropped = punctuation() if drop is None else drop
    text = short(read(file, format, column), max_length, dropped, file)
    amounts = SMOOTH if training.smooth is None else (training.smooth, training.smooth)
    amounts = (amounts[0], amounts[1] if smooth_distituents is None else smooth_distituents)
    model = CCM.of(text, variant=variant, prior=(1 + amounts[0], 1 + amounts[1]), empty_spans=empty_spans)
    say(f"{printable(file)}: {len(text):,} sentences, {text.tokens:,} tags, {len(text.vocab):,} types; {model!r}")
    estimate = DirichletMAP() if any(amounts) else None
    begin: Any = model.split_start if start is Start.SPLIT else model.uniform_start
    options = {
        "--variant": variant,
        "--empty-spans": empty_spans,
        "--start": str(start),
        "--smooth-distituents": amounts[1],
        "--toward": None if toward is None else str(toward),
        "--max-length": max_length,
    }
    task = Task(
        "ccm",
        model,
        text,
        text.tokens,
        options,
        {"text": digest(text.words, text.offsets, text.vocab)},
        {"max_length": max_length, "dropped": dropped},
        start=begin(text, estimate=estimate),
        estimate=estimate,
        betas=BETAS,
        toward="split" if toward is Start.SPLIT else None,  # all trees alike is what plain annealing begins with
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: UnparsedArgument,
    out: OutFileOption = "-",
    format: FormatOption = Format.AUTO,
    column: ColumnOption = Column.XPOS,
    how: HowOption = How.VITERBI,
) -> None:
    """Parse a text, and write a tree a line in brackets.

    Words stay with their tags. Punctuation is left out, as it was in training; a sentence of nothing else is a blank
    line.
    """
    from ...data import write_brackets
    from ...results.decoding.parsing import decode

    text = without(read(file, format, column), dropped_by(fit))
    decoded = decode(fit, text, how)
    write_brackets(text, decoded.brackets, out)
    sys.stdout.flush()
    say_unseen_tags(decoded.unseen, text.tokens)


def evaluate(
    fit: FitArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A treebank in Penn brackets. - is standard input.")],
    format: FormatOption = Format.AUTO,
    how: HowOption = How.VITERBI,
    max_length: GoldLengthOption = None,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score a constituent-context model on a treebank, beside trees that branch to one side and the best binary trees.

    Sentences are measured without punctuation.
    """
    from ...data import bracket_rows
    from ...evaluate import bracket_scores, left_branching, right_branching, upper_bound
    from ...results.decoding.parsing import decode, scores

    gold = read(file, format)
    if gold.spans is None:
        raise InputError("no brackets in it, expected a treebank; is --format right?", file)
    gold = gold_of(fit, gold, max_length, file)
    decoded = decode(fit, gold, how)
    found, right = scores(fit, gold, decoded), bracket_rows(gold)
    others = {
        "left_branching": left_branching(gold.lengths),
        "right_branching": right_branching(gold.lengths),
        "upper_bound": upper_bound(right, gold.lengths),
    }
    beside = {name: bracket_scores(right, rows, gold.lengths) for name, rows in others.items()}
    if as_json:
        print_json({**found, **beside, "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, beside={name.replace("_", " "): other for name, other in beside.items()})
    say("recall, precision and f1 are of brackets that are neither single words nor whole sentences; crossing brackets "
        "a sentence")  # fmt: skip
    say_unseen_tags(decoded.unseen, gold.tokens)
    say_impossible(decoded.log_likelihood, "sentences", "bits_per_tag")


def show(
    fit: FitArgument,
    top: Annotated[int, typer.Option(min=0, help="How many sequences and contexts to show.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show a constituent-context model: how its training ended, and what it takes for constituents."""
    model: Any = fit.model
    rows = likeliest_spans(fit, top)
    if not as_json:
        print_fit(fit)
        print_likeliest("", "likeliest", rows.items())
        return
    facts = {"model": "CCM", "tags": model.symbols, "variant": model.variant, "empty_spans": model.empty_spans}
    listed = {name: [{"tags": tags, "probability": p} for tags, p in row] for name, row in rows.items()}
    print_json({**facts, **fit_record(fit), **listed})


def likeliest_spans(fit: Fit, n: int) -> dict[str, Likely]:
    """Likely yields of two tags or more and likely contexts, of constituents and of the others."""
    model: Any = fit.model
    tags, known = list(model.vocab), model.inventory
    names: list[str] = []
    for shorter, last in known.yields.tolist():
        names.append(f"{names[shorter]} {tags[last]}" if shorter >= 0 else tags[last])
    edges = [*tags, "#"]
    around = [f"{edges[left]} _ {edges[right]}" for left, right in known.contexts.tolist()]
    yields, contexts = fit.weights["yield"], fit.weights["context"]
    singles = int(known.widths[0])
    found: dict[str, Likely] = {}
    for row, name in ((1, "constituents"), (0, "distituents")):
        if model.variant == 1:  # given its width a yield says little of how likely it is
            found[name] = likeliest(yields[row, singles : len(names)], names[singles:], n)
        found[f"contexts_of_{name}"] = likeliest(contexts[row, : len(around)], around, n)
    return found
