"""Segmenters: the words of lines without spaces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from ..graphemes import graphemes
from . import frames, summaries
from .option import MODEL, TEXT, Given, choice, flag, number, real, text, under
from .pictures_lines import cut_lines, split_errors
from .shown import Shown, Table, commonest, likeliest, listed
from .task import Task
from .texts import LOWERCASE, check_memory, finite, how_option, saved_model, setting, top_option
from .values import Baseline, Command, Plan, Recipe, Score, Stream

if TYPE_CHECKING:
    from ..data import Segmented
    from ..models import Segmenter
    from ..results import Fit

#: The penalty and the longest segment that Liang & Klein (2009) use for phonemes and letters.
PENALTY, MAX_LENGTH = 1.6, 10
#: What they use for Chinese characters, and how many different symbols tell such a script.
PENALTY_OF_CHARACTERS, LENGTH_OF_CHARACTERS, MANY_SYMBOLS = 2.5, 5, 500
#: Longer training finds longer, worse words, though the likelihood rises.
ITERATIONS = 20
SYMBOLS = ("graphemes", "characters")
FILE = "Lines of text; the spaces in them are taken out. - is standard input."
OPTIONS = (
    *under(
        MODEL,
        number(
            "max_length",
            "Symbols in the longest segment.",
            shown=f"{MAX_LENGTH}; {LENGTH_OF_CHARACTERS} if the text has over {MANY_SYMBOLS} different symbols",
        ),
        real(
            "penalty",
            "Penalty on long segments: each is weighted by exp(-length^NUMBER).",
            shown=f"{PENALTY:g}; {PENALTY_OF_CHARACTERS:g} if the text has over {MANY_SYMBOLS} different symbols",
        ),
        flag("no_penalty", "No penalty on long segments.", identity=False),
    ),
    *under(
        TEXT,
        text("word_separator", "TEXT", "What is between words.", shown="white space", remember=True),
        text(
            "symbol_separator",
            "TEXT",
            "What is between the symbols of a word.",
            shown="nothing: --symbols says what one is",
            remember=True,
        ),
        choice(
            "symbols",
            SYMBOLS,
            "What a symbol is. graphemes: what people take for one character, such as a letter with its accents; "
            "characters: every code point.",
            SYMBOLS[0],
            remember=True,
        ),
        LOWERCASE,
    ),
)
HOW = how_option("viterbi: the best segmentation; mbr: the one with the most expected right words.")


class SegmenterTask(Task):
    """Word segmentation."""

    name = "segmenter"
    about = (
        "A model of words in lines without spaces. Each line is a sequence of segments, drawn one by one from a hidden "
        "lexicon; long segments are penalised."
    )
    colours = "Bars are cuts: the stronger a bar, the surer the model is."
    colours_gold = "Red bars are cuts that gold does not have. Dotted ones are gold cuts that were missed."
    statistics = summaries.by_name(summaries.types, summaries.repeats)
    structure_statistics = summaries.by_name(
        summaries.mean_word_length, summaries.longest_word, summaries.one_symbol_words
    )
    unit, examples, labelled = "symbols", "lines", "symbols"
    all_unknown = "is it the right text, in the same script, and with the same --symbol-separator?"
    decoder = "pyro_unsup.tasks.decoding.segmenter:decode"
    of_places = True
    parts, constraints = "Pieces", "spelled-with=aeiou, width=-8"
    streams = True
    smoothing_helps = False  # every possible segment would gain weight, and most of them are no words
    likelihood = "loglik_per_token"
    main = ("token_f1",)
    when_worse = "Try another --penalty: a higher one finds shorter words"
    recipe = Recipe(max_iterations=str(ITERATIONS))
    scores_known = (
        Score("token_precision", "words found that are there"),
        Score("token_recall", "words that are found where they are"),
        Score("token_f1", "both"),
        Score("boundary_precision", "the same of cuts inside lines"),
        Score("boundary_recall"),
        Score("boundary_f1"),
        Score("lexicon_precision", "the same of different words"),
        Score("lexicon_recall"),
        Score("lexicon_f1"),
        Score("loglik_per_token", "natural logarithm, by symbols; higher is better", ".4f"),
    )
    baselines_known = (Baseline("every_symbol", "every symbol is a word"), Baseline("no_cut", "every line is one word"))
    commands = {  # noqa: RUF012
        "fit": Command(
            "Learn to cut lines into words, from lines without spaces.\n\nFrom a stream (--vocab-from), words are made "
            "of the segments that are known beforehand: those of a model, or all of a text up to --max-length. Lines "
            "must have known symbols only.",
            FILE,
            OPTIONS,
        ),
        "sample": Command(
            "Sample the words of lines without spaces (collapsed Gibbs sampling).\n\nGoldwater, Griffiths & Johnson "
            "(2009) have no penalty, and a small --beta.",
            FILE,
            OPTIONS,
        ),
        "predict": Command(
            "Cut lines into words, and write them with spaces between the words.\n\nSpaces that are there already "
            "are ignored. Blank lines are left out.",
            FILE,
            (HOW,),
        ),
        "evaluate": Command(
            "Score a segmenter on lines with gold spaces.",
            "Lines with spaces between gold words. - is standard input.",
            (HOW, flag("strict", "Refuse gold words that are longer than any segment of the model.")),
        ),
        "predict_samples": Command(
            "Write the lines that were sampled, with spaces between the words.",
            "The same lines. - is standard input.",
        ),
        "evaluate_samples": Command(
            "Score sampled words against the gold words of their text: mean and deviation over chains.",
            "The same lines with gold spaces. - is standard input.",
        ),
        "show": Command(
            "Show a segmenter: how its training ended, and its likeliest segments.",
            "",
            (top_option("top", "segments", 40),),
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, and the commonest words in the best of them.",
            "",
            (top_option("top", "words", 40),),
        ),
    }

    def check(self, given: Given) -> None:
        if given.symbol_separator is not None and given.symbols != SYMBOLS[0]:
            raise UnsupError(f"--symbols {given.symbols} means nothing with --symbol-separator; give one of them")
        finite("penalty", given.penalty)
        if given.no_penalty and given.penalty is not None:
            raise UnsupError(f"--no-penalty and --penalty {given.penalty:g} contradict; give one of them")
        if getattr(given, "vocab_from", None) is not None and given.logistic_normal:
            raise UnsupError("--logistic-normal gives every segment some weight, and --vocab-from gives none to those "
                             "that are not known; give one of them")  # fmt: skip

    def same_options(self, given: Given, command: str = "fit") -> dict[str, Any]:
        return {**super().same_options(given, command), "--penalty": None if given.no_penalty else given.penalty}

    def read(self, file: Any, given: Given, **options: Any) -> Segmented:
        options = {"symbols": given.symbols, "lowercase": given.lowercase, **options}
        return read_lines(file, given.word_separator, given.symbol_separator, **options)

    def build(self, data: Segmented, given: Given) -> Segmenter:
        longest, penalty = _suited(given, len(data.vocab))
        what = f"segments of up to {longest:,} symbols in a text of {data.tokens:,}"
        check_memory(longest * data.tokens, what, "lower --max-length")
        return pu.models.Segmenter.of(data, max_length=longest, penalty=penalty)

    def stream(self, given: Given) -> Stream:
        from ..data.streams import by_line
        from .batches import batches

        saved = saved_model(given.vocab_from, pu.models.Segmenter)
        if saved is None:
            model = self.build(self.read(given.vocab_from, given), given)
        else:
            model = pu.models.Segmenter(saved.vocab, saved.types, *_suited(given, len(saved.vocab)))
        separators = {"word_sep": given.word_separator, "symbol_sep": given.symbol_separator}
        cut = partial(by_line, counts=partial(pu.data.segmented.has_symbols, **separators))
        read = partial(self.read, given=given, gold=False, vocab=model.vocab)
        known = [model.vocab, model.types.nodes.numpy(), model.types.chosen.numpy()]
        return Stream(model, batches(given.file, given.batch_size, read, cut), known)

    def plan(self, model: Segmenter, data: Any, given: Given) -> Plan:
        start: Any = pu.init.uniform() if given.vocab_from is None else _known_segments
        plain = not (given.features is not None or given.vb is not None or given.logistic_normal or given.anneal)
        few = ITERATIONS if plain and not given.stepwise else None
        return Plan(start, templates=pu.templates.segmentation, max_iterations=few)

    def read_new(self, fit: Fit, given: Given) -> Segmented:
        return read_lines(given.file, *separators_of(fit), gold=False, symbols=symbols_of(fit))

    def write(self, fit: Fit, data: Segmented, decoded: Any, given: Given) -> None:
        words, symbols = separators_of(fit)
        ends = decoded.structure.numpy()
        pu.data.write_segmented(data, ends, given.out, word_sep=words or " ", symbol_sep=symbols or "")

    def read_gold(self, fit: Fit, given: Given) -> Segmented:
        model: Any = fit.model
        most = model.max_length if given.strict else None
        return read_lines(given.file, *separators_of(fit), max_segment=most, symbols=symbols_of(fit))

    def as_data(self, fit: Fit, data: Any) -> Any:
        from .from_lists import corpus_of  # torch loads when it is first needed

        return corpus_of(data, fit.model.vocab)  # type: ignore[attr-defined]

    def scores(self, fit: Fit, gold: Segmented, decoded: Any) -> dict[str, float]:
        """``token_precision``, ``token_recall``, ``token_f1``, the same of ``boundary`` and ``lexicon``, and
        ``loglik_per_token``, the log-likelihood by the number of symbols.

        Fractions of 1, but for the log-likelihood, in nats. Symbols and segments that training never met may make it
        infinite.
        """
        ends = _ends(gold)
        if len(ends) != len(decoded.structure):
            found = len(decoded.structure)
            raise UnsupError(f"the gold text has {len(ends)} symbols, {found} were segmented: score the same text")
        report = pu.evaluate.segmentation_report(ends, decoded.structure, gold.words, gold.lengths)
        return {**report, "loglik_per_token": float(decoded.log_likelihood.sum()) / len(ends)}

    def baselines(self, gold: Segmented) -> dict[str, dict[str, float]]:
        ends = _ends(gold)
        last = np.zeros_like(ends)
        last[gold.offsets[1:] - 1] = True
        made = {"every_symbol": np.ones_like(ends), "no_cut": last}
        return {
            name: pu.evaluate.segmentation_report(ends, one, gold.words, gold.lengths) for name, one in made.items()
        }

    def sizes(self, fit: Fit, gold: Segmented, decoded: Any) -> dict[str, Any]:
        too_long = too_long_words(fit, gold)
        return {"lines": len(gold), **super().sizes(fit, gold, decoded), "too_long_words": too_long}

    def remarks(self, fit: Fit, gold: Segmented, decoded: Any, given: Given) -> Iterator[str]:
        if too_long := too_long_words(fit, gold):
            most = fit.model.max_length  # type: ignore[attr-defined]
            many = f"{too_long:,} of {len(gold.word_lengths):,} gold words have more than {most} symbols"
            yield f"{many}, as no segment of the model has; they cannot be found (--strict refuses them)"

    def show(self, fit: Fit, top: int = 40) -> Shown:
        model: Any = fit.model
        names = model.types.strings(model.vocab, separators_of(fit)[1] or "")
        segments = likeliest(fit.weights["segments"][: len(names)], names, top)
        facts = {"symbols": model.symbols, "types": len(names), "max_length": model.max_length}
        stop = float(fit.weights["stop"][1].exp())
        record = {**facts, "penalty": model.penalty, "stop": stop, "segments": listed(segments, "segment")}
        return Shown(record, [Table("", "likeliest segments", [("", segments)])])

    def has_gold(self, data: Segmented) -> bool:
        return getattr(data, "ends", None) is not None

    def drawn(self, fit: Fit, data: Segmented, decoded: Any, numbers: Sequence[int]) -> Sequence[Any]:
        return cut_lines(data, decoded, numbers)

    def by_example(self, fit: Fit, gold: Segmented, decoded: Any) -> Any:
        """Symbols of each line after which the answer is right: a cut, or none."""
        right = np.asarray(_ends(gold)) == (decoded.structure.numpy() == 1)
        return np.diff(np.concatenate(([0], np.cumsum(right)))[gold.offsets])

    def mistakes(self, fit: Fit, gold: Segmented, decoded: Any) -> Sequence[Any]:
        return split_errors(gold, decoded)

    def frame(self, fit: Fit, data: Segmented, decoded: Any) -> dict[str, Any]:
        """A row a symbol: ``sentence``, ``position``, ``symbol``, ``end`` (of a segment), ``probability``."""
        return frames.segments(data, decoded)

    def write_labels(self, samples: Any, data: Segmented, labels: Any, given: Given) -> None:
        words, symbols = separators_of(samples)
        pu.data.write_segmented(data, labels, given.out, word_sep=words or " ", symbol_sep=symbols or "")

    def read_sampled(self, samples: Any, given: Given) -> Segmented:
        options: dict[str, Any] = {"symbols": symbols_of(samples), "lowercase": samples.config.get("lowercase") is True}
        return read_lines(given.file, *separators_of(samples), **options)

    def score_labels(self, samples: Any, gold: Segmented, labels: Any) -> dict[str, float]:
        return pu.evaluate.segmentation_report(_ends(gold), labels, gold.words, gold.lengths)

    def show_samples(self, samples: Any, top: int = 40) -> Shown:
        model = samples.model
        names = model.types.strings(model.vocab, separators_of(samples)[1] or "")
        ends = np.flatnonzero(samples.predict("best"))
        types = samples.data["cells"][ends, np.diff(ends, prepend=-1) - 1]
        words = commonest(np.bincount(types, minlength=len(names)), names, top)
        return Shown({"words": listed(words, "word", "share")}, [Table("", "commonest words", [("", words)])])


def read_lines(file: Any, word_sep: str | None, symbol_sep: str | None, **options: Any) -> Segmented:
    """Lines, with their gold spaces unless told otherwise."""
    try:
        return pu.data.read_segmented(file, word_sep=word_sep, symbol_sep=symbol_sep, **options)
    except InputError as error:
        what = error.what.replace("word_sep", "--word-separator").replace("symbol_sep", "--symbol-separator")
        what = what.replace("the word ", "the symbol ")
        what = what.replace("use a vocabulary with an unknown symbol", "give --vocab-from a text that has it")
        raise InputError(what, error.path, error.line) from error


def separators_of(fit: Any) -> tuple[str | None, str | None]:
    """Between words and between symbols, as in training."""
    return setting(fit, "word_separator", str | None), setting(fit, "symbol_separator", str | None)


def symbols_of(fit: Any) -> str:
    """What a symbol is, as in training. A model that does not say has single accents among its symbols, or not."""
    found: str = setting(fit, "symbols", str, "")
    if found in SYMBOLS:
        return found
    if found:
        raise UnsupError(f"the model has {found!r:.40} for its setting symbols, which makes no sense; train it again")
    vocab = [] if isinstance(fit.model.vocab, int) else list(fit.model.vocab)
    return SYMBOLS[1] if any(len(graphemes(f"a{symbol}")) == 1 for symbol in vocab) else SYMBOLS[0]


def too_long_words(fit: Fit, gold: Segmented) -> int:
    """Gold words that no segment of the model is long enough for."""
    return int((gold.word_lengths > fit.model.max_length).sum())  # type: ignore[attr-defined]


def _ends(gold: Any) -> Any:
    ends = getattr(gold, "ends", None)
    if ends is None:
        raise UnsupError("the gold text does not say where its words end: read lines with gold spaces, read_segmented")
    return ends


def _suited(given: Given, symbols: int) -> tuple[int, float | None]:
    """The longest segment and the penalty: as given, or as they suit a script with so many different symbols."""
    many = symbols > MANY_SYMBOLS
    longest = LENGTH_OF_CHARACTERS if many else MAX_LENGTH
    penalty = PENALTY_OF_CHARACTERS if many else PENALTY
    return (
        longest if given.max_length is None else given.max_length,
        None if given.no_penalty else penalty if given.penalty is None else given.penalty,
    )


def _known_segments(declarations: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """The uniform start, but without weight for segments that the model does not know."""
    found = {name: one.layout.uniform() for name, one in declarations.items()}
    found["segments"][-1] = -math.inf
    return {name: declarations[name].layout.normalise(w) for name, w in found.items()}
