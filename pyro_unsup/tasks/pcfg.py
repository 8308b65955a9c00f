"""Probabilistic context-free grammars: labelled binary trees over sequences of tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyro_unsup as pu

from . import frames, sampled_trees
from .ccm import BRANCHING, bracketed, branching
from .grammar import (
    BRACKETS,
    COLUMN_AS_TRAINED,
    GOLD_LENGTH,
    OF_SAMPLES,
    RECIPE,
    SIZES,
    SPAN_RULES,
    TAGGED,
    TEXT_OPTIONS,
    UNPARSED,
    GrammarTask,
    column_of,
    dropped_by,
    without,
)
from .option import ALGORITHM, MODEL, TRAINING, Given, choice, number, real
from .pictures_trees import bracket_errors, brackets, strongest_rules
from .sampled_trees import ANNEAL, PREDICT, SAME, concentrations
from .shown import Shown, Table, likeliest, listed
from .texts import format_of, format_option, how_option, read, top_option
from .values import Command, Plan, Recipe, Score

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models.grammar import TreeGrammar
    from ..results import Fit

STARTS = ("split", "noise")
#: What fits held-out sentences of the WSJ sample best: labels, how different they are at first, and pseudo-counts.
NONTERMINALS, PRETERMINALS, NOISE, SMOOTH = 15, 30, 1.0, 0.01
SIZES_OF_LABELS = (
    number(
        "nonterminals", "How many labels spans of two words or more have.", NONTERMINALS, identity=True, panel=MODEL
    ),
    number("preterminals", "How many labels words have.", PRETERMINALS, identity=True, panel=MODEL),
)
RULES = choice(
    "rules",
    ("full", "factored"),
    "full: a probability for each pair of parts of a label; factored: one for each left part and one for each right "
    "part. Factored rules take little time with hundreds of labels.",
    "full",
    panel=MODEL,
)
HOW = how_option(
    "mbr: the tree with the most expected right labelled brackets; viterbi: the best labelled tree.", default="mbr"
)


class PCFGTask(GrammarTask):
    """Grammar induction with labelled rules."""

    name = "pcfg"
    about = (
        "A probabilistic context-free grammar. Every sentence has a hidden binary tree with a label at every node. A "
        "label draws the labels of its two parts, or a tag."
    )
    colours = "The stronger the lines of a constituent, the surer the model is of it and its label."
    colours_gold = "Blue constituents are gold, red ones cross a gold one, grey ones do neither."
    gold, no_gold = ("spans",), "no brackets in it, expected a treebank"
    decoder = "pyro_unsup.tasks.decoding.pcfg:decode"
    parts, constraints, preferences = "Constituents", "fragments=CC", SPAN_RULES
    recipe = Recipe(noise_shown="0: the start is random by itself", smooth=f"{SMOOTH:g}", betas=RECIPE.betas)
    drop_by_upos = False
    labelled = "spans"
    likelihood = "bits_per_tag"
    main = ("f1",)
    when_worse = "Try --restarts 10, another number of --nonterminals, or `fit ccm`"
    when_worse_sampled = "Try more --sweeps, another number of --nonterminals, or `sample ccm`"
    scores_known = (
        *BRACKETS,
        Score("labelled_f1", "brackets and labels, each label as the gold label it meets most often"),
        Score("labelled_recall", "gold brackets that are found with their label"),
        Score("labelled_precision", "found brackets that are right with their label"),
        *SIZES,
        Score("bits_per_tag", "cross-entropy; lower is better", "bits", lower_is_better=True),
    )
    baselines_known = BRANCHING
    commands = {  # noqa: RUF012
        "fit": Command(
            "Learn the rules of a grammar, and the labelled trees of a text, from the tags of its words.\n\n"
            "Brackets in the text are not used. Sentences are measured without punctuation. A sentence of one word has "
            "no tree, and is skipped.",
            TAGGED,
            (
                *SIZES_OF_LABELS,
                RULES,
                choice(
                    "start",
                    STARTS,
                    "split: expect trees made by random splits; noise: random rules.",
                    "split",
                    panel=TRAINING,
                ),
                real(
                    "label_noise",
                    "How different labels are at the start: weights are e^(NUMBER u), u between 0 and 1.",
                    NOISE,
                    panel=TRAINING,
                ),
                choice(
                    "toward",
                    ("split", "uniform"),
                    "With --anneal: start from these trees, not from a uniform posterior (skewed annealing).",
                    panel=ALGORITHM,
                ),
                *TEXT_OPTIONS,
            ),
        ),
        "sample": Command(
            "Sample the labelled trees of a text from the tags of its words (collapsed Gibbs sampling).\n\n"
            "Brackets in the text are not used. Sentences are measured without punctuation. A sentence of one word has "
            "no tree, and is skipped.",
            TAGGED,
            (
                *SIZES_OF_LABELS,
                RULES,
                *TEXT_OPTIONS,
                *concentrations("rules, and of labels of sentences", "tags"),
                *ANNEAL,
            ),
        ),
        "predict_samples": Command(f"Write sampled trees, one a line in brackets.\n\n{PREDICT}", SAME, OF_SAMPLES),
        "evaluate_samples": Command(
            "Score sampled trees against the brackets of a treebank: mean and deviation over chains.", SAME, OF_SAMPLES
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and the strongest rules and likely tags, given the best trees.",
            "",
            (top_option("top", "rules and tags", 10),),
        ),
        "predict": Command(
            "Parse a text, and write a labelled tree a line in brackets.\n\n"
            "Constituents have the names of nonterminals. Words stay with their tags, or get the name of their "
            "preterminal if they have none; white space inside a word becomes _. Punctuation is left out, as it was in "
            "training; a sentence of nothing else is a blank line.",
            UNPARSED,
            (format_option(), COLUMN_AS_TRAINED, HOW),
        ),
        "evaluate": Command(
            "Score a grammar on a treebank, compared with left- and right-branching trees and the best binary trees."
            "\n\nSentences are measured without punctuation.",
            "A treebank in Penn brackets. - is standard input.",
            (format_option(), HOW, GOLD_LENGTH),
        ),
        "show": Command(
            "Show a grammar: how its training ended, its strongest rules, and the likeliest tags of its preterminals.",
            "",
            (top_option("top", "rules and tags", 10),),
        ),
    }

    def build(self, data: Corpus, given: Given) -> TreeGrammar:
        kind = pu.models.SimplePCFG if given.rules == "factored" else pu.models.PCFG
        return kind.of(data, given.nonterminals, given.preterminals)

    def sampled_model(self, data: Corpus, given: Given) -> TreeGrammar:
        return self.build(data, given)

    def write_trees(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        found, text = sampled_trees.brackets(samples, data, labels), given.spoken
        if text.tags is None:  # the labels of single words are their tags
            text = with_preterminals(text, sampled_trees.labelled_spans(samples, data, labels))
        pu.data.write_brackets(text, found.brackets, given.out, label=found.labels, space="_")

    def score_labels(self, samples: Any, gold: Corpus, labels: Any) -> dict[str, float]:
        found = sampled_trees.brackets(samples, gold, labels)
        return {**bracketed(gold, found), **labelled(gold, found.brackets, found.labels)}

    def plan(self, model: TreeGrammar, data: Corpus, given: Given) -> Plan:
        estimate = pu.AddLambda(SMOOTH) if given.smooth is None else None
        noisy = given.start == "noise"
        start: Any = pu.init.noise(given.label_noise) if noisy else model.split_start(data, noise=given.label_noise)
        toward = "split" if given.toward == "split" else None  # all trees alike is what plain annealing begins with
        return Plan(start, estimate=estimate, toward=toward, by_seed=True)

    def read_new(self, fit: Fit, given: Given) -> Corpus:
        return without(read(given.file, given.format, column_of(fit, given)), dropped_by(fit))

    def write(self, fit: Fit, data: Corpus, decoded: Any, given: Given) -> None:
        rows, labels = decoded.brackets, decoded.labels
        if data.tags is None:  # the labels of single words are their tags
            data = with_preterminals(data, decoded)
        pu.data.write_brackets(data, rows, given.out, label=labels, space="_")

    def scores(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, float]:
        """``recall``, ``precision``, ``f1``, ``crossing`` and ``sentences`` of :func:`.bracket_scores`, without whole
        sentences; ``f1_klein_manning_2004`` with them, ``f1_klein_manning_2002`` averaged over sentences;
        ``bits_per_tag``. Where gold brackets have labels, also those of :func:`.labelled_scores`.

        Fractions of 1, but for crossing brackets a sentence and for bits. Tags that training never met make
        ``bits_per_tag`` infinite, unless the fit smooths. Sentences of one tag have no tree, and are left out of it.
        """
        found = bracketed(gold, decoded)
        found |= labelled(gold, decoded.brackets, decoded.labels)
        tokens = int(gold.lengths[gold.lengths > 1].sum())
        found["bits_per_tag"] = pu.evaluate.bits_per_word(float(decoded.log_likelihood.sum()), max(tokens, 1))
        return found

    def baselines(self, gold: Corpus) -> dict[str, dict[str, float]]:
        """Trees that branch to one side have one label for all brackets."""
        found = branching(gold)
        for name, made in (
            ("left_branching", pu.evaluate.left_branching),
            ("right_branching", pu.evaluate.right_branching),
        ):
            rows = made(gold.lengths)
            found[name] = {**found[name], **labelled(gold, rows, ["X"] * len(rows))}
        return found

    def read_tags(self, file: str, format: str, column: str, dropped: list[str], **options: Any) -> Corpus:
        if format_of(file, format) == "brackets":
            options["labels"] = True
        return super().read_tags(file, format, column, dropped, **options)

    def show(self, fit: Fit, top: int = 10) -> Shown:
        model: Any = fit.model
        N, labels, known = model.nonterminals, model.labels, model.vocab
        tags = [str(one) for one in (range(known) if isinstance(known, int) else known)]
        root = [("root", likeliest(fit.weights["root"], labels[:N], top))]
        rules = []
        for a, (logs, *parts) in enumerate(zip(*model.strongest(fit.weights, top), strict=True)):
            pairs = [f"{labels[b]} {labels[c]}" for b, c in zip(*(part.tolist() for part in parts), strict=True)]
            rules.append((labels[a], likeliest(logs, pairs, top)))
        words = [(labels[N + p], likeliest(row, tags, top)) for p, row in enumerate(fit.weights["emission"])]
        facts = {"tags": model.symbols, "nonterminals": N, "preterminals": model.preterminals}
        record = {
            **facts,
            "root": listed(root[0][1], "label"),
            "rules": {name: listed(row, "parts") for name, row in rules},
            "preterminals_of_tags": {name: listed(row, "tag") for name, row in words},
        }
        tables = [Table("", "likeliest labels", root), Table("parent", "strongest rules", rules)]
        return Shown(record, [*tables, Table("preterminal", "likeliest tags", words)])

    def learned(self, fit: Fit) -> Sequence[Any]:
        model: Any = fit.model
        return strongest_rules(model, fit.weights)

    def drawn(self, fit: Fit, data: Corpus, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return brackets(data, decoded, numbers, labelled=True)

    def by_example(self, fit: Fit, gold: Corpus, decoded: Any) -> Any:
        """Gold brackets of each sentence that were found."""
        return pu.evaluate.bracket_counts(pu.data.bracket_rows(gold), decoded.brackets, gold.lengths).matched

    def mistakes(self, fit: Fit, gold: Corpus, decoded: Any) -> Sequence[Any]:
        return bracket_errors(gold, decoded, labelled=True)

    def frame(self, fit: Fit, data: Corpus, decoded: Any) -> dict[str, Any]:
        """A row a constituent of two words or more: ``sentence``, ``first``, ``last``, ``words``, ``label``,
        ``probability``."""
        return frames.labelled_constituents(data, decoded)

    def plot(self, fit: Fit, data: Corpus, sentence: int = 0, **options: Any) -> Any:
        """The tree of one sentence."""
        one = data.select([sentence])
        return pu.plot.tree_diagram(one.sentence(0), self.decode(fit, one).brackets[:, 1:], **options)


def labelled(gold: Corpus, brackets: Any, labels: Sequence[str]) -> dict[str, float]:
    """Scores of labelled brackets; none if the gold ones have no labels, or there is nothing to score."""
    if gold.span_labels is None or gold.span_labelset is None or not (gold.lengths > 2).any():
        return {}
    right = gold.span_labelset.decode(gold.span_labels)
    return pu.evaluate.labelled_scores(pu.data.bracket_rows(gold), right, brackets, labels, gold.lengths)


def with_preterminals(data: Corpus, decoded: Any) -> Corpus:
    """A text with the names of preterminals for its tags; words of sentences without a tree have ``_``."""
    from dataclasses import replace

    import numpy as np

    sentence, start, end = decoded.spans
    single = end - start == 1
    names = [*decoded.names, "_"]
    tags = np.full(data.tokens, len(names) - 1, np.int32)
    tags[np.asarray(data.offsets)[sentence[single]] + start[single]] = decoded.structure.cpu().numpy()[single]
    return replace(data, tags=tags, tagset=pu.data.Vocab(names))
