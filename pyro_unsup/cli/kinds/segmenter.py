"""Segmenters: the words of lines without spaces."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...data.segmented import has_symbols
from ...data.streams import by_line
from ...errors import InputError, UnsupError
from ..batches import batches
from ..beliefs import Beliefs
from ..common import check_memory, print_json, printable, say, say_impossible, setting
from ..engines import Algorithm, finite
from ..fit import Task, Training, learn
from ..options import (
    MODEL,
    OUTPUT,
    FitArgument,
    How,
    JsonOption,
    LowercaseOption,
    OutFileOption,
    ScoresJsonOption,
    VocabFromOption,
)
from ..streams import Reading, check_stream, saved_model
from ..tables import fit_record, likeliest, print_fit, print_likeliest, print_scores

if TYPE_CHECKING:
    from torch import Tensor

    from ...data import Segmented
    from ...models import Segmenter
    from ...tables import Declaration

MAX_LENGTH, PENALTY = 10, 1.6
#: What each score says.
MEANING = {
    "token_precision": "words found that are there",
    "token_recall": "words that are found where they are",
    "token_f1": "both",
    "boundary_precision": "the same of cuts inside lines",
    "lexicon_precision": "the same of different words",
    "loglik_per_token": "natural logarithm, by symbols; high is good",
}
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Lines of text; the spaces in them are taken out. - is stdin.")
]
LengthOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Symbols in the longest segment.", rich_help_panel=MODEL)
]
PenaltyOption = Annotated[
    float,
    typer.Option(metavar="X", min=0, help="A segment counts exp(-length^X) times as much.", rich_help_panel=MODEL),
]
NoPenaltyOption = Annotated[
    bool, typer.Option("--no-penalty", help="Let long segments count as much as short ones.", rich_help_panel=MODEL)
]
HowOption = Annotated[
    How, typer.Option("--how", help="viterbi: the best segmentation; mbr: the one with the most expected right words.")
]
WordsOption = Annotated[
    str | None,
    typer.Option(
        "--word-separator",
        metavar="TEXT",
        help="What is between words.",
        show_default="white space",
        rich_help_panel=OUTPUT,
    ),
]
SymbolsOption = Annotated[
    str | None,
    typer.Option(
        "--symbol-separator",
        metavar="TEXT",
        help="What is between the symbols of a word.",
        show_default="nothing: each character is one",
        rich_help_panel=OUTPUT,
    ),
]


def fit(
    file: FileArgument,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    max_length: LengthOption = MAX_LENGTH,
    penalty: PenaltyOption = PENALTY,
    no_penalty: NoPenaltyOption = False,
    word_separator: WordsOption = None,
    symbol_separator: SymbolsOption = None,
    lowercase: LowercaseOption = False,
    vocab_from: VocabFromOption = None,
) -> None:
    """Learn to cut lines into words, from lines without spaces.

    From a stream (--vocab-from), words are made of the segments that are known beforehand: those of a model, or all of
    a text up to --max-length. Lines must have known symbols only.
    """
    from ...estimate.templates import segmentation
    from ...infer.init import uniform
    from ...models import Segmenter
    from ..training import digest

    training.check()
    algorithm.check()
    beliefs.check("segmenter", training, algorithm)
    exponent, start = exponent_of(penalty, no_penalty), uniform()
    separators: dict[str, Any] = {"words": word_separator, "symbols": symbol_separator, "lowercase": lowercase}
    if vocab_from is not None:
        check_stream(file, vocab_from, training, algorithm)
        if beliefs.logistic_normal:
            raise UnsupError("--logistic-normal gives every segment some weight, and --vocab-from gives none to those "
                             "that are not known; give one of them")  # fmt: skip
        saved = saved_model(vocab_from, Segmenter)
        if saved is None:
            model = build(read_lines(vocab_from, **separators), max_length, exponent)
        else:
            model = Segmenter(saved.vocab, saved.types, max_length, exponent)
        say(f"{printable(vocab_from)}: {model.symbols:,} symbols; {model!r}")
        cut = partial(by_line, counts=partial(has_symbols, word_sep=word_separator, symbol_sep=symbol_separator))
        read = partial(read_lines, **separators, gold=False, vocab=model.vocab)
        data: Any = Reading(file, batches(file, algorithm.examples, cut, read))
        tokens, start = 0, _known_segments
        checksum = digest(model.vocab, model.types.nodes.numpy(), model.types.chosen.numpy())
    else:
        data = read_lines(file, **separators)
        model = build(data, max_length, exponent)
        tokens, checksum = data.tokens, digest(data.words, data.offsets, data.vocab)
        say(f"{printable(file)}: {len(data):,} lines, {tokens:,} symbols, {len(data.vocab):,} types; {model!r}")
    task = Task(
        "segmenter",
        model,
        data,
        tokens,
        {"--max-length": max_length, "--penalty": exponent},
        {"text": checksum},
        {"lowercase": lowercase, "word_separator": word_separator, "symbol_separator": symbol_separator},
        start=start,
        templates=segmentation,
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: FileArgument,
    out: OutFileOption = "-",
    how: HowOption = How.VITERBI,
) -> None:
    """Cut lines into words, and write them with spaces between the words.

    Spaces that are there already do not count. Blank lines are left out.
    """
    from ...data import write_segmented
    from ...results.decoding.segmenting import decode

    text = read_lines(file, *separators_of(fit), gold=False)
    decoded = decode(fit, text, how)
    words, symbols = separators_of(fit)
    write_segmented(text, decoded.structure.numpy(), out, word_sep=words or " ", symbol_sep=symbols or "")
    sys.stdout.flush()
    _say_unseen(decoded.unseen, text.tokens)


def evaluate(
    fit: FitArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines with spaces between gold words. - is stdin.")],
    how: HowOption = How.VITERBI,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse gold words that are longer than any segment of the model.")
    ] = False,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score a segmenter on lines with gold spaces."""
    from ...results.decoding.segmenting import decode, scores

    model: Any = fit.model
    gold = read_lines(file, *separators_of(fit), max_segment=model.max_length if strict else None)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    too_long = int((gold.word_lengths > model.max_length).sum())
    if as_json:
        size = {"lines": len(gold), "tokens": gold.tokens, "unknown_tokens": decoded.unseen, "too_long_words": too_long}
        print_json({**found, **size})
        return
    print_scores(found, MEANING)
    if too_long:
        say(f"{too_long:,} of {len(gold.word_lengths):,} gold words have more than {model.max_length} symbols, as no "
            "segment of the model has; they cannot be found (--strict refuses them)")  # fmt: skip
    _say_unseen(decoded.unseen, gold.tokens)
    say_impossible(decoded.log_likelihood, "lines", "loglik_per_token")


def show(
    fit: FitArgument,
    top: Annotated[int, typer.Option(min=0, help="How many segments to show.")] = 40,
    as_json: JsonOption = False,
) -> None:
    """Show a segmenter: how its training ended, and its likeliest segments."""
    model: Any = fit.model
    names = model.types.strings(model.vocab, separators_of(fit)[1] or "")
    segments = likeliest(fit.weights["segments"][: len(names)], names, top)
    stop = float(fit.weights["stop"][1].exp())
    if not as_json:
        print_fit(fit)
        print_likeliest("", "likeliest segments", [("", segments)])
        return
    facts = {"model": "Segmenter", "symbols": model.symbols, "types": len(names), "max_length": model.max_length}
    listed = [{"segment": name, "probability": p} for name, p in segments]
    print_json({**facts, "penalty": model.penalty, "stop": stop, **fit_record(fit), "segments": listed})


def exponent_of(penalty: float, no_penalty: bool) -> float | None:
    """The exponent of the penalty; None for none."""
    finite("penalty", penalty)
    if no_penalty and penalty != PENALTY:
        raise UnsupError(f"--no-penalty and --penalty {penalty:g} contradict; give one of them")
    return None if no_penalty else penalty


def read_lines(file: str, words: str | None, symbols: str | None, **options: Any) -> Segmented:
    """Lines, with their gold spaces unless told otherwise."""
    from ...data import read_segmented

    try:
        return read_segmented(file, word_sep=words, symbol_sep=symbols, **options)
    except InputError as error:
        what = error.what.replace("word_sep", "--word-separator").replace("symbol_sep", "--symbol-separator")
        what = what.replace("the word ", "the symbol ")
        what = what.replace("use a vocabulary with an unknown symbol", "give --vocab-from a text that has it")
        raise InputError(what, error.path, error.line) from error


def build(text: Segmented, max_length: int, penalty: float | None) -> Segmenter:
    """The model of all segments of a text, if it fits into memory."""
    from ...models import Segmenter

    what = f"segments of up to {max_length:,} symbols in a text of {text.tokens:,}"
    check_memory(max_length * text.tokens, what, "lower --max-length")
    return Segmenter.of(text, max_length=max_length, penalty=penalty)


def _known_segments(declarations: Mapping[str, Declaration], generator: Any) -> dict[str, Tensor]:
    """The uniform start, but without weight for segments that the model does not know."""
    found = {name: one.layout.uniform() for name, one in declarations.items()}
    found["segments"][-1] = -math.inf
    return {name: declarations[name].layout.normalise(w) for name, w in found.items()}


def separators_of(fit: Any) -> tuple[str | None, str | None]:
    """Between words and between symbols, as in training."""
    return setting(fit, "word_separator", str | None), setting(fit, "symbol_separator", str | None)


def _say_unseen(unseen: int, tokens: int) -> None:
    if unseen:
        say(f"{unseen:,} of {tokens:,} symbols are unknown to the model: their neighbours decided")
