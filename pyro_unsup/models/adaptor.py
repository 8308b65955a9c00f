"""The adaptor grammar: sentences of collocations of words of syllables, each kind of unit with a lexicon of its own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import StructureError
from ..graphemes import graphemes
from ..tables import Declaration
from .adaptor_grammar import SYMBOL, Nested
from .adaptor_presets import PRESETS
from .adaptor_symbols import check_symbols, listed, numbered
from .base import Model, check_settings, plain_names, size_of
from .segment_types import SegmentTypes
from .sentences import as_symbols

if TYPE_CHECKING:
    from .gibbs_adaptor import AdaptorState

#: The chart of a sentence grows with the square of its length.
LONGEST = 400
_WITH_VOWELS = [name for name, one in PRESETS.items() if one.vowels]
#: How a chain begins.
Start = Literal["batch", "incremental"]


@dataclass(frozen=True, eq=False)
class Strings:
    """Sentences, and all their substrings by number.

    :param words: (symbols,) the symbols, end to end.
    :param lengths: (B,) of the sentences.
    :param cells: (symbols, longest) the number of the string that ends at a symbol, by its length; -1 if there is none.
    """

    words: Tensor
    lengths: Tensor
    cells: Tensor

    def __len__(self) -> int:
        return len(self.lengths)


class Adaptor(Model):
    """An adaptor grammar for word segmentation (Johnson & Goldwater 2009): nested units, each kind with a lexicon.

        for each level A:  G_A ~ Pitman-Yor(discount, concentration, H_A)
                           H_A: draw one of the ways that A's pattern can be written; draw its parts, each from its own
                                G (a level), by its own pattern (a part), or evenly at first (a symbol)
        for each sentence: one unit of the first level after the other

    A level remembers whole units: the more often "want to" was drawn, the likelier it is drawn again as a whole. How
    patterns are written, and which symbols occur, is learned with Dirichlet(1) priors. The lexicons are integrated out:
    :class:`.CollapsedGibbs` samples the analyses of all sentences, and the discount and the concentration of every
    level. There are no tables of fixed size, so EM and its relatives do not apply.

    The prior of a discount is Beta(1, 1). That of a concentration is Gamma(0.01, rate 0.01), truncated to what is 1e-12
    or more. The log joint of samples is that of analyses, data, discounts and the logs of concentrations.

    With ``order=2`` every word depends on the word before: the bigram Dirichlet process of Goldwater, Griffiths &
    Johnson [2], where words are spelled as in a grammar of one level::

        G ~ Pitman-Yor(discount, concentration, spelling)              the lexicon
        p($) ~ Beta(1, 1)                                              how often a new table has the end of a sentence
        H_l ~ Pitman-Yor(discount', concentration', p($) at the end $, 1 - p($) over G)
                                                                       for each word l, and for the start of a sentence
        for each sentence: a word from H_start, and one from H of the word before after the other, until one is $

    All of these are integrated out. With m customers at t tables in the restaurant of l (m_w and t_w of them with w),
    n tables of words and r tables of ends in all restaurants, and N = n customers at T tables in that of G (n_w at T_w
    with w), a and b discount and concentration of G, a' and b' those of every H_l, the joint is the product over words
    and ends, one after the other, each given all before::

        p(w | l) = (m_w - a' t_w + (a' t + b') p(w)) / (m + b')
        p($) = (r + 1) / (r + n + 2),  p(word w) = (1 - p($)) (n_w - a T_w + (a T + b) spelling(w)) / (N + b)

    Each then sits at one of the tables that these sums are made of, or at a new one, in proportion to its term. The
    spelling draws each symbol, and after each whether the word ends, from urns with one ball of every kind to begin
    with. A sentence without symbols counts for nothing.

    A pattern has names of levels, parts and classes of symbols, in order. ``name?`` may be left out, ``name+`` stands
    once or more, ``name{0,2}`` so often; ``|`` separates alternatives. A unit cannot be a part of itself.

    :param vocab: how many symbols, a vocabulary, or a list of the symbols themselves.
    :param levels: patterns by name, the highest level first; or a grammar that is known by name: ``"words"``,
        ``"collocations"``, ``"syllables"``, ``"function-words"`` (``pyro_unsup.models.adaptor_presets``). One level
        with discount 0 is the unigram Dirichlet process of Goldwater, Griffiths & Johnson (2009).
    :param parts: patterns of units that are not remembered.
    :param classes: symbols by the name of their class. ``symbol`` has all of them.
    :param words: the levels or parts that are words.
    :param vowels: symbols that make a syllable, for ``"syllables"`` and ``"function-words"``. The others are
        consonants.
    :param max_length: symbols in the longest unit that is remembered; by default no limit. A text with long lines needs
        one: memory grows with it.
    :param discount: where the discounts of all levels start, from 0 to below 1. They are sampled, unless this is 0:
        that is the Dirichlet process. By default 0.5, and with ``order=2`` 0.
    :param concentration: where their concentrations start, from 1e-12 to 1e20. Those that are fixed may be any positive
        number.
    :param start: how a chain begins. ``"batch"``: all sentences at once, as if nothing had been seen;
        ``"incremental"``: one by one. By default what is better for the grammar by name, else ``"incremental"``.
    :param order: 1: the units of a sentence are drawn one by one. 2: each word depends on the word before. That is for
        one level of words that are spelled symbol by symbol, such as ``"words"``. It has two levels of numbers: of the
        lexicon, called as the level is, and of all H_l, called ``word_bigram`` if the level is ``word``.

    >>> import pyro_unsup as pu
    >>> text = ["thedog", "adog", "seethedog", "thecat", "acat", "seeacat", "see"]
    >>> vocab = pu.data.Vocab(sorted(set("".join(text))))
    >>> model = pu.models.Adaptor(vocab, {"phrase": "word+", "word": "symbol+"})
    >>> samples = pu.CollapsedGibbs(model).run(text, sweeps=40, chains=2, progress=False)
    >>> samples.predict("vote").shape  # of every symbol, 1 where a word ends
    (39,)
    >>> samples.to_arviz().posterior["discount"].dims
    ('chain', 'draw', 'level')
    >>> samples.levels, samples.level_numbers["discount"].shape
    (('word', 'phrase'), (2, 20, 2))

    **References:**

    [1] M. Johnson and S. Goldwater (2009) "Improving nonparameteric Bayesian inference: experiments on unsupervised
        word segmentation with adaptor grammars".
    [2] S. Goldwater, T. Griffiths and M. Johnson (2009) "A Bayesian framework for word segmentation: exploring the
        effects of context".
    """

    task = "adaptor"
    #: What :class:`.CollapsedGibbs` samples beside the analyses, unless told otherwise.
    hyper = "separate"

    def __init__(
        self,
        vocab: int | Sized,
        levels: str | Mapping[str, str] = "collocations",
        parts: Mapping[str, str] | None = None,
        classes: Mapping[str, Sequence[Any]] | None = None,
        words: Sequence[str] | None = None,
        vowels: Sequence[Any] | None = None,
        max_length: int | None = None,
        discount: float | None = None,
        concentration: float = 1.0,
        start: Start | None = None,
        order: int = 1,
    ) -> None:
        check_symbols(vocab)
        self.vocab, self.symbols = vocab, size_of(vocab)
        self._told = {"levels": levels, "parts": parts, "classes": classes, "words": words, "vowels": vowels}
        known = dict(classes or {})
        if isinstance(levels, str):
            if levels not in PRESETS:
                raise StructureError(
                    f"levels are patterns by name, or one of {', '.join(PRESETS)}; actual {levels!r:.80}"
                )
            preset = PRESETS[levels]
            if parts is not None or words is not None:
                raise StructureError(
                    f"the grammar {levels!r} has its own parts and words: give patterns as levels instead"
                )
            if preset.vowels != (vowels is not None):
                what = (
                    "needs vowels=, the symbols that make a syllable"
                    if preset.vowels
                    else f"has no vowels: take {' or '.join(map(repr, _WITH_VOWELS))}, or leave vowels out"
                )
                raise StructureError(f"the grammar {levels!r} {what}")
            levels, parts, words = preset.levels, preset.parts, preset.words
            start = start or preset.start
        elif vowels is not None:
            raise StructureError("vowels are for a grammar by name: use classes={'vowel': ..., 'consonant': ...}")
        if vowels is not None:
            vowels = self._told["vowels"] = self._known("vowels", vowels)
            if not len(vowels):
                raise StructureError("vowels has no symbol of the vocabulary: give those that make a syllable in it")
            every = list(range(vocab)) if isinstance(vocab, int) else list(vocab)  # type: ignore[call-overload]
            known |= {"vowel": vowels, "consonant": [one for one in every if one not in set(vowels)]}
            if not known["consonant"]:
                raise StructureError("vowels has all symbols of the vocabulary: leave some of them for consonants")
        if classes is not None:
            for name, symbols in classes.items():
                known[name] = self._known(f"the class {name!r}", symbols)
            self._told["classes"] = {name: known[name] for name in classes}
        members = {name: self._members(symbols) for name, symbols in known.items()}
        members.setdefault(SYMBOL, np.ones(self.symbols, bool))
        self.nested = Nested(dict(levels), dict(parts or {}), members, tuple(words or ("word",)))
        self.compiled, self.adapted = self.nested.compiled(), self.nested.adapted
        self.order = order
        self._check_order()
        if order == 2:
            self.adapted = [*self.adapted, f"{self.adapted[0]}_bigram"]
        if discount is None:
            discount = 0.5 if order == 1 else 0.0
        if max_length is not None and (type(max_length) is not int or max_length < 1):
            raise StructureError(f"max_length must be a whole number, 1 or more, or None; actual {max_length!r:.80}")
        if not (_is_number(discount) and 0 <= discount < 1):
            raise StructureError(f"discount must lie from 0 to below 1, actual {discount!r:.80}")
        if not (_is_number(concentration) and 0 < concentration < float("inf")):
            raise StructureError(f"concentration must be positive and finite, actual {concentration!r:.80}")
        if start not in ("batch", "incremental", None):
            raise StructureError(f"start must be 'batch' or 'incremental', actual {start!r:.80}")
        self.max_length, self.discount, self.concentration = max_length, float(discount), float(concentration)
        self.start: str = start or "incremental"

    def _check_order(self) -> None:
        if type(self.order) is not int or self.order not in (1, 2):
            raise StructureError(f"order must be 1, or 2: each word depends on that before; actual {self.order!r:.80}")
        if self.order == 2 and not (len(self.adapted) == 1 and self.nested.rigid(self.adapted[0])):
            raise StructureError(
                "order=2 is worked out for one level of words that are spelled symbol by symbol, which have one "
                f"analysis each; the levels here are {' > '.join(self.nested.levels)}, with patterns of their own. "
                "Take levels='words', or order=1"
            )

    def _known(self, name: str, symbols: Sequence[Any]) -> Sequence[Any]:
        """Those of the symbols that the vocabulary has, with a warning if it has not all."""
        every = set(range(self.vocab) if isinstance(self.vocab, int) else self.vocab)  # type: ignore[call-overload]
        others = list(dict.fromkeys(one for one in symbols if one not in every))
        if not others:
            return symbols
        warnings.warn(f"{name} has symbols that are not in the vocabulary: {listed(others)}", stacklevel=3)
        return [one for one in symbols if one in every]

    def _members(self, symbols: Sequence[Any]) -> Any:  # (symbols,)
        names = range(self.vocab) if isinstance(self.vocab, int) else self.vocab
        number = {one: k for k, one in enumerate(names)}  # type: ignore[arg-type, var-annotated]
        found = np.zeros(self.symbols, bool)
        found[[number[one] for one in symbols]] = True
        return found

    def unfit(self, symbols: Sequence[int]) -> str:
        """Why a sentence has no analysis, most likely, and what to change.

        :param symbols: of the sentence, by number.
        """
        vowels = self._told["vowels"]
        if vowels is not None and not self.nested.classes["vowel"][list(symbols)].any():
            return (
                f"every word of the grammar {self._told['levels']!r} needs a vowel, and it has none: add the symbols "
                "that make a syllable to the vowels, or leave the line out"
            )
        if self.max_length is not None:
            return f"a unit has at most {self.max_length} symbols, which may be too few: take a larger max_length"
        return (
            "it may have symbols that no class has, or be too long. Let a level have an alternative that any symbols "
            "fit, such as 'symbol+'"
        )

    def spelled(self, symbols: Sequence[int]) -> str:
        """A sentence as it is written, cut short."""
        if isinstance(self.vocab, int):
            return " ".join(map(str, symbols))[:60]
        names = list(self.vocab)  # type: ignore[call-overload]
        return "".join(str(names[k]) for k in symbols)[:60]

    def declarations(self) -> dict[str, Declaration]:
        """None: lexicons have no fixed size, and are integrated out."""
        return {}

    def __call__(self, sentences: Any, lengths: Any = None) -> Tensor:
        """Refused: there are no tables that a Pyro program could draw."""
        raise StructureError(
            "an adaptor grammar has lexicons without end, which are integrated out: sample it by "
            "pu.CollapsedGibbs(model).run(sentences)"
        )

    def index(self, sentences: Any, lengths: Any = None) -> Strings:
        """Sentences as the sampler sees them."""
        if isinstance(sentences, Strings):
            return sentences
        known: Strings | None = self._recall(sentences)
        if known is not None:
            return known
        words, lengths = as_symbols(sentences, lengths, numbered(self.vocab), graphemes)
        longest = int(lengths.max()) if len(lengths) else 0
        if not 0 < longest <= LONGEST:
            raise StructureError(
                f"expected sentences of at most {LONGEST} symbols, and at least one; the longest has {longest:,}: "
                "cut lines at their punctuation"
            )
        longest = longest if self.max_length is None else min(self.max_length, longest)
        _, found = SegmentTypes.of(words, lengths, self.symbols, longest)
        strings = Strings(words, lengths, found.cells)
        self._remember(sentences, strings)
        return strings

    def gibbs_state(self) -> type[AdaptorState]:
        """What :class:`.CollapsedGibbs` moves: analyses of sentences under this model, its lexicons integrated out."""
        from .gibbs_adaptor import AdaptorState
        from .gibbs_bigram_words import BigramWordState

        return AdaptorState if self.order == 1 else BigramWordState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        told = {name: _plain(value) for name, value in self._told.items()}
        numbers = {name: getattr(self, name) for name in ("max_length", "discount", "concentration", "start", "order")}
        return {"vocab": plain_names(self.vocab), **told, **numbers}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Adaptor:
        """Build a model from its :meth:`settings`."""
        names = ("vocab", "levels", "parts", "classes", "words", "vowels")
        check_settings(plain, *names, "max_length", "discount", "concentration", "start", "order")
        return cls(**plain)

    def __repr__(self) -> str:
        levels = self._told["levels"]
        told = repr(levels) if isinstance(levels, str) else " > ".join(self.nested.levels)
        return f"Adaptor(vocab={self.symbols}, {told}{', order=2' if self.order == 2 else ''})"


def _is_number(x: Any) -> bool:
    return isinstance(x, Real) and not isinstance(x, bool | np.bool_)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [one.item() if isinstance(one, np.generic | torch.Tensor) else one for one in value]
