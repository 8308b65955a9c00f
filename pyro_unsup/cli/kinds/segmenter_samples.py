"""Samples of the words of lines without spaces: drawn, scored and shown."""

from __future__ import annotations

from typing import Annotated

import typer

from ..common import print_json, printable, say
from ..options import JsonOption, LowercaseOption, SamplesArgument, ScoresJsonOption
from ..sample import Sampling, draw
from ..tables import print_likeliest
from .sampled import Which, WhichOption, commonest, print_samples, record, score
from .segmenter import (
    MAX_LENGTH,
    MEANING,
    PENALTY,
    FileArgument,
    LengthOption,
    NoPenaltyOption,
    PenaltyOption,
    SymbolsOption,
    WordsOption,
    build,
    exponent_of,
    read_lines,
    separators_of,
)


def sample(
    file: FileArgument,
    sampling: Sampling,
    max_length: LengthOption = MAX_LENGTH,
    penalty: PenaltyOption = PENALTY,
    no_penalty: NoPenaltyOption = False,
    word_separator: WordsOption = None,
    symbol_separator: SymbolsOption = None,
    lowercase: LowercaseOption = False,
) -> None:
    """Sample the words of lines without spaces, the lexicon integrated out.

    Goldwater, Griffiths & Johnson (2009) have no penalty, and a small --beta.
    """
    from ..training import digest

    sampling.check()
    chosen = exponent_of(penalty, no_penalty)
    text = read_lines(file, word_separator, symbol_separator, lowercase=lowercase)
    model = build(text, max_length, chosen)
    say(f"{printable(file)}: {len(text):,} lines, {text.tokens:,} symbols, {len(text.vocab):,} types; {model!r}")
    identity = {
        "--max-length": max_length,
        "--penalty": chosen,
        "text": digest(text.words, text.offsets, text.vocab),
    }
    remembered = {"lowercase": lowercase, "word_separator": word_separator, "symbol_separator": symbol_separator}
    draw("segmenter", model, text, sampling, identity, remembered)


def evaluate(
    samples: SamplesArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The same lines with gold spaces. - is standard input.")],
    how: WhichOption = Which.LAST,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score sampled words against the gold words of their text: mean and deviation over chains."""
    gold = read_lines(file, *separators_of(samples), lowercase=samples.config.get("lowercase") is True)
    score(samples, gold, file, how, MEANING, {"lines": len(gold), "tokens": gold.tokens}, as_json)


def show(
    samples: SamplesArgument,
    top: Annotated[int, typer.Option(min=0, help="How many words to show.")] = 40,
    as_json: JsonOption = False,
) -> None:
    """Show samples: what they are of, how the chains agree, and the commonest words in the best of them."""
    import numpy as np

    model = samples.model
    names = model.types.strings(model.vocab, separators_of(samples)[1] or "")
    ends = np.flatnonzero(samples.predict("best"))
    types = samples.data["cells"][ends, np.diff(ends, prepend=-1) - 1]
    words = commonest(np.bincount(types, minlength=len(names)), names, top)
    if not as_json:
        print_samples(samples, "symbols")
        print_likeliest("", "commonest words", [("", words)])
        return
    print_json({**record(samples, "symbols"), "words": [{"word": word, "share": share} for word, share in words]})
