"""Constituent-context models: binary trees over sequences of tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyro_unsup as pu

from . import frames, sampled_trees, summaries
from .dmv import check_lengths
from .grammar import (
    BRACKETS,
    COLUMN_AS_TRAINED,
    GOLD_LENGTH,
    OF_SAMPLES,
    RECIPE,
    SIZES,
    SMOOTH,
    SPAN_RULES,
    TAGGED,
    TEXT_OPTIONS,
    UNPARSED,
    GrammarTask,
    column_of,
    dropped_by,
    likeliest_spans,
    smooth_option,
    without,
)
from .option import ALGORITHM, MODEL, TRAINING, Given, choice, flag, number
from .pictures_trees import bracket_errors, brackets
from .sampled_trees import ANNEAL, PREDICT, SAME, SPANS
from .shown import Shown, Table, listed
from .texts import format_option, how_option, read, top_option
from .values import Baseline, Command, Plan, Recipe, Score

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models import CCM
    from ..results import Fit

STARTS = ("split", "uniform")
VARIANTS = (
    number("variant", "1: yields as they are; 2: yields given their width.", 1, high=2, panel=MODEL),
    flag("empty_spans", "Count empty spans too.", panel=MODEL),
)
HOW = how_option("viterbi: the best tree; mbr: the tree with the most expected right brackets.")
BRANCHING = (
    Baseline("left_branching", "all trees branch to the left"),
    Baseline("right_branching", "all trees branch to the right"),
    Baseline("upper_bound", "the best binary trees", trivial=False),
)


class CCMTask(GrammarTask):
    """Constituency induction."""

    name = "ccm"
    about = (
        "A constituent-context model. Every sentence has a hidden binary tree. Each span of tags, "
        "and what stands on its "
        "two sides, says whether it is a constituent."
    )
    colours = "The stronger the lines of a constituent, the surer the model is."
    colours_gold = "Blue constituents are gold, red ones cross a gold one, grey ones do neither."
    gold, no_gold = ("spans",), "no brackets in it, expected a treebank"
    decoder = "pyro_unsup.tasks.decoding.ccm:decode"
    of_places = True
    parts, constraints, preferences = "Brackets", "fragments=CC", SPAN_RULES
    recipe = Recipe(smooth=f"{SMOOTH[0]:g}, and {SMOOTH[1]:g} for what is no constituent", betas=RECIPE.betas)
    drop_by_upos = False
    labelled = "spans"
    likelihood = "bits_per_tag"
    statistics = summaries.by_name(summaries.yields, summaries.contexts)
    main = ("f1",)
    when_worse = "Try another --start, or `fit dmv-ccm`, which learns heads as well"
    when_worse_sampled = "Try more --sweeps, --anneal, or `sample dmv-ccm`, which draws heads as well"
    scores_known = (
        *BRACKETS,
        *SIZES,
        Score("bits_per_tag", "cross-entropy; lower is better", "bits", lower_is_better=True),
    )
    baselines_known = BRANCHING
    commands = {  # noqa: RUF012
        "fit": Command(
            "Induce the trees of a text from the tags of its words.\n\n"
            "Brackets in the text are not used. Sentences are measured without punctuation.",
            TAGGED,
            (
                *VARIANTS,
                choice(
                    "start",
                    STARTS,
                    "split: expect trees made by random splits; uniform: all trees are equally likely.",
                    "split",
                    panel=TRAINING,
                ),
                smooth_option(
                    "smooth_distituents",
                    "Add this to the counts of what is no constituent, and --smooth to those of constituents.",
                    f"as --smooth, or {SMOOTH[1]:g}",
                ),
                choice(
                    "toward",
                    STARTS,
                    "With --anneal: start from these trees, not from a uniform posterior (skewed annealing).",
                    panel=ALGORITHM,
                ),
                *TEXT_OPTIONS,
            ),
        ),
        "sample": Command(
            "Sample the trees of a text from the tags of its words (collapsed Gibbs sampling).\n\n"
            "Brackets in the text are not used. Sentences are measured without punctuation.",
            TAGGED,
            (
                *VARIANTS,
                *TEXT_OPTIONS,
                *SPANS,
                *ANNEAL,
            ),
        ),
        "predict_samples": Command(f"Write sampled trees, one a line in brackets.\n\n{PREDICT}", SAME, OF_SAMPLES),
        "evaluate_samples": Command(
            "Score sampled trees against the brackets of a treebank: mean and deviation over chains.", SAME, OF_SAMPLES
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and what constituents are likely to be, given the best trees.",
            "",
            (top_option("top", "sequences and contexts", 10),),
        ),
        "predict": Command(
            "Parse a text, and write a tree a line in brackets.\n\n"
            "Words stay with their tags; white space inside a word becomes _. Punctuation is left out, as it was in "
            "training; a sentence of nothing else is a blank line.",
            UNPARSED,
            (format_option(), COLUMN_AS_TRAINED, HOW),
        ),
        "evaluate": Command(
            "Score a constituent-context model on a treebank, compared with left- and right-branching trees and the "
            "best binary trees.\n\nSentences are measured without punctuation.",
            "A treebank in Penn brackets. - is standard input.",
            (format_option(), HOW, GOLD_LENGTH),
        ),
        "show": Command(
            "Show a constituent-context model: how its training ended, and what it takes for constituents.",
            "",
            (top_option("top", "sequences and contexts", 10),),
        ),
    }

    def build(self, data: Corpus, given: Given) -> CCM:
        amounts = _amounts(given)
        prior = (1 + amounts[0], 1 + amounts[1])
        return pu.models.CCM.of(data, variant=given.variant, prior=prior, empty_spans=given.empty_spans)

    def sampled_model(self, data: Corpus, given: Given) -> CCM:
        prior = (given.constituents, given.distituents)
        return pu.models.CCM.of(data, variant=given.variant, prior=prior, empty_spans=given.empty_spans)

    def write_trees(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        rows = sampled_trees.brackets(samples, data, labels).brackets
        pu.data.write_brackets(given.spoken, rows, given.out, space="_")

    def score_labels(self, samples: Any, gold: Corpus, labels: Any) -> dict[str, float]:
        return bracketed(gold, sampled_trees.brackets(samples, gold, labels))

    def plan(self, model: CCM, data: Corpus, given: Given) -> Plan:
        estimate = pu.DirichletMAP() if any(_amounts(given)) else None
        begin: Any = model.split_start if given.start == "split" else model.uniform_start
        toward = "split" if given.toward == "split" else None  # all trees alike is what plain annealing begins with
        return Plan(begin(data, estimate=estimate), estimate=estimate, toward=toward)

    def read_new(self, fit: Fit, given: Given) -> Corpus:
        return without(read(given.file, given.format, column_of(fit, given)), dropped_by(fit))

    def write(self, fit: Fit, data: Corpus, decoded: Any, given: Given) -> None:
        pu.data.write_brackets(data, decoded.brackets, given.out, space="_")

    def scores(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, float]:
        """``recall``, ``precision``, ``f1``, ``crossing`` and ``sentences`` of :func:`.bracket_scores`, without whole
        sentences; ``f1_klein_manning_2004`` with them, ``f1_klein_manning_2002`` averaged over sentences;
        ``bits_per_tag``.

        Fractions of 1, but for crossing brackets a sentence and for bits. Tags, yields and contexts that training never
        met make ``bits_per_tag`` infinite, unless the fit smooths. The model is deficient, so that bits compare fits of
        one variant on one text, and nothing else.
        """
        found = bracketed(gold, decoded)
        found["bits_per_tag"] = pu.evaluate.bits_per_word(float(decoded.log_likelihood.sum()), gold.tokens)
        return found

    def baselines(self, gold: Corpus) -> dict[str, dict[str, float]]:
        return branching(gold)

    def show(self, fit: Fit, top: int = 10) -> Shown:
        model: Any = fit.model
        rows = likeliest_spans(model, fit.weights, top)
        facts = {"tags": model.symbols, "variant": model.variant, "empty_spans": model.empty_spans}
        record = {**facts, **{name: listed(row, "tags") for name, row in rows.items()}}
        return Shown(record, [Table("", "likeliest", list(rows.items()))])

    def drawn(self, fit: Fit, data: Corpus, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return brackets(data, decoded, numbers)

    def by_example(self, fit: Fit, gold: Corpus, decoded: Any) -> Any:
        """Gold brackets of each sentence that were found."""
        return pu.evaluate.bracket_counts(pu.data.bracket_rows(gold), decoded.brackets, gold.lengths).matched

    def mistakes(self, fit: Fit, gold: Corpus, decoded: Any) -> Sequence[Any]:
        return bracket_errors(gold, decoded)

    def frame(self, fit: Fit, data: Corpus, decoded: Any) -> dict[str, Any]:
        """A row a constituent of two words or more: ``sentence``, ``first``, ``last``, ``words``, ``probability``."""
        return frames.constituents(data, decoded)

    def plot(self, fit: Fit, data: Corpus, sentence: int = 0, **options: Any) -> Any:
        """The tree of one sentence."""
        one = data.select([sentence])
        return pu.plot.tree_diagram(one.sentence(0), self.decode(fit, one).brackets[:, 1:], **options)


def bracketed(gold: Corpus, decoded: Any) -> dict[str, float]:
    """Scores of the brackets of a text, in all conventions."""
    check_lengths(gold, decoded)
    right = pu.data.bracket_rows(gold)
    found: dict[str, float] = pu.evaluate.bracket_scores(right, decoded.brackets, gold.lengths)
    for variant in ("klein_manning_2004", "klein_manning_2002"):
        whole = pu.evaluate.bracket_scores(right, decoded.brackets, gold.lengths, variant)
        found[f"f1_{variant}"] = whole["f1"]
    return found


def branching(gold: Corpus) -> dict[str, dict[str, float]]:
    """Scores of trees that branch to one side, and of the best binary trees."""
    right = pu.data.bracket_rows(gold)
    made = {
        "left_branching": pu.evaluate.left_branching(gold.lengths),
        "right_branching": pu.evaluate.right_branching(gold.lengths),
        "upper_bound": pu.evaluate.upper_bound(right, gold.lengths),
    }
    return {name: pu.evaluate.bracket_scores(right, rows, gold.lengths) for name, rows in made.items()}


def _amounts(given: Given) -> tuple[float, float]:
    """What is added to the counts of constituents and of distituents."""
    amounts = SMOOTH if given.smooth is None else (given.smooth, given.smooth)
    return amounts[0], amounts[1] if given.smooth_distituents is None else given.smooth_distituents
