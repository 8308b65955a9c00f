"""Taggers: the tag of each word, by a hidden Markov model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from . import dictionary, frames, summaries
from .option import MODEL, TEXT, Given, Option, flag, number, text, under
from .pictures import as_corpus, tagged_sentences, transitions
from .shown import Shown, Table, commonest, distinct, likeliest, listed, printable
from .tagged_text import COLUMN, OUTPUT_FORMAT, Untagged
from .task import Task
from .texts import (
    COLUMNS,
    LOWERCASE,
    MIN_COUNT,
    column_option,
    format_option,
    how_option,
    read,
    read_gold,
    saved_model,
    top_option,
)
from .values import Baseline, Command, Plan, Recipe, Score, Stream

if TYPE_CHECKING:
    from ..data import Corpus
    from ..models import Tagger
    from ..results import Fit

#: What all scores of states against labels have in common.
STATE_SCORES = (
    Score("one_to_one", "the same, every gold label used once"),
    Score("v_measure", "how well each labelling predicts the other"),
    Score("vi_bits", "variation of information; lower is better", "bits", lower_is_better=True),
    Score("clusters_used", "different labels in the output", ".0f"),
)
HOW = how_option(
    "viterbi: the best tag sequence; mbr: the best tag of each token; word: one tag for all tokens of a word.",
    more=("word",),
)
TEXT_FILE = "The text; its tags are not used. - is standard input."
WORDS = top_option("words", "words of each tag", 10)
MOST = 0.5  # the share of words in one tag that is worth a remark


def _options(order: int, stop: bool) -> tuple[Option, ...]:
    """The options of the model and of its text; samplers have other defaults."""
    model = under(
        MODEL,
        number("tags", "How many tags to induce.", shown=f"{dictionary.DEFAULT_TAGS}, or as the dictionary has"),
        number("order", "1: bigram, 2: trigram.", order, high=2),
        Option("stop", "Whether tags predict the end of a sentence.", stop, bool, off="--no-stop"),
        *dictionary.OPTIONS,
    )
    rare = replace(MIN_COUNT, help="Words seen fewer times become one word, `<unk>`, unless a dictionary lists them.")
    return (*model, *under(TEXT, format_option(), rare, LOWERCASE))


class TaggerTask(Task):
    """Part-of-speech induction."""

    name = "tagger"
    statistics = summaries.by_name(summaries.types, summaries.once_only, summaries.repeats)
    structure_statistics = summaries.by_name(summaries.bigrams, summaries.bigram_information, summaries.largest_share)
    about = (
        "A hidden Markov model. Each word has a hidden tag. A tag says which tags are likely to "
        "follow it, and which words "
        "it is likely to be."
    )
    unit, examples = "words", "sentences"
    labelled = "tokens"
    unknown = "their endings, shapes and neighbours decided"
    all_unknown = "is it the right text, in the same language, and with the same case of letters?"
    decoder = "pyro_unsup.tasks.decoding.tagger:decode"
    parts, constraints = "States", "word-tags=the:DT,dog:NN|VB"
    recipe = Recipe(
        noise_shown="1, or 0.001 with --anneal",
        options={"features": 1.0, "gradient": True},
        iterations=60,
        words="features of words, such as suffixes, and gradient ascent (--features 1 --gradient --max-iterations 60)",
    )
    streams = True
    likelihood = "bits_per_word"
    main = ("accuracy", "many_to_one")
    when_worse = "Try --restarts 10, or --min-count 2"
    when_worse_sampled = "Try more --sweeps, --anneal, or --min-count 2"
    scores_known = (
        Score("many_to_one", "each tag taken as its commonest gold tag"),
        *STATE_SCORES,
        Score("accuracy", "words with the right tag"),
        Score("accuracy_ambiguous", "of words that may have several tags"),
        Score("bits_per_word", "cross-entropy; lower is better", "bits", lower_is_better=True),
    )
    baselines_known = (Baseline("one_tag", "all words have the same tag"),)
    commands = {  # noqa: RUF012
        "fit": Command(
            "Induce the tags of a text by a hidden Markov model.\n\nWithout a dictionary the tags are numbers, from 0; "
            "with one they are those of the dictionary. From a stream (--vocab-from), words that are not known "
            "beforehand become one word, `<unk>`.",
            TEXT_FILE,
            _options(1, False),
        ),
        "sample": Command(
            "Sample the tags of a text by a Bayesian hidden Markov model (collapsed Gibbs sampling).\n\nGoldwater & "
            "Griffiths (2007) anneal for 20,000 sweeps, with --alpha 0.003 --beta 1, or --hyper shared or separate.",
            TEXT_FILE,
            _options(2, True),
        ),
        "predict": Command(
            "Tag a text, word by word, and write it out.\n\n"
            "Words are written as the text has them. Of CoNLL-U all else stays as it was, too. An unknown word gets "
            "the tags of known words with the same ending and shape; its neighbours choose among them.",
            "The text to tag. - is standard input.",
            (
                format_option(),
                OUTPUT_FORMAT,
                HOW,
                flag("probabilities", "Write columns, with a third one: the posterior probability of the tag."),
                text("relabel", "FILE", "A tagged text: call each induced tag by the gold tag it goes with most."),
                format_option("relabel_format", "that tagged text"),
                COLUMN,
            ),
        ),
        "evaluate": Command(
            "Score a tagger on a tagged text.\n\nAccuracy makes sense only if the model knows the gold tags by name, "
            "from a dictionary. Gold tags that the model does not have count as wrong.",
            "A text with gold tags. - is standard input.",
            (format_option(), column_option(), HOW),
        ),
        "evaluate_samples": Command(
            "Score sampled tags against the gold tags of their text: mean and deviation over chains.",
            "The same text with gold tags. - is standard input.",
            (format_option(), column_option()),
        ),
        "show": Command("Show a tagger: how its training ended, and the likeliest words of each tag.", "", (WORDS,)),
        "show_samples": Command(
            "Show samples: how the chains agree, and the commonest words of each tag in the best of them.", "", (WORDS,)
        ),
    }

    def takes_recipe(self, given: Given) -> bool:
        return dictionary.path_of(given) is None  # features help to find anonymous tags

    def check(self, given: Given) -> None:
        dictionary.check(given)

    def read(self, file: str, given: Given) -> Corpus:
        listed_ = dictionary.path_of(given) is not None
        return read(file, given.format, lowercase=given.lowercase, min_count=1 if listed_ else given.min_count)

    def build(self, data: Corpus, given: Given) -> Tagger:
        return dictionary.model_of(data.vocab, given, dictionary.dictionary_of(given, data))

    def prepare(self, file: str, given: Given, sampled: bool = False) -> tuple[Corpus, Tagger, str]:
        """The vocabulary also has the words that the dictionary lists, so that they keep their tags in new text.

        Samples do without those that the text does not have: they would count as words that a tag may be.
        """
        data = self.read(file, given)
        size = self.size(data)
        known = dictionary.dictionary_of(given, data)
        if known is not None:
            size += f"; {dictionary.coverage(data, known)}"
            data = dictionary.with_listed(data, known, given.min_count)
            data = data.compact() if sampled else data
        return data, dictionary.model_of(data.vocab, given, known), size

    def stream(self, given: Given) -> Stream:
        """The vocabulary comes from a text or a model. Words that are not in that text become one unknown word."""
        from .batches import corpora, format_of_stream

        format, source = format_of_stream(given.file, given.vocab_from, given.format), given.vocab_from
        saved = saved_model(source, pu.models.Tagger)
        if saved is not None:
            known = dictionary.dictionary_of(given, None)
            words = dict.fromkeys([*saved.vocab, *([] if known is None else known.words)])
            vocab = pu.data.Vocab(words, saved.vocab.unknown)
        else:
            least = given.min_count if dictionary.path_of(given) is None else 1
            options = {"lowercase": given.lowercase, "min_count": least, "unknown": pu.data.lines.UNKNOWN}
            corpus = read(source, format, **options)
            known = dictionary.dictionary_of(given, corpus)
            vocab = (corpus if known is None else dictionary.with_listed(corpus, known, given.min_count)).vocab
        model = dictionary.model_of(vocab, given, known)
        options = {"vocab": model.vocab, "lowercase": given.lowercase}
        return Stream(model, corpora(given.file, format, given.batch_size, **options), [model.vocab])

    def plan(self, model: Tagger, data: Any, given: Given) -> Plan:
        return Plan(templates=pu.templates.tagging)

    def same_model(self, model: Tagger) -> Mapping[str, Sequence[Any]]:
        mask = model.declarations()["emission"].layout.support
        names: Any = [] if isinstance(model.tags, int) else list(model.tags)  # type: ignore[call-overload]
        return {"dictionary": [names, [] if mask is None else mask.numpy()]}

    def as_data(self, fit: Fit, data: Any) -> Any:
        from .from_lists import corpus_of  # torch loads when it is first needed

        return corpus_of(data, fit.model.vocab)  # type: ignore[attr-defined]

    def consensus(self, fit: Fit, data: Any, decoded: Sequence[Any]) -> Any:
        """As of other models; all tokens of a word have one state, if they have in each run."""
        from .decoding.tagger import one_state_a_word  # torch loads when it is first needed

        mean, structures, found = super().consensus(fit, data, decoded)
        if found.together is not None:
            found = replace(found, structure=one_state_a_word(mean, found.together))
        return mean, structures, found

    def read_new(self, fit: Fit, given: Given) -> Untagged:
        return Untagged.read(given)

    def text_of(self, data: Untagged) -> Corpus:
        return data.text

    def write(self, fit: Fit, data: Untagged, decoded: Any, given: Given) -> None:
        if given.relabel is not None:
            column = given.column or COLUMNS[0]
            fit = fit.relabel(read_gold(given.relabel, given.relabel_format, column, "--relabel-format"))
        names = [printable(name) for name in names_of(fit)]
        if given.probabilities:
            data.write_probabilities(names, decoded.structure, decoded.posterior.marginals, given)
        else:
            data.write(names, decoded.structure, given)

    def read_gold(self, fit: Fit, given: Given) -> Corpus:
        return read_gold(given.file, given.format, given.column)

    def gold_labels(self, gold: Corpus) -> Any:
        if gold.tags is None or gold.tagset is None:
            raise UnsupError("the gold corpus has no tags: read a tagged file")
        return gold.tags

    def scores(self, fit: Fit, gold: Corpus, decoded: Any) -> dict[str, float]:
        """``many_to_one``, ``one_to_one``, ``v_measure``, ``vi_bits``, ``clusters_used``, ``bits_per_word``.

        If the tags are the gold tags by name, also ``accuracy`` and (with a dictionary) ``accuracy_ambiguous``.
        Fractions of 1. Gold tags that the model does not have count as wrong. Words that training never met make
        ``bits_per_word`` infinite, unless the model smooths.
        """
        total = float(decoded.log_likelihood.sum())
        return _report(fit.model, self.gold_labels(gold), gold, decoded.structure.numpy(), decoded.ambiguous, total)

    def baselines(self, gold: Corpus) -> dict[str, dict[str, float]]:
        tags = self.gold_labels(gold)
        return {"one_tag": pu.evaluate.tagging_report(tags, 0 * tags + commonest_id(tags), same_tags=True)}

    def remarks(self, fit: Fit, gold: Corpus, decoded: Any, given: Given) -> Iterator[str]:
        strange = unknown_tags(fit.model, gold)
        if strange:
            names = ", ".join(printable(name) for name in strange)
            many = f"{sum(strange.values()):,} of {gold.tokens:,} words"
            yield f"{many} have gold tags that the model does not have, and count as wrong: {names!s:.200}"

    def show(self, fit: Fit, words: int = 10) -> Shown:
        model: Any = fit.model
        names, top = names_of(fit), [likeliest(row, model.vocab, words) for row in fit.weights["emission"]]
        states = [
            {"state": k, "label": name, "top_words": listed(row, "word")}
            for k, (name, row) in enumerate(zip(names, top, strict=True))
        ]
        facts = {"tags": model.states, "words": model.words, "order": model.order, "stop": model.stop}
        restricted = model.declarations()["emission"].layout.support is not None
        rows = list(zip(distinct(names), top, strict=True))
        record = {**facts, "dictionary": restricted, "states": states}
        return Shown(record, [Table("tag", "likeliest words", rows)])

    def frame(self, fit: Fit, data: Corpus, decoded: Any) -> dict[str, Any]:
        """A row a word: ``sentence``, ``position``, ``word``, ``tag``, ``probability``."""
        found, probability = frames.states(decoded)
        return {**frames.tokens(data), "tag": frames.named(found, fit.labels), "probability": probability}

    def plot(self, fit: Fit, data: Corpus, **options: Any) -> Any:
        """Which gold tags fall into which induced tag; without gold tags, the likeliest words of each tag."""
        if data.tags is None:
            return pu.plot.top_words_grid(fit, **options)
        names = None if data.tagset is None else data.tagset.types
        return pu.plot.confusion_matrix(self.gold_labels(data), fit.predict(data), names, **options)

    def taken(self, fit: Fit, data: Any) -> Corpus:
        return as_corpus(data)

    def has_gold(self, data: Corpus) -> bool:
        return data.tags is not None

    def learned(self, fit: Fit) -> Sequence[Any]:
        return transitions(fit.weights["transition"], names_of(fit))

    def by_example(self, fit: Fit, gold: Corpus, decoded: Any) -> Any:
        """Words of each sentence with the right tag, each state taken as its commonest gold tag."""
        names = np.array(names_of(self.named(fit, gold, decoded)), dtype=object)
        assert gold.tagset is not None
        right = names[decoded.structure.numpy()] == np.array(list(gold.tagset), dtype=object)[gold.tags]
        return np.diff(np.concatenate(([0], np.cumsum(right)))[gold.offsets])

    def drawn(self, fit: Fit, data: Corpus, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return tagged_sentences(data, decoded, names_of(fit), numbers)

    def read_sampled(self, samples: Any, given: Given) -> Corpus:
        return read_gold(given.file, given.format, given.column, lowercase=samples.config.get("lowercase") is True)

    def score_labels(self, samples: Any, gold: Corpus, labels: Any) -> dict[str, float]:
        support = samples.model.declarations()["emission"].layout.support
        ambiguous = None if support is None else (support.sum(0) > 1).numpy()[samples.data["words"]]
        return _report(samples.model, self.gold_labels(gold), gold, labels, ambiguous)

    def show_samples(self, samples: Any, words: int = 10) -> Shown:
        best, size = samples.predict("best"), len(samples.model.vocab)
        counts = pu.evaluate.contingency(best, samples.data["words"], samples.K, size)  # (tags, words)
        top = list(zip(samples.names, (commonest(row, samples.model.vocab, words) for row in counts), strict=True))
        states = [
            {"state": k, "label": name, "top_words": listed(row, "word", "share")} for k, (name, row) in enumerate(top)
        ]
        most = counts.sum(1).max() / counts.sum()
        many = f"{100 * most:.0f} % of the words have one tag; a smaller --alpha and --beta, or --anneal, may part them"
        return Shown(
            {"states": states}, [Table("tag", "commonest words", top)], [("tags", many)] if most > MOST else []
        )


def names_of(fit: Fit) -> list[str]:
    """What to call the states: their labels, or their numbers."""
    model: Any = fit.model
    return [str(k) for k in range(model.states)] if fit.labels is None else list(fit.labels)


def commonest_id(labels: Any) -> int:
    """The label that most items have."""
    values, counts = np.unique(labels, return_counts=True)
    return int(values[counts.argmax()])


def unknown_tags(model: Any, gold: Corpus) -> dict[str, int]:
    """Gold tags that a model with named tags does not have, with the number of words that have them."""
    if isinstance(model.tags, int) or gold.tagset is None or gold.tags is None:
        return {}
    known, counts = set(model.tags), np.bincount(gold.tags, minlength=len(gold.tagset)).tolist()
    return {name: n for name, n in zip(gold.tagset, counts, strict=True) if n and name not in known}


def _report(
    model: Any, tags: Any, gold: Corpus, predicted: Any, ambiguous: Any, total: float | None = None
) -> dict[str, float]:
    """Scores. If the tags of the model have names, gold tags are matched by name; unknown ones get new numbers."""
    named = not isinstance(model.tags, int)
    if named and gold.tagset is not None:
        number = {name: k for k, name in enumerate(model.tags)}
        others = [name for name in gold.tagset if name not in number]
        number |= {name: len(number) + k for k, name in enumerate(others)}
        tags = np.array([number[name] for name in gold.tagset])[tags]
    return pu.evaluate.tagging_report(
        tags, predicted, same_tags=named, ambiguous=ambiguous if named else None, log_likelihood=total
    )
