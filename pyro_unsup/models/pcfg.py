"""The probabilistic context-free grammar: labelled binary trees over words or tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Protocol

import pyro
import torch
from torch import Tensor

from .. import distributions
from ..distributions.cells import spans_of
from ..distributions.ragged import check_lengths, offsets_of
from ..errors import StructureError
from ..tables import Declaration, declare, dense_tables
from ..tables.derived import derived
from .base import Model, check_settings, plain_names, size_of
from .sentences import Sentences, as_flat, as_parsed, vocab_of

#: What a start adds to its expected counts, if it is not told otherwise.
START_SMOOTHING = 0.1

if TYPE_CHECKING:
    from .gibbs_labels import LabelState

Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]


class Estimate(Protocol):
    """Makes weights of counts; every estimator of :mod:`pyro_unsup.estimate` does."""

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor: ...


class PCFG(Model):
    """A probabilistic context-free grammar in Chomsky normal form, as an ordinary Pyro model.

        root ~ Dirichlet,  rules[nonterminal] ~ Dirichlet,  emission[preterminal] ~ Dirichlet
        for each sentence:  a nonterminal by root; every nonterminal draws a pair of labels by rules, for its left
                            part and its right part; every preterminal draws a word by emission; labelled trees
                            summed out

    Tables: ``root`` (N,) with the axis ``nonterminal``, ``rules`` (N, (N + P)^2) with the axes ``nonterminal`` and
    ``parts``, and ``emission`` (P, V) with the axes ``preterminal`` and ``word``. Labels are called N0, N1, ... and P0,
    P1, ...; the pair of N0 and P1 is ``("N0", "P1")``. By number, preterminals follow the nonterminals.

    The root has two parts, so that a sentence of one word has no tree. Such sentences are skipped, as empty ones are:
    they have probability 1 and no counts, and no part in structures.

    A start with all labels alike would stay so for ever. :meth:`split_start` and ``pu.init.noise`` tell them apart.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param prior: Dirichlet concentration, one for all tables or by name.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(200, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.PCFG(nonterminals=3, preterminals=5, vocab=corpus.vocab)
        >>> em = pu.EM(model, pu.AddLambda(0.1), init=model.split_start(corpus))
        >>> fit = em.run(corpus, iterations=20, seed=1, progress=False)
        >>> tree = fit.predict(corpus.select([0]))  # a label for each span in the tree, -1 for all other spans
        >>> corpus.sentence(0), tree.shape, int((tree >= 0).sum())
        (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], torch.Size([15]), 9)

    **References:** [1] K. Lari and S. J. Young (1990) "The estimation of stochastic context-free grammars using the
    inside-outside algorithm".
    """

    task = "pcfg"
    interchangeable = True

    def __init__(
        self, nonterminals: int, preterminals: int, vocab: int | Sized, prior: float | Mapping[str, float] = 1.0
    ) -> None:
        for name, size in (("nonterminals", nonterminals), ("preterminals", preterminals)):
            if type(size) is not int or size < 1:
                raise StructureError(f"{name} must be a whole number of at least 1, actual = {size!r:.80}")
        self.nonterminals, self.preterminals, self.vocab = nonterminals, preterminals, vocab
        self.symbols = size_of(vocab)
        wide, narrow = [f"N{k}" for k in range(nonterminals)], [f"P{k}" for k in range(preterminals)]
        pairs = [(left, right) for left in (*wide, *narrow) for right in (*wide, *narrow)]
        axes: dict[str, dict[str, int | Sized]] = {
            "root": {"nonterminal": wide},
            "rules": {"nonterminal": wide, "parts": pairs},
            "emission": {"preterminal": narrow, "word": vocab},
        }
        # Nothing makes a grammar use all of its labels.
        self._tables = dense_tables("a PCFG", axes, prior, keep=["rules", "emission"])

    @property
    def labels(self) -> tuple[str, ...]:
        """What labels are called, by their number in a structure: nonterminals, then preterminals."""
        return (*(f"N{k}" for k in range(self.nonterminals)), *(f"P{k}" for k in range(self.preterminals)))

    @classmethod
    def of(cls, sentences: Any, nonterminals: int, preterminals: int, prior: float | Mapping[str, float] = 1.0) -> PCFG:
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
        root, rules, emission = (declare(table) for table in self._tables.values())
        labels = self.nonterminals + self.preterminals
        grammar = distributions.PCFG(root, derived(_by_part, rules, labels), emission, lengths)
        with pyro.plate("sentences", len(lengths)):
            drawn: Tensor = pyro.sample("words", grammar, obs=words)
        return drawn

    def _parsed(self, sentences: Any, lengths: Any) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
        """Words that trees are built over, and how many each sentence has: none, where there is only one."""
        words, lengths = as_parsed(sentences, lengths, self.vocab)
        single = lengths == 1
        if bool(single.any()):
            words, lengths = words[(~single).repeat_interleave(lengths)], torch.where(single, 0, lengths)
        return words, lengths

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
            labels = self.nonterminals + self.preterminals
            grammar = distributions.PCFG(random["root"], _by_part(random["rules"], labels), random["emission"], sizes)
            _, first, last = spans_of(sizes)
            split = -(last - first - 1).clamp(min=1).double().log()  # a span is split at each of its places alike
            counts = grammar.with_potentials(labels=split.unsqueeze(-1)).posterior(words).counts
            counts["rules"] = counts["rules"].flatten(-2)
            if estimate is None:
                return {
                    name: table.layout.normalise((counts[name] + START_SMOOTHING).log())
                    for name, table in self._tables.items()
                }
            return {name: estimate.weights(table, counts[name], random[name]) for name, table in self._tables.items()}

        return start

    def gibbs_state(self) -> type[LabelState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_labels import LabelState

        return LabelState

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
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PCFG:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "nonterminals", "preterminals", "vocab", "prior")
        return cls(plain["nonterminals"], plain["preterminals"], plain["vocab"], plain["prior"])

    def __repr__(self) -> str:
        return f"PCFG(nonterminals={self.nonterminals}, preterminals={self.preterminals}, vocab={self.symbols})"


def _by_part(rules: Tensor, labels: int) -> Tensor:  # (*batch, N, M M) -> (*batch, N, M, M)
    found: Tensor = rules.unflatten(-1, (labels, labels))
    return found
