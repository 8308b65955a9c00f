"""Dependency models with valence: the head of each word, from sequences of tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from . import frames, summaries
from .grammar import (
    CLASSES,
    COLUMN_AS_TRAINED,
    GOLD_LENGTH,
    HEADS,
    HOW_HEADS,
    OF_SAMPLES,
    PREFER_ROOT,
    RECIPE,
    SIZES,
    TEXT_FILE,
    TEXT_OPTIONS,
    UNPARSED,
    GrammarTask,
    Unparsed,
    column_of,
    templates_of,
)
from .option import ALGORITHM, TEXT, TRAINING, Given, choice, flag, number
from .pictures_trees import arcs, head_errors, strongest_attachments
from .sampled_trees import ANNEAL, PREDICT, SAME, concentrations
from .shown import Shown, Table, likeliest, listed
from .texts import format_option, how_option, top_option
from .values import Baseline, Command, Plan, Score

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models import DMV
    from ..results import Fit

#: Four readings of "short dependencies are likelier", by start.
READINGS = {
    "harmonic": "counts",
    "harmonic-tree": "tree",
    "harmonic-parameters": "parameters",
    "harmonic-viterbi": "viterbi",
}
NOISE = 1.0  # of starts at random
PREFERRING = 1.0  # added to every count where rules are preferred, if --smooth does not say otherwise
CHAINS = (
    Baseline("chain_to_next", "every word's head is the next word"),
    Baseline("chain_to_previous", "every word's head is the word before it"),
)
MEASURED = "Sentences are measured without punctuation; in CoNLL-U words whose UPOS is left out do not count either."
PREDICT_HELP = (
    "Of CoNLL-U, all but HEAD and DEPREL stays as it is. Punctuation is left out of the parse, as it was in training, "
    "and is attached to the word before it"
)
WHEN_WORSE = "Try --prefer universal, or rules for the tags of your text: --prefer 'VERB->NOUN,PRON' --prefer '->VERB'"


class HeadsTask(GrammarTask):
    """What models of heads have in common."""

    colours = "The stronger an arc, the surer the model is."
    colours_gold = (
        "Blue arcs are right, orange ones are turned round, red ones are wrong. Dashed arcs below "
        "are gold, and were not "
        "found."
    )
    also_dropped = ("SYM",)
    of_places = True
    statistics = summaries.by_name(summaries.types, summaries.repeats)
    structure_statistics = summaries.by_name(
        summaries.mean_depth, summaries.deepest, summaries.left_arcs, summaries.arc_length
    )
    parts, constraints = "Arcs", "right-attach, all-right, left-chain, verb-as-root=VB,VBD, noun-sequence=NN, " \
                                 "short-dependencies=4"  # fmt: skip

    preferences = (
        "VERB->NOUN,PRON: a verb is the head of a noun or a pronoun; NOUN->ADJ:left: of an adjective on its left; "
        "->VERB,AUX: the root is a verb or an auxiliary; "
        "universal: a dozen rules for the tags at hand, universal=content with nouns and verbs as heads of "
        "adpositions and auxiliaries (as in Universal Dependencies), universal=function the other way round (as in "
        "the Penn Treebank): what a head is, is your choice. distance=-3: arcs between words at most 3 apart; "
        "distance=2-5, distance=4- (4 or more). Or a rule of --constraint. ~ turns a rule round; & between two asks "
        "for both, | with white space around it for one of them."
    )

    def read_new(self, fit: Fit, given: Given) -> Any:
        return Unparsed.read(self, fit, given)

    def text_of(self, data: Unparsed) -> Corpus:
        return data.text

    def learned(self, fit: Fit) -> Sequence[Any]:
        model: Any = fit.model
        return strongest_attachments(attachments(fit), list(model.vocab))

    def drawn(self, fit: Fit, data: Corpus, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return arcs(data, decoded, numbers)

    def by_example(self, fit: Fit, gold: Corpus, decoded: Any) -> Any:
        """Right heads of each sentence."""
        assert gold.heads is not None
        return pu.evaluate.head_counts(gold.heads, decoded.structure, gold.lengths).directed

    def mistakes(self, fit: Fit, gold: Corpus, decoded: Any) -> Sequence[Any]:
        return head_errors(gold, decoded)

    def write_trees(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        pu.data.write_conllu(given.spoken, labels, given.out, column_of(samples, given))  # type: ignore[arg-type]

    def score_labels(self, samples: Any, gold: Corpus, labels: Any) -> dict[str, float]:
        if gold.heads is None:
            raise InputError("this corpus has no heads; read it from a dependency treebank (read_conllu)")
        found: dict[str, float] = pu.evaluate.head_scores(gold.heads, labels, gold.lengths)
        return found

    def write(self, fit: Fit, data: Unparsed, decoded: Any, given: Given) -> None:
        data.write(np.zeros(0, np.int64) if decoded is None else decoded.structure.numpy(), given.out)


class DMVTask(HeadsTask):
    """Dependency grammar induction."""

    name = "dmv"
    recipe = replace(
        RECIPE,
        smooth=f"0; with --prefer {PREFERRING:g}",
        words=f"plain EM; with --prefer, EM that adds {PREFERRING:g} to every expected count",
    )
    about = (
        "A dependency model with valence. Every word hangs on another word, its head. A head says which tags its "
        "dependents are likely to have on each side, and when it has enough of them."
    )
    gold, no_gold = ("heads",), "no heads in it, expected a treebank in CoNLL-U"
    decoder = "pyro_unsup.tasks.decoding.dmv:decode"
    main = ("directed",)
    when_worse = WHEN_WORSE
    when_worse_sampled = "Try other --alpha and --beta, --anneal, or `fit dmv --prefer universal`"
    scores_known = (*HEADS, *SIZES, Score("loglik_per_token", "natural logarithm; higher is better", ".4f"))
    baselines_known = CHAINS
    commands = {  # noqa: RUF012
        "fit": Command(
            "Induce the dependencies of a text from the tags of its words.\n\n"
            f"Heads in the text are not used. {MEASURED}",
            TEXT_FILE,
            (
                choice(
                    "start",
                    (*READINGS, "uniform", "random"),
                    "harmonic: short dependencies are likelier, in one of four readings; uniform: all decisions are "
                    "equally likely; random: random weights.",
                    "harmonic",
                    panel=TRAINING,
                ),
                choice(
                    "toward",
                    ("harmonic",),
                    "With --anneal: start from short dependencies, not from a uniform posterior (skewed annealing).",
                    panel=ALGORITHM,
                ),
                *TEXT_OPTIONS,
                number(
                    "valence",
                    "2: the first child of a head on a side has probabilities of its own. Try it with heads as in the "
                    "Penn Treebank.",
                    1,
                    high=2,
                    identity=True,
                    panel=TRAINING,
                ),
                flag("keep_punctuation", "Keep all tags, those of punctuation too.", panel=TEXT),
                CLASSES,
                PREFER_ROOT,
            ),
        ),
        "sample": Command(
            f"Sample the dependencies of a text from the tags of its words (collapsed Gibbs sampling).\n\n{MEASURED}",
            TEXT_FILE,
            (
                *TEXT_OPTIONS,
                number(
                    "valence",
                    "2: the first child of a head on a side has probabilities of its own.",
                    1,
                    high=2,
                    identity=True,
                    panel=TRAINING,
                ),
                flag("keep_punctuation", "Keep all tags, those of punctuation too.", panel=TEXT),
                *concentrations("roots, and of decisions to stop", "dependents"),
                *ANNEAL,
            ),
        ),
        "predict_samples": Command(f"Write sampled dependencies as CoNLL-U.\n\n{PREDICT}", SAME, OF_SAMPLES),
        "evaluate_samples": Command(
            "Score sampled dependencies against those of a treebank: mean and deviation over chains.", SAME, OF_SAMPLES
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and likely roots and dependents, given the best trees.",
            "",
            (top_option("top", "dependents of each tag", 5),),
        ),
        "predict": Command(
            f"Parse a text, and write it as CoNLL-U with a head for every word.\n\n{PREDICT_HELP}.",
            UNPARSED,
            (format_option(), COLUMN_AS_TRAINED, how_option(HOW_HEADS, "mbr")),
        ),
        "evaluate": Command(
            "Score a dependency model on a treebank, compared with chains of neighbouring words.\n\n"
            "Sentences are measured without punctuation.",
            "A treebank in CoNLL-U. - is standard input.",
            (format_option(), COLUMN_AS_TRAINED, how_option(HOW_HEADS, "mbr"), GOLD_LENGTH),
        ),
        "show": Command(
            "Show a dependency model: how its training ended, its likely roots, and the likely dependents of each tag.",
            "",
            (top_option("top", "dependents of each tag", 5),),
        ),
    }

    def check(self, given: Given) -> None:
        super().check(given)
        if getattr(given, "keep_punctuation", False) and given.drop is not None:
            raise UnsupError("--keep-punctuation and --drop contradict each other; give one of them")

    def build(self, data: Corpus, given: Given) -> DMV:
        return pu.models.DMV.of(data, valence=given.valence)

    def sampled_model(self, data: Corpus, given: Given) -> DMV:
        return self.build(data, given)

    def plan(self, model: DMV, data: Corpus, given: Given) -> Plan:
        start: Any = pu.init.uniform() if given.start == "uniform" else None
        if given.start in READINGS:
            start = model.harmonic_start(data, reading=READINGS[given.start])
        noise = NOISE if given.start == "random" else None
        preferring = given.prefer or given.prefer_root
        return Plan(
            start,
            noise,
            pu.AddLambda(PREFERRING) if preferring and given.smooth is None else None,
            templates=partial(templates_of, data, given.classes, given.valence),
            toward=given.toward,
        )

    def scores(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, float]:
        """``directed``, ``undirected``, ``ned``, ``sentences`` and ``words`` of :func:`.head_scores`, the root's word
        counted; ``loglik_per_token``, the log-likelihood by the number of words.

        Fractions of 1, but for the log-likelihood, in nats. Tags that training never met make it infinite.
        """
        if gold.heads is None:
            raise InputError("this corpus has no heads; read it from a dependency treebank (read_conllu)")
        check_lengths(gold, decoded)
        found = pu.evaluate.head_scores(gold.heads, decoded.structure, gold.lengths)
        found["loglik_per_token"] = float(decoded.log_likelihood.sum()) / gold.tokens
        return found

    def baselines(self, gold: Corpus) -> dict[str, dict[str, float]]:
        return chains(gold)

    def sizes(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, Any]:
        assert gold.heads is not None
        counts = pu.evaluate.head_counts(gold.heads, decoded.structure, gold.lengths)
        return {"by_length": counts.by_length().to_dict("index"), "unknown_tokens": decoded.unseen}

    def show(self, fit: Fit, top: int = 5) -> Shown:
        model: Any = fit.model
        names, attach = list(model.vocab), attachments(fit)
        roots = likeliest(fit.weights["root"], names, top)
        below = {
            name: {side: likeliest(attach[k, d], names, top) for d, side in enumerate(("left", "right"))}
            for k, name in enumerate(names)
        }
        tables = [Table("", "likeliest", [("root", roots)])]
        for side in ("left", "right"):
            rows = [(name, found[side]) for name, found in below.items()]
            tables.append(Table("head", f"likeliest to the {side}", rows))
        arcs = {name: {side: listed(row, "tag") for side, row in found.items()} for name, found in below.items()}
        return Shown({"tags": model.symbols, "root": listed(roots, "tag"), "attach": arcs}, tables)

    def frame(self, fit: Fit, data: Corpus, decoded: Any) -> dict[str, Any]:
        """A row a word: ``sentence``, ``position``, ``word``, ``head``, ``probability``."""
        return frames.heads(data, decoded)

    def plot(self, fit: Fit, data: Corpus, sentence: int = 0, **options: Any) -> Any:
        """The tree of one sentence, beside the gold tree if there is one."""
        one = data.select([sentence])
        return pu.plot.dependency_diagram(one.sentence(0), fit.predict(one), one.heads, **options)


def attachments(fit: Fit) -> Any:  # (tags, 2, tags)
    """Log-weights of dependents by head and side: what a child is likely to be, be it the first or a later one."""
    attach = fit.weights["attach"]
    return attach.exp().mean(2).log() if attach.dim() > 3 else attach


def chains(gold: Corpus) -> dict[str, dict[str, float]]:
    """Scores of chains in which every word hangs on its neighbour."""
    assert gold.heads is not None
    made = {"chain_to_next": pu.evaluate.chain_to_next, "chain_to_previous": pu.evaluate.chain_to_previous}
    return {name: pu.evaluate.head_scores(gold.heads, make(gold.lengths), gold.lengths) for name, make in made.items()}


def check_lengths(gold: Corpus, decoded: Any) -> None:
    """Refuse gold sentences that are not those that were parsed."""
    if not np.array_equal(gold.lengths, decoded.lengths.numpy()):
        raise UnsupError("the gold sentences are not as long as those that were parsed: score the same text")
