"""Adaptor grammars: the words of lines without spaces, by a grammar of nested units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import UnsupError
from .option import MODEL, Given, choice, flag, number, real, text, under
from .segmenter import OPTIONS as SEGMENTER
from .segmenter import SegmenterTask, separators_of
from .shared_options import PRIOR
from .shown import Shown, Table, commonest, listed
from .texts import check_memory, say, top_option
from .values import Command

if TYPE_CHECKING:
    from ..data import Segmented
    from ..models import Adaptor

FILE = "Lines of text; the spaces in them are taken out. - is standard input."
SAME = "The same lines. - is standard input."
#: The grammars of :mod:`pyro_unsup.models.adaptor_presets`. Help need not wait for the models.
NAMES = ("words", "collocations", "syllables", "function-words")
WITH_VOWELS = ("syllables", "function-words")
#: The least and the greatest concentration that is sampled, as :mod:`pyro_unsup.models.gibbs_adaptor` has them.
SAMPLED = (1e-12, 1e20)
OPTIONS = (
    *under(
        MODEL,
        choice(
            "grammar",
            NAMES,
            "words: of symbols; collocations: words, and groups of words; syllables: the same with words of syllables; "
            "function-words: three levels of groups, which may begin with short words of one syllable.",
            shown="collocations, with --order 2 words",
        ),
        number(
            "order",
            "1: the units of a line are drawn one by one; 2: each word depends on the word before (Goldwater et al. "
            "2009). That is for --grammar words, or one --level such as 'word=symbol+'.",
            1,
            high=2,
        ),
        text(
            "level",
            "NAME=PATTERN",
            "A level of a grammar of your own, the highest first; may be repeated. A pattern has names, with ?, + or "
            "{0,2} behind them, and | between alternatives: --level 'phrase=word+' --level 'word=symbol+'",
            many=True,
        ),
        text("part", "NAME=PATTERN", "A unit of your own grammar that is not remembered; may be repeated.", many=True),
        text(
            "symbol_class",
            "NAME=SYMBOLS",
            "A class of symbols for your own grammar; may be repeated. The class symbol has all symbols.",
            flag="--class",
            many=True,
        ),
        text("words", "NAMES", "With --level: the units that are words, with commas between them.", shown="word"),
        text(
            "vowels",
            "SYMBOLS",
            "Symbols that make a syllable, for the grammars syllables and function-words; with --symbol-separator, "
            "with that between them.",
        ),
        number("max_length", "Symbols in the longest unit that is remembered.", shown="no limit"),
        choice(
            "start",
            ("batch", "incremental"),
            "How a chain begins. batch: all lines at once, as if nothing had been seen; incremental: one by one.",
            shown="batch for function-words, else incremental",
        ),
    ),
    *under(
        PRIOR,
        real(
            "discount",
            "Where the discounts of all levels start, below 1. 0 is a Dirichlet process, and stays 0.",
            shown="0.5, with --order 2 0",
        ),
        real("concentration", "Where the concentrations of all levels start.", 1.0, None),
        flag("fixed", "Do not sample discounts and concentrations."),
    ),
    *(one for one in SEGMENTER if one.name in ("word_separator", "symbol_separator", "symbols", "lowercase")),
)


class AdaptorTask(SegmenterTask):
    """Word segmentation by an adaptor grammar, which is sampled."""

    name = "adaptor"
    about = (
        "A grammar of nested units, such as groups of words, words and syllables. Every kind of unit has a lexicon of "
        "its own, which grows with the text."
    )
    streams, own_sampler, sweeps = False, True, 500
    sweeps_shown = "500, with --grammar function-words 700"
    when_worse = "Try --grammar function-words with --vowels, or more --sweeps"
    commands = {  # noqa: RUF012
        "sample": Command(
            "Sample the words of lines without spaces, by an adaptor grammar (Johnson & Goldwater 2009).\n\nBest on "
            "phonemes or letters, with the grammar function-words: several chains, whose draws vote.",
            FILE,
            OPTIONS,
        ),
        "predict_samples": Command("Write the lines that were sampled, with spaces between the words.", SAME),
        "evaluate_samples": Command(
            "Score sampled words against the gold words of their text: mean and deviation over chains.",
            "The same lines with gold spaces. - is standard input.",
        ),
        "show_samples": Command(
            "Show samples: how the chains agree, the commonest words, and the numbers of each level.",
            "",
            (top_option("top", "words", 40),),
        ),
    }

    def check(self, given: Given) -> None:
        if given.symbol_separator is not None and given.symbols != "graphemes":
            raise UnsupError(f"--symbols {given.symbols} means nothing with --symbol-separator; give one of them")
        if given.level is None and (given.part or given.symbol_class or given.words):
            raise UnsupError("--part, --class and --words belong to a grammar of your own: give its levels by --level")
        if given.level is not None and given.words is None:
            names = [*_pairs("level", given.level), *_pairs("part", given.part)]
            if "word" not in names:
                last = list(_pairs("level", given.level))[-1]
                raise UnsupError(f"no --level or --part is called word: say which units are words, --words {last}")
        if given.level is None and given.vowels is not None and given.grammar not in WITH_VOWELS:
            raise UnsupError(
                "--vowels is for grammars with syllables: give --grammar syllables or --grammar function-words too, or "
                "leave --vowels out"
            )
        if given.level is not None and given.vowels is not None:
            raise UnsupError("--vowels is for grammars by name; with --level give --class vowel=...")
        if given.discount is not None and not given.discount < 1:
            raise UnsupError(f"--discount must be below 1, actual {given.discount:g}")
        if not 0 < given.concentration < float("inf"):
            raise UnsupError(f"--concentration must be positive and finite, actual {given.concentration:g}")
        if not given.fixed and not SAMPLED[0] <= given.concentration <= SAMPLED[1]:
            raise UnsupError(
                f"--concentration starts between {SAMPLED[0]:g} and {SAMPLED[1]:g}, where it is sampled, actual "
                f"{given.concentration:g}: start there, or give --fixed too"
            )
        if given.order == 2 and given.level is None and given.grammar not in (None, "words"):
            raise UnsupError(
                f"--order 2 is worked out for words of symbols only, and --grammar {given.grammar} has units of other "
                "kinds: give --grammar words, or leave --order out"
            )
        if given.level is None and given.grammar in WITH_VOWELS and given.vowels is None:
            raise UnsupError(
                f"--grammar {given.grammar} needs --vowels, the symbols that make a syllable: --vowels aeiou"
            )

    def same_options(self, given: Given, command: str = "sample") -> dict[str, Any]:
        return {one.flag: getattr(given, one.name) for one in self.options(command) if one.makes_another_run}

    def remembered(self, given: Given) -> dict[str, Any]:
        return {one.name: getattr(given, one.name) for one in OPTIONS if one.remember}

    def build(self, data: Segmented, given: Given) -> Adaptor:  # type: ignore[override]
        longest = int(np.diff(data.offsets).max(initial=0))
        longest = longest if given.max_length is None else min(longest, given.max_length)
        what = f"units of up to {longest:,} symbols in a text of {data.tokens:,}"
        check_memory(2 * longest * data.tokens, what, "give --max-length")
        numbers = {name: getattr(given, name) for name in ("max_length", "discount", "concentration", "start", "order")}
        if given.level is None:
            vowels = None if given.vowels is None else _in_text("vowels", given.vowels, data, given)
            grammar = given.grammar or ("words" if given.order == 2 else "collocations")
            return pu.models.Adaptor(data.vocab, grammar, vowels=vowels, **numbers)
        pairs = _pairs("class", given.symbol_class)
        classes = {name: _in_text(f"class {name}", x, data, given) for name, x in pairs.items()}
        words = None if given.words is None else [one.strip() for one in given.words.split(",")]
        levels, parts = _pairs("level", given.level), _pairs("part", given.part)
        return pu.models.Adaptor(data.vocab, levels, parts, classes, words, **numbers)

    def sweeps_for(self, given: Given) -> int:
        from ..models.adaptor_presets import PRESETS  # help need not wait for the models

        preset = PRESETS.get(given.grammar) if given.level is None else None
        return self.sweeps if preset is None else preset.sweeps

    def sampler(self, model: Adaptor, given: Given) -> Any:
        return pu.CollapsedGibbs(model, hyper="fixed" if given.fixed else "separate")

    def show_samples(self, samples: Any, top: int = 40) -> Shown:
        vocab, between = samples.model.vocab, separators_of(samples)[1] or ""
        symbols = [str(k) for k in range(vocab)] if isinstance(vocab, int) else [str(one) for one in vocab]
        ends = np.flatnonzero(samples.predict("vote"))
        starts = np.append(0, ends[:-1] + 1)
        spelled = samples.data["words"]
        words = [between.join(symbols[k] for k in spelled[i : j + 1]) for i, j in zip(starts, ends, strict=True)]
        names, many = np.unique(words, return_counts=True)
        found = commonest(many, names.tolist(), top)
        levels = {
            name: {level: float(x[..., k].mean()) for k, level in enumerate(samples.levels)}
            for name, x in samples.level_numbers.items()
        }
        record = {"words": listed(found, "word", "share"), "levels": levels}
        return Shown(record, [Table("", "commonest words", [("", found)])])


def _symbols(given: str, options: Given) -> list[str]:
    """The symbols that an option lists, as the text has them."""
    if options.symbol_separator is not None:
        return [one for one in given.split(options.symbol_separator) if one]
    found = given.lower() if options.lowercase else given
    return list(found) if options.symbols == "characters" else pu.graphemes.graphemes(found)


def _in_text(option: str, listed: str, data: Segmented, options: Given) -> list[str]:
    """The symbols that an option lists, as far as the text has them. Says which it has not."""
    symbols, known = _symbols(listed, options), set(data.vocab)
    others = [one for one in dict.fromkeys(symbols) if one not in known]
    found = [one for one in symbols if one in known]
    if not found:
        there = " ".join(sorted(known)[:60])
        raise UnsupError(f"--{option}: the text has none of {listed!r:.80}; its symbols are {there}")
    if others:
        say(f"warning: --{option}: the text has no {', '.join(others[:20])}{', ...' if len(others) > 20 else ''}")
    return found


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Options of the form NAME=VALUE."""
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name.strip() or name.strip() in found:
            raise UnsupError(f"--{option} should be NAME=..., each name once; actual {one!r:.80}")
        found[name.strip()] = value
    return found
