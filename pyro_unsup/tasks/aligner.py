"""Aligners: which word of a sentence translates which word of its translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from . import frames, sampled_trees, summaries
from .option import MODEL, TEXT, TRAINING, Given, choice, flag, number, real, spelt, text, under
from .pictures_links import grids, link_errors, link_scores
from .sampled_links import check_sampled, chosen_by_both, linked, links_of_model_1, shares_of
from .shared_options import CHAINS, PRIOR
from .shown import Likely, Shown, Table, commonest, likeliest, listed
from .task import Task
from .texts import LOWERCASE, MIN_COUNT, saved_model, say, top_option
from .values import Baseline, Command, Plan, Recipe, Score, Stream

if TYPE_CHECKING:
    from ..data import Bitext
    from ..infer import Initial
    from ..models import Aligner, HMMAligner
    from ..results import Fit, Samples

#: Iterations of Model 1, and then of the HMM, unless told otherwise (Liang, Taskar & Klein 2006).
ITERATIONS = 5
#: Iterations of the taggers that learn classes of words.
TAGGER_ITERATIONS = 20
#: Sweeps of Model 1 before those by jumps, and concentrations of jumps and of translations (Östling & Tiedemann 2016).
SWEEPS, JUMPS, TRANSLATIONS = 20, 0.5, 0.001
FILE = "`source ||| target` a line, or the source sentences. - is standard input."
FILE2 = text("target", "FILE2", "The target sentences, if FILE has none.", positional=True, identity=False)
SAME = "The same pairs, or their source sentences. - is standard input."
FORMS = ("lowercase", "strip_accents", "numbers", "prefix")
BY_POSTERIOR = ("threshold", "competitive")
DECODING = (
    choice(
        "how",
        ("intersection", "union", *BY_POSTERIOR, "grow-diag-final-and", "forward", "backward"),
        "How the best links of the two directions are put together. By posteriors: threshold; competitive keeps the "
        "best of those for each word, and what lies beside it.",
        "intersection",
    ),
    real(
        "threshold",
        "With --how threshold or competitive, the least posterior of a link.",
        high=1,
        metavar="PROBABILITY",
        shown="0.5",
    ),
    choice(
        "combine",
        ("mean", "product", "geometric", "max", "min"),
        "With --how threshold or competitive, how the posteriors of the two directions become one.",
        shown="mean",
    ),
)
FORMAT = choice(
    "output_format",
    ("pharaoh", "naacl"),
    "pharaoh: `0-0 1-2`, a pair a line, from 0; naacl: `1 1 1 S`, a link a line, from 1.",
    "pharaoh",
)
GOLD = text(
    "gold",
    "FILE",
    "The gold links, NAACL (.wa) or Pharaoh; see `predict`. Pairs that a .wa does not name are not scored.",
    required=True,
)
MODELS = choice(
    "model",
    ("model1", "hmm"),
    "model1: every word chooses alone (IBM Model 1). hmm: near the choice of the word before it; it "
    "starts from Model 1 (--first).",
    "model1",
)
NULL = real(
    "null",
    "The probability that a word has no translation.",
    metavar="PROBABILITY",
    shown="as that of each other word",
)
LEARN_NULL = flag("learn_null", "With --model hmm, learn the probability that a word has no translation.")
FORMED = under(
    TEXT,
    MIN_COUNT,
    LOWERCASE,
    flag("strip_accents", "Leave accents out: é is e.", remember=True),
    flag("numbers", "Take every digit for a 0, so that numbers of the same length are one word.", remember=True),
    number(
        "prefix",
        "Take only the first characters of each word, so many; for languages with endings, 5 or 6 is good.",
        shown="whole words",
        remember=True,
    ),
)
OPTIONS = (
    FILE2,
    *under(
        MODEL,
        MODELS,
        choice(
            "agreement",
            ("product", "2008", "none"),
            "How the two directions learn from each other: by the product of their posteriors, as in Liang, Klein and "
            "Jordan (2008), or not at all.",
            "product",
        ),
        flag(
            "symmetric",
            "With --agreement none or 2008: in every pair of sentences, both directions expect every link equally "
            "often (posterior regularisation).",
        ),
        flag(
            "one_to_one",
            "With --agreement none or 2008, while the model learns: in every pair of sentences, no word is expected to "
            "be chosen more than once (posterior regularisation). Slow: about a quarter of a second for each pair and "
            "iteration.",
        ),
        NULL,
        LEARN_NULL,
        number(
            "jump_classes",
            "With --model hmm, jumps depend on the class of the word that they leave. So many classes of words are "
            "learned first, from the order of words in each text.",
            low=2,
            shown="one class",
        ),
        flag(
            "jump_memory",
            "With --model hmm, jumps depend on the jump before: back, to the same word, to the next, or further ahead.",
        ),
    ),
    number(
        "first", "With --model hmm, iterations of Model 1 to start from.", low=0, shown=str(ITERATIONS), panel=TRAINING
    ),
    *FORMED,
)
SAMPLED = (
    FILE2,
    *under(
        MODEL,
        MODELS,
        NULL,
        LEARN_NULL,
        real(
            "fertility",
            "Words differ in how many links they have: the concentration of these numbers. 0.5 is common.",
            low=None,
            shown="none",
        ),
    ),
    *under(
        PRIOR,
        real("alpha", "With --model hmm, concentration of jumps.", low=None, shown=f"{JUMPS:g}"),
        real("beta", "Concentration of translations.", TRANSLATIONS, None),
        choice("hyper", ("fixed", "shared"), "fixed: as they are given; shared: both are sampled.", "fixed"),
        choice("hyperprior", ("gamma", "log-uniform"), "The prior of concentrations that are sampled.", shown="gamma"),
    ),
    number(
        "first",
        "With --model hmm, sweeps of Model 1, whose last links all chains start from.",
        low=0,
        shown=str(SWEEPS),
        panel=CHAINS,
    ),
    flag("anneal", "Cool from temperature 2 to 0.08, to find good links.", panel=CHAINS),
    *FORMED,
)


class AlignerTask(Task):
    """Word alignment, by IBM Model 1 or by a hidden Markov model."""

    name = "aligner"
    about = (
        "A translation model. Every word of a sentence chooses the word of the other sentence that "
        "it translates, or none; "
        "both directions are learned together."
    )
    colours = "Dots are links. The darker a cell, the likelier the link (mean of both directions)."
    colours_gold = "Framed cells are gold: strong frames are sure links, grey ones possible links."
    statistics = summaries.by_name(summaries.types, summaries.repeats)
    unit, examples, labelled = "words", "pairs", "words"
    own_sampler, sweeps = True, 100
    all_unknown = "are the languages in the right order, and with the same case of letters?"
    decoder = "pyro_unsup.tasks.decoding.aligner:decode"
    of_places = True
    parts, constraints = "Links", "near-diagonal=0.2, punctuation-alike"
    preferences = (
        "cognates=4: words that begin with the same four letters are linked, names and numbers among them. Or a rule "
        "of --constraint. ~ before a rule turns it round; & between two asks for both, | with white space around it "
        "for one of them."
    )
    streams = True
    recipe = Recipe(max_iterations=f"100, or {ITERATIONS} with --model hmm")
    likelihood = "loglik_per_token"
    main = ("aer",)
    when_worse = "Try --model hmm, or more pairs of sentences"
    when_worse_sampled = "Try --model hmm --fertility 0.5, or more pairs of sentences"
    scores_known = (
        Score("aer", "alignment error rate; lower is better", lower_is_better=True),
        Score("precision", "links found that are possible"),
        Score("recall", "sure links that are found"),
        Score("loglik_per_token", "of both directions; natural logarithm", ".4f"),
    )
    baselines_known = (Baseline("diagonal", "every word is linked to the word at its own place"),)
    commands = {  # noqa: RUF012
        "fit": Command(
            "Learn which words translate which, in both directions: by IBM Model 1, or by a hidden Markov model.\n\n"
            "From a stream (--vocab-from), only words that are known to occur together are linked. Words that are not "
            "known become one word, `<unk>`.",
            FILE,
            OPTIONS,
        ),
        "predict": Command(
            "Align pairs of sentences, and write the links between their words.",
            FILE,
            (
                FILE2,
                FORMAT,
                flag(
                    "probabilities",
                    "Write the probability of each link beside it, the mean of both directions: `0-0:0.9700`.",
                ),
                *DECODING,
            ),
        ),
        "evaluate": Command(
            "Score an aligner on pairs of sentences with gold links.",
            FILE,
            (
                FILE2,
                GOLD,
                *DECODING,
            ),
        ),
        "sample": Command(
            "Sample which words translate which, in both directions (collapsed Gibbs sampling).\n\nThe directions do "
            "not learn from each other. With --model hmm and --fertility 0.5, a model much like that of eflomal.",
            FILE,
            SAMPLED,
        ),
        "predict_samples": Command(
            "Write sampled links: those that the words of both directions chose.",
            SAME,
            (
                FILE2,
                FORMAT,
                flag(
                    "probabilities",
                    "Write the share of all draws that have a link beside it, the mean of both directions: "
                    "`0-0:0.9700`.",
                ),
            ),
        ),
        "evaluate_samples": Command(
            "Score sampled links that both directions chose against gold links: mean and deviation over chains.",
            SAME,
            (FILE2, GOLD),
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and what the first words are most often linked to in all draws.",
            "",
            (top_option("words", "source words", 20), top_option("top", "translations of each word", 4)),
        ),
        "show": Command(
            "Show an aligner: how its training ended, and the likeliest translations of its first words.",
            "",
            (top_option("words", "source words", 20), top_option("top", "translations of each word", 4)),
        ),
    }

    def check(self, given: Given) -> None:
        if given.null is not None and not given.null < 1:
            raise UnsupError(f"--null must be a probability below 1, actual {given.null}")
        if hasattr(given, "sweeps"):
            check_hmm(given)
            check_sampled(given)
            return
        if given.vocab_from is not None and given.target is not None:
            raise UnsupError("a stream has both languages, `source ||| target` a line; leave FILE2 out")
        if given.gradient and given.agreement == "product":
            raise UnsupError("--gradient needs a likelihood, and --agreement product has none; add --agreement 2008, "
                             "or --agreement none")  # fmt: skip
        if given.symmetric and given.agreement == "product":
            raise UnsupError("--symmetric and --agreement product are two ways to learn from each other; add "
                             "--agreement none")  # fmt: skip
        if given.symmetric and given.one_to_one:
            raise UnsupError("--symmetric and --one-to-one do not go together; leave one of them out")
        if given.one_to_one and given.agreement == "product":
            raise UnsupError("--one-to-one bounds each direction on its own, and by --agreement product they learn "
                             "together; add --agreement none, or --agreement 2008")  # fmt: skip
        others = [name for name in ("viterbi", "prefer_share", "vocab_from") if getattr(given, name)]
        if given.one_to_one and others:
            raise UnsupError(f"--one-to-one and {spelt(others[0])} do not go together; leave one of them out")
        others = [name for name in ("viterbi", "constraint", "vocab_from") if getattr(given, name)]
        if given.symmetric and others:
            raise UnsupError(f"--symmetric and {spelt(others[0])} do not go together; leave one of them out")
        check_hmm(given)
        if given.model == "hmm" and given.vocab_from is not None:
            raise UnsupError("--model hmm starts from Model 1 of the same text, and a stream is read once; leave "
                             "--vocab-from out")  # fmt: skip

    def handled(self, model: Any, given: Given) -> Any:
        if given.symmetric:
            return pu.regularise(model, pu.components.symmetric())
        return one_to_one(model, given.longest) if given.one_to_one else model

    def remembered(self, given: Given) -> dict[str, Any]:
        # No prediction needs it, but decoding does not keep to it either, so that nothing else would show it.
        return super().remembered(given) | ({"one_to_one": True} if getattr(given, "one_to_one", False) else {})

    def read(self, file: str, given: Given) -> Bitext:
        return pu.data.read_bitext(file, given.target, **_forms(given), min_count=given.min_count)

    def size(self, data: Bitext) -> str:
        return f"{len(data):,} pairs, {data.source.tokens:,} and {data.target.tokens:,} words"

    def tokens(self, data: Bitext) -> int:
        return data.source.tokens + data.target.tokens

    def build(self, data: Bitext, given: Given) -> Aligner:
        given.longest = max(int(side.lengths.max(initial=1)) for side in (data.source, data.target))  # for handled()
        model = pu.models.Aligner.of(data, *_how(given))
        if given.model == "model1":
            return model
        kinds = {"classes": _classes(data, given.jump_classes), "order": 2 if given.jump_memory else 1}
        return pu.models.HMMAligner.like(model, **kinds, **({"null": "learn"} if given.learn_null else {}))

    def prepare(self, file: str, given: Given, sampled: bool = False) -> tuple[Any, Any, str]:
        if not sampled:
            return super().prepare(file, given)
        data = self.read(file, given)
        model = pu.models.Aligner.of(data, None, given.null)
        if given.model == "hmm":
            model = pu.models.HMMAligner.like(model, **({"null": "learn"} if given.learn_null else {}))
        return data, model, self.size(data)

    def sampler(self, model: Any, given: Given) -> Any:
        jumps = JUMPS if given.model == "hmm" and given.alpha is None else given.alpha
        return sampled_trees.sampler(model, Given(**{**vars(given), "alpha": jumps}))

    def initial(self, model: Any, data: Bitext, given: Given) -> Any:
        sweeps = SWEEPS if given.first is None else given.first
        if given.model == "model1" or not sweeps:
            return None
        say(f"starting from {sweeps:,} sweeps of Model 1")
        return links_of_model_1(model, data, sweeps, given.beta, given.seed)

    def read_sampled(self, samples: Samples, given: Given) -> Bitext:
        from ..data.forms import Forms

        return pu.data.read_bitext(
            given.file, given.target, links=getattr(given, "gold", None), **vars(Forms.of(samples.config))
        )

    def write_labels(self, samples: Samples, data: Bitext, labels: Any, given: Given) -> None:
        found, chosen = chosen_by_both(data, labels)
        sure = shares_of(samples)[chosen] if given.probabilities else None
        pu.data.write_links(found, given.out, "wa" if given.output_format == "naacl" else "pharaoh", sure)

    def show_samples(self, samples: Samples, words: int = 20, top: int = 4) -> Shown:
        model, many = samples.model, linked(samples)
        offsets, met = model.lexicon.offsets.tolist(), model.lexicon.met.tolist()
        rows = []
        for k in range(min(words, model.source_words)):
            own = slice(offsets[k], offsets[k + 1])
            if many[own].any():
                rows.append((model.source[k], commonest(many[own], [model.target[word] for word in met[own]], top)))
        made = [{"word": word, "links": listed(row, "word", "share")} for word, row in rows]
        return Shown({"linked": made}, [Table("word", "most often linked to", rows)])

    def stream(self, given: Given) -> Stream:
        from .batches import batches

        saved, options = saved_model(given.vocab_from, pu.models.Aligner), _forms(given)
        if saved is None:
            known = {**options, "min_count": given.min_count, "unknown": pu.data.lines.UNKNOWN}
            model = pu.models.Aligner.of(pu.data.read_bitext(given.vocab_from, None, **known), *_how(given))
        else:
            model = pu.models.Aligner(saved.source, saved.target, saved.lexicon, *_how(given))
        vocabs: dict[str, Any] = {"source_vocab": model.source, "target_vocab": model.target}
        read = partial(pu.data.read_bitext, target=None, **options, **vocabs)
        same = [*vocabs.values(), model.lexicon.sizes.numpy(), model.lexicon.met.numpy()]
        return Stream(model, batches(given.file, given.batch_size, read), same)

    def same_data(self, data: Bitext) -> Sequence[Any]:
        return [part for one in (data.source, data.target) for part in (one.words, one.offsets, one.vocab)]

    def plan(self, model: Any, data: Any, given: Given) -> Plan:
        if given.model == "model1":
            return Plan(pu.init.uniform(), templates=_templates)
        iterations = None if given.gradient else ITERATIONS
        start = after_model_1(model, data, ITERATIONS if given.first is None else given.first)
        return Plan(start, templates=_templates, max_iterations=iterations)

    def decoding(self, given: Given) -> dict[str, Any]:
        found = {"how": given.how}
        for name in ("threshold", "combine"):
            if (value := getattr(given, name)) is None:
                continue
            if given.how not in BY_POSTERIOR:
                raise UnsupError(f"--{name} belongs to --how threshold or competitive; add that, or leave it out")
            found[name] = value
        return found

    def read_new(self, fit: Fit, given: Given) -> Bitext:
        self.decoding(given)  # refuse options before reading
        return pu.data.read_bitext(given.file, given.target, links=getattr(given, "gold", None))

    def write(self, fit: Fit, data: Bitext, decoded: Any, given: Given) -> None:
        format = "wa" if given.output_format == "naacl" else "pharaoh"
        sure = frames.links(data, decoded)["probability"] if given.probabilities else None
        pu.data.write_links(decoded.links, given.out, format, sure)  # type: ignore[arg-type]

    def as_data(self, fit: Fit, data: Any) -> Any:
        from .from_lists import bitext_of

        return bitext_of(data, fit.model)

    def consensus(self, fit: Fit, data: Any, decoded: Any) -> Any:
        """Links whose probability, the mean of all runs and of both directions, is at least one half."""
        import torch

        forward, backward = (
            torch.stack([getattr(one, way) for one in decoded]).mean(0) for way in ("forward", "backward")
        )
        lengths = data.source.lengths, data.target.lengths
        chosen = pu.evaluate.above_threshold(forward, backward, 0.5)
        links = pu.data.Links(len(data), pu.evaluate.link_rows(chosen, *lengths))  # type: ignore[arg-type]
        together = replace(decoded[0], links=links, forward=forward, backward=backward)
        return torch.stack([forward, backward], -1), [one.structure for one in decoded], together

    def in_common(self, one: Any, other: Any) -> float:
        """Links that both have, as a share of those that one of them has."""
        mine, theirs = ({*map(tuple, x.tolist())} for x in (one, other))
        return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0

    def scores(self, fit: Fit, gold: Bitext, decoded: Any) -> dict[str, float]:
        """Of the pairs that the gold names: ``aer``, ``precision`` and ``recall`` (fractions of 1), and
        ``loglik_per_token``.

        The last is the log-likelihood of both directions over the number of words in both languages: minus infinity, if
        a pair has a word that training never met.
        """
        links = _links(gold)
        report = pu.evaluate.alignment_report(links, decoded.links)
        total = decoded.log_likelihood.numpy()[links.annotated].sum()
        return {**report, "loglik_per_token": float(total) / self.tokens(_with_gold(gold))}

    def score_labels(self, samples: Any, gold: Bitext, labels: Any) -> dict[str, float]:
        """``aer``, ``precision`` and ``recall`` of the links that both directions chose, of the pairs that the gold
        names."""
        return pu.evaluate.alignment_report(_links(gold), chosen_by_both(gold, labels)[0])

    def part_scored(self, gold: Bitext) -> str:
        links = _links(gold)
        return "" if links.annotated.all() else f"scored: {links.annotated.sum():,} pairs with gold, of {len(gold):,}"

    def taken(self, fit: Fit, data: Bitext) -> Bitext:
        """Of data with gold links, the pairs that those name."""
        return data if data.links is None else _with_gold(data)

    def baselines(self, gold: Bitext) -> dict[str, dict[str, float]]:
        lengths = zip(gold.source.lengths.tolist(), gold.target.lengths.tolist(), strict=True)
        rows = [[i, k, k] for i, (source, target) in enumerate(lengths) for k in range(min(source, target))]
        return {
            "diagonal": pu.evaluate.alignment_report(_links(gold), pu.data.Links(len(gold), np.array(rows, np.int32)))
        }

    def sizes(self, fit: Fit, gold: Bitext, decoded: Any) -> dict[str, Any]:
        from .decoding.aligner import unseen

        return {**self.sizes_of_samples(gold), "unknown_tokens": sum(unseen(fit, _with_gold(gold)))}

    def sizes_of_samples(self, gold: Bitext) -> dict[str, Any]:
        some = _with_gold(gold)
        return {"pairs": len(some), "pairs_read": len(gold), "tokens": self.tokens(some)}

    def unseen(self, data: Bitext, decoded: Any) -> tuple[int, int, str]:
        source, target = decoded.unseen
        words = (
            f"{source:,} of {data.source.tokens:,} source words and {target:,} of {data.target.tokens:,} target words"
        )
        return source + target, self.tokens(data), f"{words} are unknown to the model"

    def show(self, fit: Fit, words: int = 20, top: int = 4) -> Shown:
        model: Any = fit.model
        rows = _translations(fit, words, top)
        facts = {"source_words": model.source_words, "target_words": model.target_words}
        facts |= {"agreement": model.agreement, "null": model.null}
        made = [{"word": word, "translations": listed(row, "word")} for word, row in rows]
        return Shown({**facts, "translations": made}, [Table("word", "likeliest translations", rows)])

    def has_gold(self, data: Bitext) -> bool:
        return data.links is not None

    def drawn(self, fit: Fit, data: Bitext, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return grids(data, decoded, numbers)

    def by_example(self, fit: Fit, gold: Bitext, decoded: Any) -> Any:
        """Of each pair: one less its alignment error rate."""
        return link_scores(_links(gold), decoded.links)

    def mistakes(self, fit: Fit, gold: Bitext, decoded: Any) -> Sequence[Any]:
        return link_errors(gold, decoded)

    def frame(self, fit: Fit, data: Bitext, decoded: Any) -> dict[str, Any]:
        """A row a link: ``sentence``, ``source_position``, ``target_position``, ``source_word``, ``target_word``, and
        probabilities: ``forward``, ``backward``, and their mean, ``probability``."""
        return frames.links(data, decoded)

    def plot(self, fit: Fit, data: Bitext, pair: int = 0, **options: Any) -> Any:
        """The links of one pair of sentences."""
        return pu.plot.alignment_grid(data, self.decode(fit, data), pair, **options)


def check_hmm(given: Given) -> None:
    """Refuse options of the hidden Markov model without it, and such as contradict each other."""
    if given.model == "hmm" and given.learn_null and given.null is not None:
        raise UnsupError(f"--null {given.null:g} and --learn-null contradict each other; give one of them")
    for name in ("learn_null", "first", "jump_classes", "jump_memory", "alpha"):
        if given.model != "hmm" and getattr(given, name, None) not in (None, False):
            raise UnsupError(f"{spelt(name)} belongs to --model hmm; add that, or leave it out")


def one_to_one(model: Aligner, longest: int) -> Any:
    """The model under bounds: in every pair of sentences, no word is expected to be chosen more than once.

    :param longest: how many words the longest sentence has.
    """
    places = [pu.components.links_into(place) for place in range(1, longest + 1)]
    return pu.regularise(model, places, [1.0] * longest, each=True)


def after_model_1(model: HMMAligner, text: Any, iterations: int) -> Initial:
    """A start from Model 1 of the same text."""

    def start(declarations: Mapping[str, Any], generator: Any) -> dict[str, Any]:
        simple = pu.models.Aligner(model.source, model.target, model.lexicon, model.agreement, model.null)
        first = pu.EM(simple, init=pu.init.uniform())
        state = first.init(model.index(text))
        for _ in range(iterations):
            state, _ = first.step(state)
        return model.start_from(state.weights)(declarations, generator)

    return start


def _classes(data: Bitext, many: int | None) -> tuple[Any, Any]:
    """Classes of the words of both languages, by taggers that learn from these texts."""
    if many is None:
        return None, None
    found = []
    for name, side in (("source", data.source), ("target", data.target)):
        say(f"learning {many} classes of {name} words by a tagger")
        fit = pu.EM(pu.models.Tagger(many, side.vocab)).run(side, iterations=TAGGER_ITERATIONS, seed=0, progress=False)
        found.append(pu.word_classes(fit, side))
    return found[0], found[1]


def _how(given: Given) -> tuple[Any, float | None]:
    return None if given.agreement == "none" else given.agreement, given.null


def _forms(given: Given) -> dict[str, Any]:
    """How words look to the model."""
    return {name: getattr(given, name) for name in FORMS}


def _links(gold: Bitext) -> Any:
    if gold.links is None:
        raise UnsupError("the gold bitext has no links: read them with it, read_bitext(path, links=...)")
    if len(gold) and not gold.links.annotated.any():
        raise UnsupError(f"the gold names none of the {len(gold):,} pairs: there is nothing to score")
    return gold.links


def _with_gold(gold: Bitext) -> Bitext:
    """The pairs that the gold names."""
    annotated = _links(gold).annotated
    return gold if annotated.all() else gold.select(annotated)


def _templates() -> dict[str, list[Any]]:
    """Of both tables of translations, which have weights of their own; other tables do without features."""
    stem = "porter" if find_spec("nltk") else None
    if stem is None:
        say("features have no stems of words in them: pip install nltk for those")
    names: Iterable[str] = ("translation_forward", "translation_backward")
    return {name: pu.templates.alignment(name, stem=stem) for name in names}


def _translations(fit: Fit, words: int, n: int) -> list[tuple[str, Likely]]:
    """The first source words of the vocabulary, with their likeliest translations."""
    model: Any = fit.model
    forward, offsets = fit.weights["translation_forward"], model.lexicon.offsets.tolist()
    found: list[tuple[str, Likely]] = []
    for k in range(min(words, model.source_words)):
        met = [model.target[word] for word in model.lexicon.met[offsets[k] : offsets[k + 1]].tolist()]
        found.append((model.source[k], likeliest(forward[offsets[k] : offsets[k + 1]], met, n)))
    return found
