"""Samples of the clusters of documents: drawn, scored and shown."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import InputError
from ..common import print_json, printable, say, setting
from ..options import JsonOption, LowercaseOption, SamplesArgument, ScoresJsonOption
from ..sample import Sampling, draw
from ..tables import print_likeliest
from .clusterer import MEANING, build
from .documents import (
    ClustersOption,
    DropOption,
    Encoding,
    EncodingOption,
    FileArgument,
    Form,
    FormOption,
    LeastOption,
    SkipOption,
    SplitOption,
    kept_words,
)
from .sampled import Which, WhichOption, commonest, print_samples, record, score


def sample(
    file: FileArgument,
    sampling: Sampling,
    clusters: ClustersOption = 20,
    drop_frequent: DropOption = 50,
    min_count: LeastOption = 5,
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    lowercase: LowercaseOption = False,
    skip_empty: SkipOption = False,
) -> None:
    """Sample the clusters of documents, the words of each cluster integrated out."""
    from ..training import digest

    sampling.check()
    text = kept_words(file, format, split, encoding, lowercase, skip_empty, drop_frequent, min_count)
    model = build(clusters, text.vocab)
    say(f"{printable(file)}: {len(text):,} documents, {text.tokens:,} words, {len(text.vocab):,} types; {model!r}")
    identity = {"--clusters": clusters, "text": digest(text.words, text.counts, text.offsets, text.vocab)}
    remembered = {"lowercase": lowercase, "drop_frequent": drop_frequent, "min_count": min_count}
    draw("clusterer", model, text, sampling, identity, remembered)


def evaluate(
    samples: SamplesArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The same documents with gold labels. - is stdin.")],
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    skip_empty: SkipOption = False,
    how: WhichOption = Which.LAST,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score sampled clusters against the gold labels of their documents: mean and deviation over chains."""
    lowercase = samples.config.get("lowercase") is True
    words = (setting(samples, name, int) for name in ("drop_frequent", "min_count"))  # type: ignore[arg-type]
    gold = kept_words(file, format, split, encoding, lowercase, skip_empty, *words)
    if gold.labels is None:
        raise InputError("no labels in it, expected label TAB text; is --format right?", file)
    score(samples, gold, file, how, MEANING, {"documents": len(gold)}, as_json)


def show(
    samples: SamplesArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each cluster.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show samples: what they are of, how the chains agree, and the commonest words of clusters in the best of them."""
    import numpy as np

    vocab, data, best = samples.model.vocab, samples.data, samples.predict("best")
    counts = np.zeros((samples.K, len(vocab)), np.int64)
    np.add.at(counts, (np.repeat(best, np.diff(data["offsets"])), data["words"]), data["times"])
    sizes = np.bincount(best, minlength=len(counts)) / len(best)
    top = [commonest(row, vocab, words) for row in counts]
    if not as_json:
        print_samples(samples, "documents")
        names = [f"{k} ({100 * share:.0f} %)" for k, share in enumerate(sizes)]
        print_likeliest("cluster", "commonest words", zip(names, top, strict=True))
        return
    rows = [
        {"cluster": k, "share": float(sizes[k]), "top_words": [{"word": word, "share": share} for word, share in row]}
        for k, row in enumerate(top)
    ]
    print_json({**record(samples, "documents"), "rows": rows})
