"""Clusterers: what documents are about, by a mixture of multinomials."""

from __future__ import annotations

import math
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, StructureError
from ..common import check_memory, print_json, printable, say
from ..engines import Algorithm
from ..fit import Task, Training, learn
from ..options import MODEL, OUTPUT, FitArgument, JsonOption, LowercaseOption, OutFileOption, ScoresJsonOption
from ..tables import fit_record, likeliest, print_fit, print_likeliest, print_scores

if TYPE_CHECKING:
    from ...data import Documents
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


class Form(StrEnum):
    """How documents lie in a file or folder."""

    AUTO = "auto"
    PLAIN = "plain"
    LABELLED = "labelled"
    NEWSGROUPS = "newsgroups"
    FOLDERS = "folders"


class Encoding(StrEnum):
    """Of the files in a folder."""

    UTF8 = "utf-8"
    LATIN1 = "latin-1"


FORMS = (
    "plain (a document a line), labelled (label TAB text), newsgroups (split TAB group TAB id TAB text) or folders "
    "(one a label, a file a document). auto goes by the tabs in the first line."
)
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Documents: a file or a folder. - is stdin.")]
FormOption = Annotated[Form, typer.Option("--format", metavar="FORMAT", help=FORMS, rich_help_panel=OUTPUT)]
SplitOption = Annotated[
    str | None,
    typer.Option("--split", metavar="NAME", help="With newsgroups, only this split.", rich_help_panel=OUTPUT),
]
EncodingOption = Annotated[Encoding, typer.Option("--encoding", help="Of files in folders.", rich_help_panel=OUTPUT)]
SkipOption = Annotated[
    bool, typer.Option("--skip-empty", help="Leave out documents without words.", rich_help_panel=OUTPUT)
]


def fit(
    file: FileArgument,
    training: Training,
    algorithm: Algorithm,
    clusters: Annotated[int, typer.Option(metavar="N", min=1, help="How many.", rich_help_panel=MODEL)] = 20,
    drop_frequent: Annotated[
        int, typer.Option(metavar="N", min=0, help="Leave out the N most frequent words.", rich_help_panel=OUTPUT)
    ] = 50,
    min_count: Annotated[
        int, typer.Option(metavar="N", min=1, help="Leave out words seen fewer times.", rich_help_panel=OUTPUT)
    ] = 5,
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    lowercase: LowercaseOption = False,
    skip_empty: SkipOption = False,
) -> None:
    """Cluster documents by their words. Labels in the text are not looked at."""
    from ...models import Clusterer
    from ..training import digest

    training.check()
    algorithm.check()
    whole = _read(file, format, split, encoding, lowercase, "drop" if skip_empty else "error")
    try:
        documents = whole.drop_frequent(drop_frequent).drop_rare(min_count)
    except InputError as error:
        raise InputError("no word is left; lower --drop-frequent and --min-count", file) from error
    what = f"{clusters:,} clusters over {len(documents.vocab):,} words"
    check_memory(clusters * len(documents.vocab), what, "take fewer clusters or a higher --min-count")
    model = Clusterer(clusters, documents.vocab)
    size = f"{len(documents):,} documents, {documents.tokens:,} words, {len(documents.vocab):,} types"
    say(f"{printable(file)}: {size}; {model!r}")
    if documents.left_out:
        say(f"{documents.left_out:,} documents have none of these words, and are left out")
    task = Task(
        "clusterer",
        model,
        documents,
        documents.tokens,
        {"--clusters": clusters, "--drop-frequent": drop_frequent, "--min-count": min_count},
        {"text": digest(documents.words, documents.counts, documents.offsets, documents.vocab)},
        {"lowercase": lowercase, "drop_frequent": drop_frequent, "min_count": min_count},
        noise=NOISE,
    )
    learn(task, training, algorithm)


def predict(
    fit: FitArgument,
    file: FileArgument,
    out: OutFileOption = "-",
    format: FormOption = Form.AUTO,
    split: SplitOption = None,
    encoding: EncodingOption = Encoding.UTF8,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A second column: the posterior probability of the cluster.")
    ] = False,
) -> None:
    """Cluster documents, and write the number of a cluster a line, in their order.

    Words that the model does not know are passed over. A document of no others goes to the likeliest cluster.
    """
    from ...data import write_labels

    documents = _read(file, format, split, encoding, False, "keep")
    decoded = _decode(fit, documents, file)
    labels: list[Any] = decoded.structure.tolist()
    if probabilities:
        chosen = decoded.posterior.marginals.gather(1, decoded.structure[:, None].long())[:, 0].clamp(0, 1).tolist()
        _write_columns(labels, chosen, out)
    else:
        write_labels(labels, out)
    sys.stdout.flush()
    _say_unseen(decoded.unseen, documents.tokens)


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

    gold = _read(file, format, split, encoding, False, "drop" if skip_empty else "error")
    if gold.labels is None:
        raise InputError("no labels in it, expected label TAB text; is --format right?", file)
    decoded = _decode(fit, gold, file)
    found = scores(fit, gold, decoded)
    if as_json:
        print_json({**found, "documents": len(gold), "tokens": gold.tokens, "unknown_tokens": decoded.unseen})
        return
    print_scores(found, MEANING)
    _say_unseen(decoded.unseen, gold.tokens)
    impossible = int((decoded.log_likelihood == -math.inf).sum())
    if impossible:
        say(f"{impossible:,} of {len(gold):,} documents have probability zero, so loglik_per_token is infinite: train "
            "with --smooth for text like this")  # fmt: skip


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


def _read(file: str, form: Form, split: str | None, encoding: Encoding, lowercase: bool, empty: Any) -> Documents:
    from ...data import read_documents

    options: dict[str, Any] = {"split": split, "encoding": encoding.value, "lowercase": lowercase, "empty": empty}
    try:
        return read_documents(file, form.value, **options)
    except InputError as error:
        what = error.what.replace("read with empty='drop' or empty='keep'", "add --skip-empty")
        raise InputError(what, error.path, error.line) from error


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
