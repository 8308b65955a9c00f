"""What models of labelled trees have in common, whatever their rules are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, ClassVar, Protocol, Self

import pyro
import torch
from torch import Tensor

from ..distributions.cells import spans_of
from ..distributions.grammar import Grammar
from ..distributions.ragged import check_lengths, offsets_of
from ..errors import StructureError
from ..tables import Declaration, declare, dense_tables
from .base import Model, check_settings, plain_names, size_of
from .sentences import Sentences, as_flat, as_parsed, vocab_of

#: What a start adds to its expected counts, if it is not told otherwise.
START_SMOOTHING = 0.1
#: Numbers in the table of labels of spans, for as many sentences as counts of a start are found of at a time.
NUMBERS_AT_A_TIME = 2**22

Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]


class Estimate(Protocol):
    """Makes weights of counts; every estimator of :mod:`pyro_unsup.estimate` does."""

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor: ...


class TreeGrammar(Model):
    """A grammar over words or tags, with labelled binary trees summed out.

    A subclass says which tables its rules have, and which distribution all tables make.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param prior: Dirichlet concentration, one for all tables or by name.
    """

    task = "pcfg"
    interchangeable = True
    #: What errors call it.
    who: ClassVar[str]

    def __init__(
        self, nonterminals: int, preterminals: int, vocab: int | Sized, prior: float | Mapping[str, float] = 1.0
    ) -> None:
        for name, size in (("nonterminals", nonterminals), ("preterminals", preterminals)):
            if type(size) is not int or size < 1:
                raise StructureError(f"{name} must be a whole number of at least 1, actual = {size!r:.80}")
        self.nonterminals, self.preterminals, self.vocab = nonterminals, preterminals, vocab
        self.symbols = size_of(vocab)
        wide, narrow = self.labels[:nonterminals], self.labels[nonterminals:]
        rules = self._rule_axes()
        axes: dict[str, dict[str, int | Sized]] = {
            "root": {"nonterminal": wide},
            **{name: {"nonterminal": wide, **parts} for name, parts in rules.items()},
            "emission": {"preterminal": narrow, "word": vocab},
        }
        # Nothing makes a grammar use all of its labels.
        self._tables = dense_tables(self.who, axes, prior, keep=[*rules, "emission"])

    # -- what a subclass says

    @abstractmethod
    def _rule_axes(self) -> dict[str, dict[str, Sequence[Any]]]:
        """The tables of rules, and their axes after the label above."""

    @abstractmethod
    def _grammar(self, tables: Mapping[str, Tensor], lengths: Tensor) -> Grammar:
        """The distribution of sentences of these lengths."""

    @abstractmethod
    def strongest(self, weights: Mapping[str, Tensor], top: int) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest rules of each label, by the tables of a fit: log-probabilities, left parts and right parts,
        (N, up to top) each.

        :param weights: by name.
        :param top: how many of each label.
        """

    # -- what follows from it

    @property
    def labels(self) -> tuple[str, ...]:
        """What labels are called, by their number in a structure: nonterminals, then preterminals."""
        return label_names(self.nonterminals, self.preterminals)

    @classmethod
    def of(cls, sentences: Any, nonterminals: int, preterminals: int, prior: float | Mapping[str, float] = 1.0) -> Self:
        """A model of the words of this corpus.

        :param sentences: a corpus.
        :param nonterminals: how many labels spans of two words or more have.
        :param preterminals: how many labels single words have.
        :param prior: concentration of the tables, one for all or by table.
        """
        return cls(nonterminals, preterminals, vocab_of(sentences), prior)

    def __call__(self, sentences: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without sentences it draws words of the given lengths; both lie flat (:func:`.as_flat`)."""
        words: Tensor | None = None
        if sentences is None:
            lengths = check_lengths(lengths)
            lengths = torch.where(lengths == 1, 0, lengths)
        else:
            words, lengths = self._parsed(sentences, lengths)
        grammar = self._grammar({name: declare(table) for name, table in self._tables.items()}, lengths)
        with pyro.plate("sentences", len(lengths)):
            drawn: Tensor = pyro.sample("words", grammar, obs=words)
        return drawn

    def _parsed(self, sentences: Any, lengths: Any) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
        """Words that trees are built over, and how many each sentence has: none, where there is only one."""
        return without_single(*as_parsed(sentences, lengths, self.vocab))

    def index(self, sentences: Any, lengths: Any = None) -> Any:
        """Sentences that mini-batches can be selected from: a corpus is itself, others lie flat."""
        if hasattr(sentences, "select") and lengths is None:
            return sentences
        words, lengths = as_flat(sentences, lengths, self.vocab)
        return Sentences(words, offsets_of(lengths))

    def split_start(
        self, sentences: Any, lengths: Any = None, noise: float = 1.0, estimate: Estimate | None = None
    ) -> Start:
        """Where training may start: what is expected of these sentences if trees are split after split, at random.

        Labels are chosen by random tables, and trees by random splits. The expected counts of both make the start. Each
        seed of an engine has its own tables.

        :param sentences: those to be learned from.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param noise: how different labels are at first: weights are e^(noise u), u uniform between 0 and 1.
        :param estimate: how expected counts become weights; by default 0.1 is added to each.
        """
        if not 0 < noise < torch.inf:
            raise StructureError(f"noise must be positive and finite, or all labels stay alike, actual = {noise!r:.80}")

        def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
            words, sizes = self._parsed(sentences, lengths)
            random = {
                name: table.layout.normalise(
                    noise * torch.rand(table.layout.shape, dtype=torch.float64, generator=generator)
                )
                for name, table in self._tables.items()
            }
            counts = {name: torch.zeros_like(x) for name, x in random.items()}
            for more in _split_counts(self._grammar(random, sizes), words):
                for name, x in more.items():
                    counts[name] += x.reshape(counts[name].shape)
            if estimate is None:
                return {
                    name: table.layout.normalise((counts[name] + START_SMOOTHING).log())
                    for name, table in self._tables.items()
                }
            return {name: estimate.weights(table, counts[name], random[name]) for name, table in self._tables.items()}

        return start

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain = {
            "nonterminals": self.nonterminals,
            "preterminals": self.preterminals,
            "vocab": plain_names(self.vocab),
            "prior": self._priors(),
        }
        return plain, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "nonterminals", "preterminals", "vocab", "prior")
        return cls(plain["nonterminals"], plain["preterminals"], plain["vocab"], plain["prior"])

    def __repr__(self) -> str:
        sizes = f"nonterminals={self.nonterminals}, preterminals={self.preterminals}"
        return f"{type(self).__name__}({sizes}, vocab={self.symbols})"


def _split_counts(grammar: Grammar, words: Tensor) -> Iterator[Mapping[str, Tensor]]:
    """Expected counts under trees that are split at random, of some sentences at a time."""
    sizes = grammar.rows.lengths
    size = (sizes * (sizes + 1) // 2).cumsum(0) * (grammar.sizes["N"] + grammar.sizes["P"]) // NUMBERS_AT_A_TIME
    for part in size.unique().tolist():
        some, mine = grammar.select(words, (size == part).nonzero().squeeze(-1))
        _, first, last = spans_of(some.rows.lengths)
        split = -(last - first - 1).clamp(min=1).double().log()  # a span is split at each of its places alike
        yield some.with_potentials(labels=split.unsqueeze(-1)).posterior(mine).counts


def label_names(nonterminals: int, preterminals: int) -> tuple[str, ...]:
    """What labels are called, by their number in a structure."""
    return (*(f"N{k}" for k in range(nonterminals)), *(f"P{k}" for k in range(preterminals)))


def without_single(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
    """The same without words that are sentences of their own: these have no tree, and 0 words from now on."""
    single = lengths == 1
    if not bool(single.any()):
        return words, lengths
    return words[(~single).repeat_interleave(lengths)], torch.where(single, 0, lengths)
