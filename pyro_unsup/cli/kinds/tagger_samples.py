"""Samples of the tags of a text: drawn, scored and shown."""

from __future__ import annotations

from typing import Annotated

import typer

from ..common import print_json, read_gold
from ..options import (
    Column,
    ColumnOption,
    Format,
    FormatOption,
    JsonOption,
    LowercaseOption,
    SamplesArgument,
    ScoresJsonOption,
    TextFormatOption,
)
from ..sample import Sampling, draw
from ..tables import print_likeliest
from .dictionary import Allowed, MinCountOption, OrderOption, StopOption, TagsOption, identity_of, text_and_model
from .sampled import Which, WhichOption, commonest, print_samples, record, score
from .tagger import MEANING


def sample(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; tags in it are not looked at. - is stdin.")],
    allowed: Allowed,
    sampling: Sampling,
    tags: TagsOption = None,
    order: OrderOption = 2,
    stop: StopOption = True,
    format: TextFormatOption = Format.AUTO,
    min_count: MinCountOption = 1,
    lowercase: LowercaseOption = False,
) -> None:
    """Sample the tags of a text by a Bayesian hidden Markov model, its tables integrated out.

    Goldwater & Griffiths (2007) anneal for 20,000 sweeps, with --alpha 0.003 --beta 1, or --hyper shared or separate.
    """
    sampling.check()
    allowed.check()
    text, model = text_and_model(file, format, allowed, tags, order, stop, min_count, lowercase, only_seen=True)
    remembered = {"lowercase": lowercase, "min_count": min_count}
    draw("tagger", model, text, sampling, identity_of(model, text), remembered)


def evaluate(
    samples: SamplesArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The same text with gold tags. - is standard input.")],
    format: FormatOption = Format.AUTO,
    column: ColumnOption = Column.XPOS,
    how: WhichOption = Which.LAST,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score sampled tags against the gold tags of their text: mean and deviation over chains."""
    from ...data import Vocab

    tags, lowercase = samples.model.tags, samples.config.get("lowercase") is True
    tagset = None if isinstance(tags, int) else Vocab(tags)
    gold = read_gold(file, format, column, tagset=tagset, lowercase=lowercase)
    score(samples, gold, file, how, MEANING, {"tokens": gold.tokens}, as_json)


def show(
    samples: SamplesArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each tag.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show samples: what they are of, how the chains agree, and the commonest words of each tag in the best of them."""
    import numpy as np

    vocab = samples.model.vocab
    counts = np.zeros((samples.K, len(vocab)), np.int64)
    np.add.at(counts, (samples.predict("best"), samples.data["words"]), 1)
    top = list(zip(samples.names, (commonest(row, vocab, words) for row in counts), strict=True))
    if not as_json:
        print_samples(samples, "words")
        print_likeliest("tag", "commonest words", top)
        return
    states = [
        {"state": k, "label": name, "top_words": [{"word": word, "share": share} for word, share in row]}
        for k, (name, row) in enumerate(top)
    ]
    print_json({**record(samples, "tokens"), "states": states})
