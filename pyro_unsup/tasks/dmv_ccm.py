"""Products of dependency and constituent-context model: heads and brackets, from sequences of tags."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError
from . import frames, sampled_trees
from .ccm import BRANCHING, branching
from .dmv import CHAINS, MEASURED, PREDICT_HELP, READINGS, WHEN_WORSE, HeadsTask, chains, check_lengths
from .grammar import (
    BRACKETS,
    CLASSES,
    COLUMN_AS_TRAINED,
    GOLD_LENGTH,
    HEADS,
    HOW_HEADS,
    OF_SAMPLES,
    PREFER_ROOT,
    SIZES,
    SMOOTH,
    TEXT_FILE,
    TEXT_OPTIONS,
    UNPARSED,
    Unparsed,
    likeliest_spans,
    smooth_option,
    templates_of,
)
from .option import MODEL, TRAINING, Given, choice, flag
from .sampled_trees import ANNEAL, ARCS, PREDICT, SAME, SPANS
from .shown import Likely, Shown, Table, likeliest, listed
from .texts import format_option, how_option, top_option
from .values import Command, Plan, Score

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models import DMVCCM
    from ..results import Fit

ORDER = choice("order", ("right", "left"), "The side on which heads take their children first.", "right", panel=MODEL)


class DMVCCMTask(HeadsTask):
    """Grammar induction of heads and brackets together."""

    name = "dmv-ccm"
    about = (
        "A product of two models: heads with their dependents, and spans of tags that are "
        "constituents or not. A tree is "
        "likely if both models like it."
    )
    gold, no_gold = ("heads", "spans"), "no heads or brackets in it, expected a treebank"
    decoder = "pyro_unsup.tasks.decoding.dmv_ccm:decode"
    main = ("directed", "f1")
    when_worse = WHEN_WORSE
    when_worse_sampled = "Try other --arcs, --anneal, or `fit dmv-ccm --prefer universal`"
    scores_known = (*HEADS, *BRACKETS, *SIZES, Score("loglik_per_token", "natural logarithm; higher is better", ".4f"))
    baselines_known = (*CHAINS, *BRANCHING)
    commands = {  # noqa: RUF012
        "fit": Command(
            "Induce the dependencies and brackets of a text together, from the tags of its words.\n\n"
            f"Heads and brackets in the text are not used. {MEASURED}",
            TEXT_FILE,
            (
                ORDER,
                choice(
                    "start",
                    tuple(READINGS),
                    "Short dependencies are likelier, in one of four readings; trees are split at random.",
                    "harmonic",
                    panel=TRAINING,
                ),
                smooth_option(
                    "smooth_constituents",
                    "Add this to the counts of what constituents consist of and stand between; --smooth is for "
                    "dependencies.",
                    f"{SMOOTH[0]:g}",
                ),
                smooth_option("smooth_distituents", "The same of what is no constituent.", f"{SMOOTH[1]:g}"),
                *TEXT_OPTIONS,
                CLASSES,
                PREFER_ROOT,
            ),
        ),
        "sample": Command(
            "Sample the dependencies and brackets of a text together, from the tags of its words (collapsed Gibbs "
            f"sampling).\n\nHeads and brackets in the text are not used. {MEASURED}",
            TEXT_FILE,
            (
                ORDER,
                *TEXT_OPTIONS,
                *ARCS,
                *SPANS,
                *ANNEAL,
            ),
        ),
        "predict_samples": Command(
            f"Write sampled trees as CoNLL-U, or in brackets.\n\n{PREDICT}",
            SAME,
            (*OF_SAMPLES, flag("brackets", "Write the tree of each sentence in brackets, a line each.")),
        ),
        "evaluate_samples": Command(
            "Score sampled trees against the heads of a treebank, or its brackets: mean and deviation over chains.",
            SAME,
            OF_SAMPLES,
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, likely roots, and what constituents are likely to be, given the best "
            "trees.",
            "",
            (top_option("top", "roots, sequences and contexts", 10),),
        ),
        "predict": Command(
            f"Parse a text, and write it as CoNLL-U with a head for every word, or in brackets.\n\n{PREDICT_HELP}; "
            "brackets do without it, and without sentences of nothing else.",
            UNPARSED,
            (
                format_option(),
                COLUMN_AS_TRAINED,
                how_option(HOW_HEADS, "mbr"),
                flag("brackets", "Write the tree of each sentence in brackets, a line each."),
            ),
        ),
        "evaluate": Command(
            "Score the heads of a product model on a treebank of dependencies, or its brackets on one of brackets.\n\n"
            "Sentences are measured without punctuation.",
            "A treebank in CoNLL-U or Penn brackets. - is standard input.",
            (format_option(), COLUMN_AS_TRAINED, how_option(HOW_HEADS, "mbr"), GOLD_LENGTH),
        ),
        "show": Command(
            "Show a product model: how its training ended, its likely roots, and what it takes for constituents.",
            "",
            (top_option("top", "roots, sequences and contexts", 10),),
        ),
    }

    def build(self, data: Corpus, given: Given) -> DMVCCM:
        spans = _amounts(given)
        arcs = dict.fromkeys(("root", "attach", "stop"), 1 + (given.smooth or 0.0))
        prior: dict[str, Any] = {**arcs, **dict.fromkeys(("yield", "context"), (1 + spans[0], 1 + spans[1]))}
        return pu.models.DMVCCM.of(data, prior=prior, order=given.order)

    def sampled_model(self, data: Corpus, given: Given) -> DMVCCM:
        spans = (given.constituents, given.distituents)
        prior: dict[str, Any] = {
            **dict.fromkeys(("root", "attach", "stop"), given.arcs),
            "yield": spans,
            "context": spans,
        }
        return pu.models.DMVCCM.of(data, prior=prior, order=given.order)

    def write_trees(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        if given.brackets:
            rows = sampled_trees.headed(samples, data, labels).brackets
            pu.data.write_brackets(given.spoken, rows, given.out, space="_")
        else:
            super().write_trees(samples, data, labels, given)

    def score_labels(self, samples: Any, gold: Corpus, labels: Any) -> dict[str, float]:
        return _scores(gold, sampled_trees.headed(samples, gold, labels))

    def plan(self, model: DMVCCM, data: Corpus, given: Given) -> Plan:
        estimate = pu.DirichletMAP() if given.smooth or any(_amounts(given)) else None
        begin: Any = model.start(data, reading=READINGS[given.start], estimate=estimate)
        return Plan(begin, estimate=estimate, templates=partial(templates_of, data, given.classes))

    def write(self, fit: Fit, data: Unparsed, decoded: Any, given: Given) -> None:
        if given.brackets:
            rows = np.zeros((0, 3), np.int64) if decoded is None else decoded.brackets
            pu.data.write_brackets(data.text, rows, given.out, space="_")
        else:
            super().write(fit, data, decoded, given)

    def scores(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, float]:
        """What the gold text has of these: ``directed``, ``undirected``, ``ned`` and ``words`` of :func:`.head_scores`,
        the root's word counted; ``recall``, ``precision``, ``f1`` and ``crossing`` of :func:`.bracket_scores`, without
        whole sentences, and ``f1_klein_manning_2004`` with them. And ``sentences`` and ``loglik_per_token``.

        Fractions of 1, but for crossing brackets a sentence and for the log-likelihood, in nats. The model is
        deficient, so that it compares fits of one variant on one text, and nothing else.
        """
        found = _scores(gold, decoded)
        found["loglik_per_token"] = float(decoded.log_likelihood.sum()) / gold.tokens
        return found

    def baselines(self, gold: Corpus) -> dict[str, dict[str, float]]:
        heads = {} if gold.heads is None else chains(gold)
        return heads if gold.spans is None else {**heads, **branching(gold)}

    def by_example(self, fit: Fit, gold: Corpus, decoded: Any) -> Any:
        """Right heads of each sentence, or gold brackets that were found, if there are no gold heads."""
        if gold.heads is not None:
            return super().by_example(fit, gold, decoded)
        return pu.evaluate.bracket_counts(pu.data.bracket_rows(gold), decoded.brackets, gold.lengths).matched

    def mistakes(self, fit: Fit, gold: Corpus, decoded: Any) -> Sequence[Any]:
        return () if gold.heads is None else super().mistakes(fit, gold, decoded)

    def frame(self, fit: Fit, data: Corpus, decoded: Any) -> dict[str, Any]:
        """A row a word: ``sentence``, ``position``, ``word``, ``head``, ``probability``."""
        return frames.heads(data, decoded)

    def plot(self, fit: Fit, data: Corpus, sentence: int = 0, **options: Any) -> Any:
        """The dependencies of one sentence, beside the gold tree if there is one."""
        one = data.select([sentence])
        return pu.plot.dependency_diagram(one.sentence(0), fit.predict(one), one.heads, **options)

    def show(self, fit: Fit, top: int = 10) -> Shown:
        model: Any = fit.model
        rows: dict[str, Likely] = {"root": likeliest(fit.weights["root"], list(model.vocab), top)}
        rows |= likeliest_spans(model.ccm, fit.weights, top)
        facts = {"tags": model.symbols, "order": model.order}
        record = {**facts, **{name: listed(row, "tags") for name, row in rows.items()}}
        return Shown(record, [Table("", "likeliest", list(rows.items()))])


def _amounts(given: Given) -> list[float]:
    """What is added to the counts of constituents and of distituents."""
    own = (given.smooth_constituents, given.smooth_distituents)
    return [usual if amount is None else amount for usual, amount in zip(SMOOTH, own, strict=True)]


def _scores(gold: Corpus, decoded: Any) -> dict[str, float]:
    """Of heads and brackets, what the gold text has of them."""
    if gold.heads is None and gold.spans is None:
        raise InputError("this corpus has neither heads nor brackets; read it from a treebank")
    check_lengths(gold, decoded)
    found: dict[str, float] = {}
    if gold.heads is not None:
        found |= pu.evaluate.head_scores(gold.heads, decoded.structure, gold.lengths)
    if gold.spans is not None:
        right = pu.data.bracket_rows(gold)
        found = {**pu.evaluate.bracket_scores(right, decoded.brackets, gold.lengths), **found}
        whole = pu.evaluate.bracket_scores(right, decoded.brackets, gold.lengths, "klein_manning_2004")
        found["f1_klein_manning_2004"] = whole["f1"]
    return found
