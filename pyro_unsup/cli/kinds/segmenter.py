"""Segmenters: the words of lines without spaces."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, UnsupError
from ..common import check_memory, print_json, printable, say, setting
from ..engines import Algorithm, finite
from ..fit import Task, Training, learn
from ..options import MODEL, OUTPUT, FitArgument, How, JsonOption, LowercaseOption, OutFileOption, ScoresJsonOption
from ..tables import fit_record, likeliest, print_fit, print_likeliest, print_scores

if TYPE_CHECKING:
    from ...data import Segmented

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
    max_length: Annotated[
        int, typer.Option(metavar="N", min=1, help="Symbols in the longest segment.", rich_help_panel=MODEL)
    ] = MAX_LENGTH,
    penalty: Annotated[
        float,
        typer.Option(metavar="X", min=0, help="A segment counts exp(-length^X) times as much.", rich_help_panel=MODEL),
    ] = PENALTY,
    no_penalty: Annotated[
        bool, typer.Option("--no-penalty", help="Let long segments count as much as short ones.", rich_help_panel=MODEL)
    ] = False,
    word_separator: WordsOption = None,
    symbol_separator: SymbolsOption = None,
    lowercase: LowercaseOption = False,
) -> None:
    """Learn to cut lines into words, from lines without spaces."""
    from ...infer import uniform
    from ...models import Segmenter
    from ..training import digest

    training.check()
    algorithm.check()
    finite("penalty", penalty)
    if no_penalty and penalty != PENALTY:
        raise UnsupError(f"--no-penalty and --penalty {penalty:g} contradict; give one of them")
    text = _read(file, word_separator, symbol_separator, lowercase=lowercase)
    what = f"segments of up to {max_length:,} symbols in a text of {text.tokens:,}"
    check_memory(max_length * text.tokens, what, "lower --max-length")
    exponent = None if no_penalty else penalty
    model = Segmenter.of(text, max_length=max_length, penalty=exponent)
    say(f"{printable(file)}: {len(text):,} lines, {text.tokens:,} symbols, {len(text.vocab):,} types; {model!r}")
    task = Task(
        "segmenter",
        model,
        text,
        text.tokens,
        {"--max-length": max_length, "--penalty": exponent},
        {"text": digest(text.words, text.offsets, text.vocab)},
        {"lowercase": lowercase, "word_separator": word_separator, "symbol_separator": symbol_separator},
        start=uniform(),
    )
    learn(task, training, algorithm)


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

    text = _read(file, *_separators(fit), gold=False)
    decoded = decode(fit, text, how)
    words, symbols = _separators(fit)
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
    gold = _read(file, *_separators(fit), max_segment=model.max_length if strict else None)
    decoded = decode(fit, gold, how)
    found = scores(fit, gold, decoded)
    if as_json:
        print_json({**found, "lines": len(gold), "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, MEANING)
    _say_unseen(decoded.unseen, gold.tokens)
    impossible = int((decoded.log_likelihood == -math.inf).sum())
    if impossible:
        say(f"{impossible:,} of {len(gold):,} lines have probability zero, so loglik_per_token is infinite: train with "
            "--smooth for text like this")  # fmt: skip


def show(
    fit: FitArgument,
    top: Annotated[int, typer.Option(min=0, help="How many segments to show.")] = 40,
    as_json: JsonOption = False,
) -> None:
    """Show a segmenter: how its training ended, and its likeliest segments."""
    model: Any = fit.model
    names = model.types.strings(model.vocab, _separators(fit)[1] or "")
    segments = likeliest(fit.weights["segments"][: len(names)], names, top)
    stop = float(fit.weights["stop"][1].exp())
    if not as_json:
        print_fit(fit)
        print_likeliest("", "likeliest segments", [("", segments)])
        return
    facts = {"model": "Segmenter", "symbols": model.symbols, "types": len(names), "max_length": model.max_length}
    listed = [{"segment": name, "probability": p} for name, p in segments]
    print_json({**facts, "penalty": model.penalty, "stop": stop, **fit_record(fit), "segments": listed})


def _read(file: str, words: str | None, symbols: str | None, **options: Any) -> Segmented:
    from ...data import read_segmented

    try:
        return read_segmented(file, word_sep=words, symbol_sep=symbols, **options)
    except InputError as error:
        what = error.what.replace("word_sep", "--word-separator").replace("symbol_sep", "--symbol-separator")
        raise InputError(what, error.path, error.line) from error


def _separators(fit: Any) -> tuple[str | None, str | None]:
    """Between words and between symbols, as in training."""
    return setting(fit, "word_separator", str | None), setting(fit, "symbol_separator", str | None)


def _say_unseen(unseen: int, tokens: int) -> None:
    if unseen:
        say(f"{unseen:,} of {tokens:,} symbols are unknown to the model: their neighbours decided")
