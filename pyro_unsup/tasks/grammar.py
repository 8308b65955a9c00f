"""What grammar induction shares: sequences of tags without punctuation, gold sentences, and texts to parse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from . import sampled_trees
from .option import BELIEFS, TEXT, TRAINING, Given, Option, number, real, text, under
from .pictures import as_corpus
from .shown import Likely, Shown, likeliest, printable
from .task import Task
from .texts import belongs, column_option, finite, format_of, format_option, read, say, setting
from .values import Recipe, Score

if TYPE_CHECKING:
    from ..data import Corpus
    from ..estimate import Template
    from ..results import Fit

MAX_LENGTH = 10
#: Longer sentences are scored only if they are asked for: the time goes by the third power of the length.
LONGEST = 200
#: Pseudo-counts of constituents and distituents: without any, what is learned is below right-branching trees.
SMOOTH = (2.0, 8.0)
#: The first beta and the factor of Smith & Eisner (2004) for grammar.
RECIPE = Recipe(betas=(0.01, 1.5))
TEXT_FILE = (
    "CoNLL-U, Penn brackets or another tagged text, of which the tags are taken; or plain lines of tags. - is standard "
    "input."
)
TAGGED = "A treebank or another tagged text, of which the tags are taken; or plain lines of tags. - is standard input."
UNPARSED = "A tagged text, or plain lines of tags. - is standard input."
HOW_HEADS = "mbr: the tree with the most expected right heads; viterbi: the best tree."
GOLD_LENGTH = number(
    "max_length", "Score sentences of at most this many tags.", shown="as in training; and once more all lengths"
)
CLASSES = text(
    "classes",
    "TAGS",
    "With --features, which tags are nouns and which are verbs: those of penn, upos or ctb, or your own, "
    "NOUN,NOUN:VERB,VERB.",
    shown="those that the text has most of",
    panel=BELIEFS,
)
PREFER_ROOT = text(
    "prefer_root", "TAG,TAG", "As --prefer '->TAG,TAG': tags that the root is likely to have.", panel=BELIEFS
)
#: How preferences for spans are written.
SPAN_RULES = (
    "starts-with=DT,PDT: spans of two words or more whose first word is a determiner; ends-in=NN: whose last word is a "
    "noun; width=-4: spans of at most 4 words; width=2-5, width=3- (3 or more). Or a rule of --constraint. ~ before a "
    "rule turns it round; & between two asks for both, | with white space around it for one of them."
)
COLUMN_AS_TRAINED = column_option(default=None, shown="as in training")
TEXT_OPTIONS = under(
    TEXT,
    number("max_length", "Leave longer sentences out.", MAX_LENGTH, identity=True, remember=True),
    text("drop", "TAG", "A tag to leave out with its words; may be repeated.", many=True, shown="punctuation"),
    format_option(),
    column_option(remember=True),
)
#: How the text of samples is read again.
OF_SAMPLES = (format_option(), COLUMN_AS_TRAINED)
#: Scores of heads and of brackets.
HEADS = (
    Score("directed", "words with the right head, the root's word too"),
    Score("undirected", "or whose head is a gold child"),
    Score("ned", "or the gold grandparent"),
)
BRACKETS = (
    Score("recall", "gold brackets that are found"),
    Score("precision", "found brackets that are right"),
    Score("f1", "both; without single words and whole sentences"),
    Score("crossing", "crossing brackets a sentence", ".3f", lower_is_better=True),
    Score("f1_klein_manning_2004", "with whole sentences"),
    Score("f1_klein_manning_2002", "averaged over sentences"),
)
SIZES = (Score("sentences", "", ".0f"), Score("words", "", ".0f"))


def smooth_option(name: str, help: str, shown: str) -> Option:
    """An option for smoothing besides ``--smooth``."""
    return real(name, help, shown=shown, panel=TRAINING)


class GrammarTask(Task):
    """What the tasks of grammar induction have in common."""

    unit, examples = "tags", "sentences"
    unknown = "the rest of the sentence decided"
    all_unknown = "is it the tag set that the model was trained on? With CoNLL-U, choose the column with --column"
    recipe = RECIPE
    likelihood = "loglik_per_token"
    #: Attributes of a corpus of which a gold text has one, and what is said if it has none.
    gold: tuple[str, ...] = ()
    no_gold = ""
    #: Tags that are left out besides punctuation, and whether words of CoNLL-U are left out by their UPOS.
    also_dropped: tuple[str, ...] = ()
    drop_by_upos = True
    own_sampler = True

    def check(self, given: Given) -> None:
        sampled_trees.check(given)
        for name in ("smooth_constituents", "smooth_distituents"):
            finite(name, getattr(given, name, None))
        if hasattr(given, "toward"):
            belongs(given, "anneal", "toward")
        if hasattr(given, "classes"):
            check_classes(given)

    def dropped(self, given: Given) -> list[str]:
        """Tags that are left out."""
        if given.drop is not None:
            return list(given.drop)
        return [] if getattr(given, "keep_punctuation", False) else [*punctuation(), *self.also_dropped]

    def remembered(self, given: Given) -> dict[str, Any]:
        return {**super().remembered(given), "dropped": self.dropped(given)}

    def read(self, file: str, given: Given) -> Corpus:
        """Short sequences of tags, without punctuation. How many were left out is kept in ``given``."""
        dropped = self.dropped(given)
        whole = self.read_tags(file, given.format, given.column, dropped)
        found, given.left_out = short(whole, given.max_length, dropped, file)
        return found

    def prepare(self, file: str, given: Given, sampled: bool = False) -> tuple[Any, Any, str]:
        data = self.read(file, given)
        model = self.sampled_model(data, given) if sampled else self.build(data, given)
        return data, model, self.size(data) + given.left_out

    def sampled_model(self, data: Corpus, given: Given) -> Any:
        """The model for a sampler."""
        raise UnsupError(f"a {self.name} is not sampled")

    def sampler(self, model: Any, given: Given) -> Any:
        return sampled_trees.sampler(model, given)

    def read_sampled(self, samples: Any, given: Given) -> Corpus:
        """The sentences of a file that were sampled, prepared as they were then: tags. Their words are kept in
        ``given``, and how many sentences were left out."""
        dropped, most = dropped_by(samples), setting(samples, "max_length", int, MAX_LENGTH)
        whole = self.read_tags(given.file, given.format, column_of(samples, given), dropped)
        found, given.left_out = short(whole, most, dropped, given.file)
        given.spoken = short(whole, most, dropped, given.file, keep_words=True)[0]
        if whole.tags is None:
            given.spoken = replace(given.spoken, tags=None, tagset=None)
        return found

    def write_labels(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        """Write the words of the sentences that were sampled, and say how many there are not."""
        self.write_trees(samples, data, labels, given)
        if given.left_out:
            say(f"written: {len(data):,} sentences{given.left_out}")

    def write_trees(self, samples: Any, data: Corpus, labels: Any, given: Given) -> None:
        """Write sampled trees; their words are ``given.spoken``."""
        super().write_labels(samples, data, labels, given)

    def show_samples(self, samples: Any, top: int = 10) -> Shown:
        return self.show(sampled_trees.mean_tables(samples), top)

    def read_tags(self, file: str, format: str, column: str, dropped: list[str], **options: Any) -> Corpus:
        """A text with tags. From CoNLL-U, words are dropped by their UPOS, whichever column the tags are in."""
        if not self.drop_by_upos or format_of(file, format) != "conllu":
            return read(file, format, column, **options)
        text = read(file, format, column, drop_upos=dropped, **options)
        if text.tags is None:
            other = "upos" if column == "xpos" else "xpos"
            raise InputError(f"no tags in its column {column}; take another with --column {other}", file)
        return text

    def as_data(self, fit: Fit, data: Any) -> Any:
        from .from_lists import corpus_of  # torch loads when it is first needed

        return corpus_of(data, fit.model.vocab)  # type: ignore[attr-defined]

    def read_gold(self, fit: Fit, given: Given) -> Corpus:
        """Gold sentences prepared as in training: without punctuation, and up to the same length if none is given."""
        dropped = dropped_by(fit)
        gold = self.read_tags(given.file, given.format, column_of(fit, given), dropped)
        if all(getattr(gold, name) is None for name in self.gold):
            raise InputError(f"{self.no_gold}; is --format right?", given.file)
        most = setting(fit, "max_length", int, MAX_LENGTH) if given.max_length is None else given.max_length
        found, given.left_out = short(gold, most, dropped, given.file, getattr(given, "keep_words", False))
        also = given.max_length is None and given.left_out and most < LONGEST
        given.longer, given.too_long = short(gold, LONGEST, dropped, given.file) if also else (None, "")
        return found

    def taken(self, fit: Fit, data: Any) -> Corpus:
        return as_corpus(data)

    def has_gold(self, data: Corpus) -> bool:
        return any(getattr(data, name) is not None for name in self.gold)

    def further(self, gold: Corpus, given: Given) -> dict[str, Any]:
        longer = given.longer
        return {"all_lengths": longer} if longer is not None and len(longer) > len(gold) else {}

    def remarks(self, fit: Fit, gold: Corpus, decoded: Any, given: Given) -> Iterator[str]:
        if given.left_out:
            yield f"scored: {len(gold):,} sentences{given.left_out}; --max-length changes that"
        if given.too_long:
            yield f"all lengths: {len(given.longer):,} sentences{given.too_long}"


def punctuation() -> list[str]:
    """Tags of punctuation that are left out by default: those of the Penn Treebank and of Universal Dependencies."""
    return [*pu.data.brackets.PUNCTUATION, "PUNCT"]


def dropped_by(fit: Fit) -> list[str]:
    """The tags that a model was trained without."""
    return [str(tag) for tag in setting(fit, "dropped", list, punctuation())]


def column_of(fit: Fit, given: Given) -> str:
    """Where the tags are, if nobody says: where they were in training."""
    if getattr(given, "column", None) is not None:
        return str(given.column)
    found: str = setting(fit, "column", str, "xpos")
    if found not in ("xpos", "upos"):
        raise UnsupError(f"the model has {found!r:.40} for its setting column, which makes no sense; train it again")
    return found


def short(text: Corpus, max_length: int, dropped: list[str], file: str, keep_words: bool = False) -> tuple[Corpus, str]:
    """Sequences of tags, short ones without punctuation, and how many sentences were left out, for people.

    Of a text without tags, its words are the tags.

    :param keep_words: leave the words as they are, with their tags beside them.
    """
    if text.tags is None:
        text = replace(text, tags=text.words, tagset=text.vocab)
    if keep_words:
        found = text.drop_tags(*dropped).filter(max_length=max_length)
    else:
        found = pu.data.short_tag_sequences(text, max_length, dropped)
    if len(found) == 0:
        raise InputError(f"no sentence of at most {max_length} tags in it; raise --max-length", file)
    lengths = np.add.reduceat(kept(text, dropped), text.offsets[:-1]) if len(text) else np.zeros(0)
    long = int((lengths > max_length).sum())
    return found, f" ({long:,} of {len(text):,} are longer than {max_length} and left out)" if long else ""


def without(text: Corpus, dropped: list[str]) -> Corpus:
    """The text without punctuation, but with all its sentences."""
    keep = kept(text, dropped)
    tags = None if text.tags is None else text.tags[keep]
    offsets = np.concatenate(([0], np.cumsum(keep)))[text.offsets]
    gone: dict[str, Any] = dict.fromkeys(("heads", "spans", "span_offsets", "span_labels", "span_labelset"))
    return replace(text, words=text.words[keep], offsets=offsets, tags=tags, **gone)


def kept(text: Corpus, dropped: list[str]) -> Any:  # (tokens,)
    """Where a text has none of these tags; of one without tags, its words are the tags."""
    ids, names = (text.words, text.vocab) if text.tags is None or text.tagset is None else (text.tags, text.tagset)
    return ~np.isin(ids, [names.index[name] for name in dropped if name in names])


def check_classes(given: Given) -> None:
    """Refuse classes that are not written as they should be."""
    if given.classes is None:
        return
    if given.features is None:
        raise UnsupError("--classes belongs to --features; add that, or leave it out")
    known = pu.templates.TAG_CLASSES
    if given.classes not in known and given.classes.count(":") != 1:
        raise UnsupError(
            f"--classes is one of {', '.join(known)}, or NOUN,NOUN:VERB,VERB, actual {given.classes!r:.80}"
        )


def templates_of(text: Corpus, given: str | None, valence: int = 1) -> list[Template]:
    """Features of dependencies, by the nouns and verbs of the tag set that a text most likely has."""
    counts: dict[str, int] = dict(
        zip(text.vocab, np.bincount(text.words, minlength=len(text.vocab)).tolist(), strict=True)
    )

    def fewer(classes: tuple[Any, Any]) -> int:  # tag sets share some tags, but not nouns and verbs both
        return min(sum(counts.get(tag, 0) for tag in tags) for tags in classes)

    sets: dict[str, tuple[Any, Any]] = {**pu.templates.TAG_CLASSES}
    if given is not None and given not in sets:
        nouns, verbs = (tags.split(",") for tags in given.split(":"))
        sets[given] = (nouns, verbs)
    name = max(sets, key=lambda one: fewer(sets[one])) if given is None else given
    if not fewer(sets[name]):
        which = ", ".join(sets) if given is None else f"--classes {printable(given)}"
        raise UnsupError(f"--features needs nouns and verbs, and the text does not have both by {which}; say which "
                         "tags are, by --classes NOUN,NOUN:VERB,VERB")  # fmt: skip
    say(f"features: nouns are {', '.join(tag for tag in counts if tag in sets[name][0])}; verbs are "
        f"{', '.join(tag for tag in counts if tag in sets[name][1])}")  # fmt: skip
    return pu.templates.dependency(sets[name], valence=valence)


def likeliest_spans(model: Any, weights: Any, n: int) -> dict[str, Likely]:
    """Likely yields of two tags or more and likely contexts, of constituents and of the others.

    :param model: a constituent-context model.
    """
    tags, known = list(model.vocab), model.inventory
    names: list[str] = []
    for shorter, last in known.yields.tolist():
        names.append(f"{names[shorter]} {tags[last]}" if shorter >= 0 else tags[last])
    edges = [*tags, "#"]
    around = [f"{edges[left]} _ {edges[right]}" for left, right in known.contexts.tolist()]
    singles = int(known.widths[0])
    found: dict[str, Likely] = {}
    for row, name in ((1, "constituents"), (0, "distituents")):
        if model.variant == 1:  # given its width a yield says little of how likely it is
            found[name] = likeliest(weights["yield"][row, singles : len(names)], names[singles:], n)
        found[f"contexts_of_{name}"] = likeliest(weights["context"][row, : len(around)], around, n)
    return found


@dataclass(frozen=True)
class Unparsed:
    """A text to parse, all words of which come out again.

    :param whole: all its words.
    :param text: what is parsed of it.
    :param keep: (words,) where that is.
    :param lines: of CoNLL-U, the lines of the file.
    """

    whole: Corpus
    text: Corpus
    keep: Any
    column: str
    lines: list[str] | None = None

    @classmethod
    def read(cls, task: GrammarTask, fit: Fit, given: Given) -> Unparsed:
        """Read a file once, so that it may come from standard input."""
        column, dropped, file = column_of(fit, given), dropped_by(fit), given.file
        if format_of(file, given.format) != "conllu":
            whole = read(file, given.format, column)
            keep = kept(whole, dropped)
            return cls(whole, whole.keep_tokens(keep), keep, column)
        lines = [line for _, line in pu.data.opening.open_text(file)]
        whole = read(file, "conllu", None, lines=lines)
        keep = ~np.isin(pu.data.conllu.word_cells(lines, pu.data.conllu.UPOS), dropped)
        if not keep.any():
            return cls(whole, whole.select([]), keep, column, lines)
        text = task.read_tags(file, "conllu", column, dropped, lines=lines)
        keep[keep] = rest = kept(text, dropped)
        return cls(whole, text.keep_tokens(rest), keep, column, lines)

    def write(self, heads: Any, out: str) -> None:
        """Write it as CoNLL-U with these heads, and some for the words that were not parsed."""
        full = pu.data.spread_heads(heads, self.whole.offsets, self.keep)
        if self.lines is None:
            pu.data.write_conllu(self.whole, full, out, self.column)  # type: ignore[arg-type]
        else:
            pu.data.write_heads(self.lines, full, out)
