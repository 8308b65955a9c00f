"""Clusterers: what documents are about, by a mixture of multinomials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, StructureError, UnsupError
from . import frames, summaries
from .option import MODEL, TEXT, Given, choice, flag, number, text, under
from .pictures_lines import bags
from .shown import Shown, Table, commonest, likeliest, listed
from .tagger import STATE_SCORES, commonest_id
from .task import Task
from .texts import LOWERCASE, check_memory, saved_model, say, setting, top_option
from .values import Baseline, Command, Recipe, Score, Stream

if TYPE_CHECKING:
    from ..data import Documents, Vocab
    from ..models import Clusterer
    from ..results import Fit

#: How far starts lie from even ones (Liang & Klein 2009).
NOISE = 1e-3
FORMATS = ("auto", "plain", "labelled", "newsgroups", "folders")
FILE = "Documents: a file, a folder, or saved ones. - is standard input."
READING = (
    choice(
        "format",
        FORMATS,
        "plain (a document a line), labelled (label TAB text), newsgroups (split TAB group TAB id TAB text) or folders "
        "(one a label, a file a document). auto goes by the tabs in the first line.",
        "auto",
        metavar="FORMAT",
    ),
    text("split", "NAME", "With newsgroups, only this split."),
    choice(
        "encoding",
        ("auto", "utf-8", "latin-1"),
        "The encoding of files in folders. auto reads each file as UTF-8, or as Latin-1 if it is not UTF-8.",
        "auto",
    ),
)
SKIP_EMPTY = flag("skip_empty", "Leave out documents without words.")
OPTIONS = (
    number("clusters", "How many clusters.", 20, panel=MODEL),
    *under(
        TEXT,
        number("drop_frequent", "Leave out this many of the most frequent words.", 50, 0, remember=True),
        number("min_count", "Leave out words seen fewer times.", 5, remember=True),
        *READING,
        LOWERCASE,
        SKIP_EMPTY,
    ),
)
WORDS = top_option("words", "words of each cluster", 10)


class ClustererTask(Task):
    """Clustering of documents."""

    name = "clusterer"
    about = (
        "A mixture of multinomials. Each document belongs to one hidden cluster. A cluster says how "
        "likely each word is "
        "in its documents."
    )
    colours = "The darker a word, the more it speaks for the cluster of the document."
    colours_gold = "A document whose cluster goes with another gold label is marked as wrong."
    statistics = summaries.by_name(summaries.types, summaries.once_only)
    structure_statistics = summaries.by_name(summaries.types, summaries.largest_share)
    unit, examples, labelled = "words", "documents", "documents"
    unknown = "they were left out"
    all_unknown = "is it the same language?"
    decoder = "pyro_unsup.tasks.decoding.clusterer:decode"
    parts, constraints = "Clusters", "seeds=0:space|orbit,1:hockey"
    recipe = Recipe(
        noise=NOISE,
        noise_shown=f"{NOISE:g}",
        options={"anneal": True, "beta_start": 0.02, "beta_factor": 2.0, "tolerance": 1e-5},
        words="deterministic annealing (--anneal --beta-start 0.02 --beta-factor 2 --tolerance 1e-05)",
    )
    streams = True
    likelihood = "loglik_per_token"
    main = ("accuracy",)
    when_worse = "Try --stepwise --restarts 3, or another number of --clusters"
    when_worse_sampled = "Try more --sweeps, --anneal, or another number of --clusters"
    scores_known = (
        Score("accuracy", "each cluster taken as its commonest gold label"),
        *STATE_SCORES,
        Score("loglik_per_token", "natural logarithm; higher is better", ".4f"),
    )
    baselines_known = (Baseline("one_cluster", "all documents are in one cluster"),)
    commands = {  # noqa: RUF012
        "fit": Command(
            "Cluster documents by their words. Labels in the text are not used.\n\nFrom a stream (--vocab-from), words "
            "that are not known beforehand are left out, and documents of no other words.",
            FILE,
            OPTIONS,
        ),
        "sample": Command("Sample the clusters of documents (collapsed Gibbs sampling).", FILE, OPTIONS),
        "predict": Command(
            "Cluster documents, and write the number of a cluster a line, in their order.\n\nDocuments of a folder are "
            "written with the names of their files: file TAB cluster. Words that the model does not know are left out. "
            "A document of no other words goes to the likeliest cluster.",
            FILE,
            (
                *READING,
                flag("keep_empty", "Put documents without words into the likeliest cluster."),
                flag("probabilities", "One more column: the posterior probability of the cluster."),
            ),
        ),
        "evaluate": Command("Score a clusterer on labelled documents.", FILE, (*READING, SKIP_EMPTY)),
        "evaluate_samples": Command(
            "Score sampled clusters against the gold labels of their documents: mean and deviation over chains.",
            "The same documents with gold labels. - is standard input.",
            (*READING, SKIP_EMPTY),
        ),
        "show": Command(
            "Show a clusterer: how its training ended, and the likeliest words of each cluster.", "", (WORDS,)
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and the commonest words of clusters in the best of them.", "", (WORDS,)
        ),
    }

    def read(self, file: Any, given: Given) -> Documents:
        """Documents of the words that are neither too frequent nor too rare."""
        whole = _read(file, given, "drop" if given.skip_empty else "error", given.lowercase)
        try:
            return whole.drop_frequent(given.drop_frequent).drop_rare(given.min_count)
        except InputError as error:
            raise InputError("no word is left; lower --drop-frequent and --min-count", file) from error

    def size(self, data: Documents) -> str:
        left_out = f" ({data.left_out:,} have none of these words and are left out)" if data.left_out else ""
        return super().size(data) + left_out + (f"; {_recoded(data)}" if data.recoded else "")

    def build(self, data: Documents, given: Given) -> Clusterer:
        return self._model(given.clusters, data.vocab)

    def _model(self, clusters: int, vocab: Vocab) -> Clusterer:
        what = f"{clusters:,} clusters over {len(vocab):,} words"
        check_memory(clusters * len(vocab), what, "take fewer clusters or a higher --min-count")
        return pu.models.Clusterer(clusters, vocab)

    def stream(self, given: Given) -> Stream:
        from .batches import documents

        saved = saved_model(given.vocab_from, pu.models.Clusterer)
        vocab = self.read(given.vocab_from, given).vocab if saved is None else saved.vocab
        empty = "keep" if given.skip_empty else "error"

        def read_block(block: Any, form: str) -> Documents:
            return _read(block, given, empty, given.lowercase, form=form).with_vocab(vocab)

        found = documents(given.file, given.format, given.split, given.batch_size, read_block)
        return Stream(self._model(given.clusters, vocab), found, [vocab])

    def same_data(self, data: Documents) -> Sequence[Any]:
        return data.words, data.counts, data.offsets, data.vocab

    def decode(self, fit: Fit, data: Any, **options: Any) -> Any:
        try:
            return super().decode(fit, data, **options)
        except StructureError as error:
            raise InputError(f"not one word of it is known to the model; {self.all_unknown}") from error

    def read_new(self, fit: Fit, given: Given) -> Documents:
        return _said(_read(given.file, given, "keep" if given.keep_empty else "error", option="--keep-empty"))

    def lines(self, fit: Fit, data: Documents, decoded: Any, given: Given) -> Iterable[str]:
        columns = [pu.data.document_files.document_names(given.file)] if _in_folders(given) else []
        columns.append([str(k) for k in decoded.structure.tolist()])
        if given.probabilities:
            chosen = decoded.posterior.marginals.gather(1, decoded.structure[:, None].long())[:, 0]
            columns.append([f"{p:.6f}" for p in chosen.clamp(0, 1).tolist()])
        return map("\t".join, zip(*columns, strict=True))

    def read_gold(self, fit: Fit, given: Given) -> Documents:
        gold = _said(_read(given.file, given, "drop" if given.skip_empty else "error"))
        return _labelled(gold, given.file)

    def gold_labels(self, gold: Documents) -> Any:
        if getattr(gold, "labels", None) is None:
            raise UnsupError("the gold documents have no labels: read a labelled file")
        return gold.labels

    def scores(self, fit: Fit, gold: Documents, decoded: Any) -> dict[str, float]:
        """``accuracy`` (many-to-one), ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``,
        ``loglik_per_token``.

        Fractions of 1, bits, and natural logarithms. Words outside the vocabulary do not count as tokens.
        """
        total = float(decoded.log_likelihood.sum())
        labels = self.gold_labels(gold)
        return pu.evaluate.clustering_report(labels, decoded.structure, log_likelihood=total, tokens=decoded.tokens)

    def baselines(self, gold: Documents) -> dict[str, dict[str, float]]:
        labels = self.gold_labels(gold)
        return {"one_cluster": pu.evaluate.clustering_report(labels, 0 * labels + commonest_id(labels))}

    def sizes(self, fit: Fit, gold: Documents, decoded: Any) -> dict[str, Any]:
        return {"documents": len(gold), **super().sizes(fit, gold, decoded)}

    def show(self, fit: Fit, words: int = 10) -> Shown:
        model: Any = fit.model
        share = fit.weights["cluster"].exp().tolist()
        top = [likeliest(row, model.vocab, words) for row in fit.weights["words"]]
        record = {"clusters": model.clusters, "words": model.words, "rows": _rows(share, top, "probability")}
        return Shown(record, [_table(share, top, "likeliest words")])

    def has_gold(self, data: Documents) -> bool:
        return getattr(data, "labels", None) is not None

    def drawn(self, fit: Fit, data: Documents, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return bags(fit, data, decoded, numbers)

    def frame(self, fit: Fit, data: Any, decoded: Any) -> dict[str, Any]:
        """A row a document: ``document``, ``cluster``, ``probability``."""
        found, probability = frames.states(decoded)
        cluster = frames.named(found, fit.labels)
        return {"document": range(len(found)), "cluster": cluster, "probability": probability}

    def plot(self, fit: Fit, data: Documents, **options: Any) -> Any:
        """Which gold labels fall into which cluster."""
        names = None if data.labelset is None else data.labelset.types
        return pu.plot.confusion_matrix(self.gold_labels(data), fit.predict(data), names, **options)

    def read_sampled(self, samples: Any, given: Given) -> Documents:
        given.lowercase = samples.config.get("lowercase") is True
        for name in ("drop_frequent", "min_count"):
            setattr(given, name, setting(samples, name, int))
        return _labelled(self.read(given.file, given), given.file)

    def score_labels(self, samples: Any, gold: Documents, labels: Any) -> dict[str, float]:
        return pu.evaluate.clustering_report(self.gold_labels(gold), labels)

    def show_samples(self, samples: Any, words: int = 10) -> Shown:
        vocab, data, best = samples.model.vocab, samples.data, samples.predict("best")
        counts = np.zeros((samples.K, len(vocab)), np.int64)
        np.add.at(counts, (np.repeat(best, np.diff(data["offsets"])), data["words"]), data["times"])
        share = (np.bincount(best, minlength=len(counts)) / len(best)).tolist()
        top = [commonest(row, vocab, words) for row in counts]
        return Shown({"rows": _rows(share, top, "share")}, [_table(share, top, "commonest words")])


def _rows(share: list[float], top: list[Any], value: str) -> list[dict[str, Any]]:
    return [
        {"cluster": k, "share": p, "top_words": listed(row, "word", value)}
        for k, (p, row) in enumerate(zip(share, top, strict=True))
    ]


def _table(share: list[float], top: list[Any], what: str) -> Table:
    names = [f"{k} ({100 * p:.0f} %)" for k, p in enumerate(share)]
    return Table("cluster", what, list(zip(names, top, strict=True)))


def _read(
    file: Any, given: Given, empty: str, lowercase: bool = False, option: str = "--skip-empty", form: str | None = None
) -> Documents:
    """Documents of any form, or as they were saved.

    :param empty: what to do with those that have no words; ``option`` says what else could be done.
    """
    if isinstance(file, str) and (Path(file) / "documents.json").is_file():
        if lowercase:
            raise InputError("taken as it was saved, which --lowercase would change; leave it out", file)
        return pu.data.Documents.open(file)
    options: dict[str, Any] = {"split": given.split, "encoding": given.encoding, "lowercase": lowercase, "empty": empty}
    try:
        return pu.data.read_documents(file, given.format if form is None else form, **options)  # type: ignore[arg-type]
    except InputError as error:
        what = error.what.replace("read with empty='drop' or empty='keep'", f"add {option}")
        raise InputError(what, error.path, error.line) from error


def _recoded(data: Documents) -> str:
    files = "file is" if data.recoded == 1 else "files are"
    return f"{data.recoded:,} {files} not UTF-8 and read as Latin-1 (--encoding utf-8 refuses that)"


def _said(data: Documents) -> Documents:
    """The same documents. Files in another encoding are reported."""
    if data.recoded:
        say(_recoded(data))
    return data


def _labelled(gold: Documents, file: str) -> Documents:
    if gold.labels is None:
        raise InputError("no labels in it, expected label TAB text; is --format right?", file)
    return gold


def _in_folders(given: Given) -> bool:
    return Path(given.file).is_dir() and not (Path(given.file) / "documents.json").is_file()
