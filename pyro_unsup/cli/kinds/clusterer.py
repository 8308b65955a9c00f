"""Clusterers: what documents are about, by a mixture of multinomials."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, StructureError
from ..batches import documents
from ..beliefs import Beliefs
from ..common import check_memory, print_json, printable, say, say_impossible
from ..engines import Algorithm
from ..fit import Task, Training, learn
from ..options import (
    FitArgument,
    JsonOption,
    LowercaseOption,
    OutFileOption,
    ScoresJsonOption,
    VocabFromOption,
)
from ..streams import Reading, check_stream, saved_model
from ..tables import fit_record, likeliest, print_fit, print_likeliest, print_scores
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
    read,
)

if TYPE_CHECKING:
    from ...data import Documents, Vocab
    from ...models import Clusterer
    from ...results import Fit
    from ...results.decoding.clustering import Decoded

#: How far starts lie from even ones (Liang & Klein 2009).
NOISE = 1e-3
#: What each score says.
MEANING = {
    "accuracy": "each cluster taken as its commonest gold label",
    "one_to_one": "the same, every gold label used once",
    "v_measure": "how well each predicts the other",
    "vi_bits": "what each leaves unsaid; low is good",
    "clusters_used": "different clusters in the output",
    "loglik_per_token": "natural logarithm; high is good",
}


def fit(
    file: FileArgument,
    training: Training,
    algorithm: Algorithm,
    beliefs: Beliefs,
    clusters: ClustersOption = 20,
    drop_frequent: DropOption = 50,
    min_count: LeastOption = 5,
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    lowercase: LowercaseOption = False,
    skip_empty: SkipOption = False,
    vocab_from: VocabFromOption = None,
) -> None:
    """Cluster documents by their words. Labels in the text are not looked at.

    From a stream (--vocab-from), words that are not known beforehand are passed over, and documents of no others.
    """
    from ...models import Clusterer
    from ..training import digest

    training.check()
    algorithm.check()
    beliefs.check("clusterer", training, algorithm)
    kept = partial(kept_words, form=format, split=split, encoding=encoding, lowercase=lowercase, skip_empty=skip_empty,
                   drop_frequent=drop_frequent, min_count=min_count)  # fmt: skip
    if vocab_from is not None:
        check_stream(file, vocab_from, training, algorithm)
        saved = saved_model(vocab_from, Clusterer)
        vocab = kept(vocab_from).vocab if saved is None else saved.vocab
        model = build(clusters, vocab)
        say(f"{printable(vocab_from)}: {len(vocab):,} types; {model!r}")

        def read_block(block: Any, form: Form) -> Documents:
            empty = "keep" if skip_empty else "error"
            return read(block, form, split, encoding, lowercase, empty).with_vocab(vocab)

        data: Any = Reading(file, documents(file, format, split, algorithm.examples, read_block))
        tokens, checksum = 0, digest(vocab)
    else:
        data = kept(file)
        model = build(clusters, data.vocab)
        tokens, checksum = data.tokens, digest(data.words, data.counts, data.offsets, data.vocab)
        size = f"{len(data):,} documents, {tokens:,} words, {len(data.vocab):,} types"
        say(f"{printable(file)}: {size}; {model!r}")
        if data.left_out:
            say(f"{data.left_out:,} documents have none of these words, and are left out")
    task = Task(
        "clusterer",
        model,
        data,
        tokens,
        {"--clusters": clusters, "--drop-frequent": drop_frequent, "--min-count": min_count},
        {"text": checksum},
        {"lowercase": lowercase, "drop_frequent": drop_frequent, "min_count": min_count},
        noise=NOISE,
    )
    learn(task, training, algorithm, beliefs)


def predict(
    fit: FitArgument,
    file: FileArgument,
    out: OutFileOption = "-",
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    keep_empty: Annotated[
        bool, typer.Option("--keep-empty", help="Put documents without words into the likeliest cluster.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A second column: the posterior probability of the cluster.")
    ] = False,
) -> None:
    """Cluster documents, and write the number of a cluster a line, in their order.

    Words that the model does not know are passed over. A document of no others goes to the likeliest cluster.
    """
    from ...data import write_labels

    found = read(file, format, split, encoding, False, "keep" if keep_empty else "error", "--keep-empty")
    decoded = _decode(fit, found, file)
    labels: list[Any] = decoded.structure.tolist()
    if probabilities:
        chosen = decoded.posterior.marginals.gather(1, decoded.structure[:, None].long())[:, 0].clamp(0, 1).tolist()
        _write_columns(labels, chosen, out)
    else:
        write_labels(labels, out)
    sys.stdout.flush()
    _say_unseen(decoded.unseen, found.tokens)


def evaluate(
    fit: FitArgument,
    file: FileArgument,
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    skip_empty: SkipOption = False,
    as_json: ScoresJsonOption = False,
) -> None:
    """Score a clusterer on labelled documents."""
    from ...results.decoding.clustering import scores

    gold = read(file, format, split, encoding, False, "drop" if skip_empty else "error")
    if gold.labels is None:
        raise InputError("no labels in it, expected label TAB text; is --format right?", file)
    decoded = _decode(fit, gold, file)
    found = scores(fit, gold, decoded)
    if as_json:
        print_json({**found, "documents": len(gold), "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, MEANING)
    _say_unseen(decoded.unseen, gold.tokens)
    say_impossible(decoded.log_likelihood, "documents", "loglik_per_token")


def show(
    fit: FitArgument,
    words: Annotated[int, typer.Option(min=0, help="How many words to show of each cluster.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show a clusterer: how its training ended, and the likeliest words of each cluster."""
    model: Any = fit.model
    share = fit.weights["cluster"].exp().tolist()
    top = [likeliest(row, model.vocab, words) for row in fit.weights["words"]]
    if not as_json:
        print_fit(fit)
        names = [f"{k} ({100 * p:.0f} %)" for k, p in enumerate(share)]
        print_likeliest("cluster", "likeliest words", zip(names, top, strict=True))
        return
    rows = [
        {"cluster": k, "share": p, "top_words": [{"word": word, "probability": q} for word, q in row]}
        for k, (p, row) in enumerate(zip(share, top, strict=True))
    ]
    print_json(
        {"model": "Clusterer", "clusters": model.clusters, "words": model.words, **fit_record(fit), "rows": rows}
    )


def build(clusters: int, vocab: Vocab) -> Clusterer:
    """The model, if it fits into memory."""
    from ...models import Clusterer

    what = f"{clusters:,} clusters over {len(vocab):,} words"
    check_memory(clusters * len(vocab), what, "take fewer clusters or a higher --min-count")
    return Clusterer(clusters, vocab)


def _decode(fit: Fit, documents: Documents, file: str) -> Decoded:
    from ...results.decoding.clustering import decode

    try:
        return decode(fit, documents)
    except StructureError as error:
        raise InputError("not one word of it is known to the model; is it the same language?", file) from error


def _write_columns(labels: list[int], chosen: list[float], out: str) -> None:
    """``cluster probability``, split by tabs."""
    from ...data.files import write_text

    with write_text(out) as stream:
        stream.writelines(f"{label}\t{p:.6f}\n" for label, p in zip(labels, chosen, strict=True))


def _say_unseen(unseen: int, tokens: int) -> None:
    if unseen:
        say(f"{unseen:,} of {tokens:,} words are none of the model's, and were passed over")
