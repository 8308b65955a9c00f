"""Grammars whose tables come from networks: neural and compound PCFGs, as ordinary Pyro models with their guides."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.distributions import Normal
from torch import Tensor

from .. import distributions
from ..distributions.cells import spans_of
from ..distributions.grammar import Grammar
from ..distributions.ragged import check_lengths, offsets_of
from ..errors import StructureError
from .base import check_settings, plain_names, size_of
from .grammar import label_names, without_single
from .grammar_networks import Encoder, Tables
from .sentences import Sentences, as_flat, as_parsed, vocab_of

#: Sentences that are parsed at a time: each may have tables of its own.
AT_A_TIME = 64

#: Two objects must not share names in Pyro's parameter store: the second one would train nothing.
_numbers = itertools.count()

SETTINGS = ("nonterminals", "preterminals", "vocab", "z_dim", "factored", "dim", "hidden")


class NeuralPCFG(torch.nn.Module):
    """A probabilistic context-free grammar whose tables are the outputs of a network, as an ordinary Pyro model.

        root, rules, emission = softmax of scores, computed from an embedding of each label
        for each sentence:  its words by distributions.PCFG(root, rules, emission), labelled trees summed out

    Labels that are alike get rules that are alike, which smooths and makes training by gradient find better grammars
    than tables do. There is nothing to sample, so :meth:`guide` is empty, and the loss of ``SVI`` is -log p. The
    gradient goes through log Z by the compiled kernel.

    Parameters are those of networks (``pyro.module``), under names of their own in Pyro's parameter store: two objects
    share nothing. Sentences of one word have no tree and are skipped.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param factored: whether a rule is p(left part | label) p(right part | label), as in :class:`.SimplePCFG`: hundreds
        of labels are then no burden.
    :param dim: of embeddings and layers.

        >>> import pyro, pyro_unsup as pu
        >>> from pyro.infer import SVI, Trace_ELBO
        >>> pyro.set_rng_seed(0)
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(40, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.NeuralPCFG.of(corpus, nonterminals=3, preterminals=5, dim=16)
        >>> svi = SVI(model, model.guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
        >>> losses = [svi.step(corpus) for _ in range(10)]
        >>> losses[-1] < losses[0], model.predict(corpus.select([0])).shape
        (True, torch.Size([15]))

    **References:** [1] Y. Kim, C. Dyer and A. M. Rush (2019) "Compound probabilistic context-free grammars for grammar
    induction".
    """

    def __init__(
        self,
        nonterminals: int,
        preterminals: int,
        vocab: int | Sized,
        factored: bool = False,
        dim: int = 256,
    ) -> None:
        super().__init__()
        self._set_up(nonterminals, preterminals, vocab, factored, dim, 0, 0)

    def _set_up(
        self,
        nonterminals: int,
        preterminals: int,
        vocab: int | Sized,
        factored: bool,
        dim: int,
        z_dim: int,
        hidden: int,
    ) -> None:
        self.nonterminals, self.preterminals, self.vocab = nonterminals, preterminals, vocab
        self.factored, self.dim, self.z_dim, self.hidden = factored, dim, z_dim, hidden
        sizes = {"nonterminals": nonterminals, "preterminals": preterminals, "dim": dim}
        for name, size in {**sizes, **({"hidden": hidden} if z_dim else {})}.items():
            if type(size) is not int or size < 1:
                raise StructureError(f"{name} must be a whole number of at least 1, actual = {size!r:.80}")
        self.symbols = size_of(vocab)
        self.network = Tables(nonterminals, preterminals, self.symbols, dim, z_dim, factored)
        self.encoder = Encoder(self.symbols, hidden, z_dim) if z_dim else None
        self._name = f"{type(self).__name__}_{next(_numbers)}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What labels are called, by their number in a structure: nonterminals, then preterminals."""
        return label_names(self.nonterminals, self.preterminals)

    @classmethod
    def of(cls, sentences: Any, nonterminals: int, preterminals: int, **options: Any) -> Self:
        """A model of the words of this corpus.

        :param sentences: a corpus.
        :param nonterminals: how many labels spans of two words or more have.
        :param preterminals: how many labels single words have.
        :param options: the other parameters of the class.
        """
        return cls(nonterminals, preterminals, vocab_of(sentences), **options)

    def forward(self, sentences: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without sentences it draws words of the given lengths; both lie flat."""
        pyro.module(f"{self._name}.network", self.network)
        words: Tensor | None = None
        if sentences is None:
            lengths = check_lengths(lengths)
            lengths = torch.where(lengths == 1, 0, lengths)
        else:
            words, lengths = self._parsed(sentences, lengths)
        with pyro.plate("sentences", len(lengths)), poutine.mask(mask=lengths > 0):
            z = pyro.sample("z", self._prior()) if self.z_dim else None
            drawn: Tensor = pyro.sample("words", self.grammar(lengths, z), obs=words)
        return drawn

    def guide(self, sentences: Any = None, lengths: Any = None) -> None:
        """What is hidden besides trees: nothing; or z, normal about a mean that a network computes from the words."""
        if self.encoder is None:
            return
        pyro.module(f"{self._name}.encoder", self.encoder)
        words, lengths = self._parsed(sentences, lengths)
        mean, scale = self.encoder(words, lengths)
        with pyro.plate("sentences", len(lengths)), poutine.mask(mask=lengths > 0):
            pyro.sample("z", Normal(mean, scale).to_event(1))

    def grammar(self, lengths: Tensor, z: Tensor | None = None) -> Grammar:
        """The structured distribution of sentences of these lengths.

        :param lengths: (B,).
        :param z: (*draws, B, z_dim), if the tables depend on it: then each sentence has its own.
        """
        kind = distributions.SimplePCFG if self.factored else distributions.PCFG
        return kind(**self.network(z), lengths=lengths)

    def predict(self, sentences: Any, lengths: Any = None, how: str = "mbr") -> Tensor:  # (spans,)
        """The tree of each sentence: the label of each span in it, -1 for other spans, in the order of
        :func:`.spans_of`. z, if there is one, is at the mean of the guide. Sentences of one word have no spans in it.

        :param sentences: as the model takes them.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor.
        :param how: ``"mbr"``, the tree with the most expected right labelled brackets; or ``"viterbi"``, the most
            probable labelled tree.
        """
        if how not in ("mbr", "viterbi"):
            raise StructureError(f"how must be 'mbr' or 'viterbi', actual = {how!r:.80}")
        each = self._by_part(sentences, lengths, lambda post: post.mbr() if how == "mbr" else post.mode())
        return torch.cat([torch.zeros(0, dtype=torch.long), *each])

    def brackets(self, sentences: Any, lengths: Any = None, how: str = "mbr") -> np.ndarray[Any, Any]:
        """The constituents of :meth:`predict` as rows of sentence, start and end, as :mod:`pyro_unsup.evaluate` takes
        them: single words and whole sentences included."""
        found = self.predict(sentences, lengths, how)
        cells = torch.stack(spans_of(self._parsed(sentences, lengths)[1]), 1)
        rows: np.ndarray[Any, Any] = cells[found >= 0].numpy()
        return rows

    def log_likelihood(self, sentences: Any, lengths: Any = None) -> Tensor:  # (B,)
        """log p of each sentence, with z at the mean of the guide; 0 for sentences of one word."""
        return torch.cat(list(self._by_part(sentences, lengths, lambda post: post.log_partition)))

    def _by_part(self, sentences: Any, lengths: Any, found: Callable[[Any], Tensor]) -> Iterator[Tensor]:
        """What is found of the posterior over trees, some sentences at a time."""
        text = Sentences(*_flat(*self._parsed(sentences, lengths)))
        with torch.no_grad():
            for some in torch.arange(len(text)).split(AT_A_TIME):
                part = text.select(some)
                sizes = part.offsets.diff()
                z = None if self.encoder is None else self.encoder(part.words, sizes)[0]
                yield found(self.grammar(sizes, z).posterior(part.words))

    def _prior(self) -> Any:
        like = next(self.network.parameters())
        return Normal(like.new_zeros(self.z_dim), like.new_ones(self.z_dim)).to_event(1)

    def _parsed(self, sentences: Any, lengths: Any) -> tuple[Tensor, Tensor]:  # (tokens,), (B,)
        words, lengths = without_single(*as_parsed(sentences, lengths, self.vocab))
        return words.long(), lengths

    def index(self, sentences: Any, lengths: Any = None) -> Any:
        """Sentences that mini-batches can be selected from: a corpus is itself, others lie flat."""
        if hasattr(sentences, "select") and lengths is None:
            return sentences
        return Sentences(*_flat(*as_flat(sentences, lengths, self.vocab)))

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and the tensors of its networks."""
        plain = {name: getattr(self, name) for name in SETTINGS}
        return {**plain, "vocab": plain_names(self.vocab)}, dict(self.state_dict())

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build a model from its :meth:`settings`. Its vocabulary is a plain tuple of names."""
        check_settings(plain, *SETTINGS)
        vocab = tuple(plain["vocab"]["types"]) if isinstance(plain["vocab"], Mapping) else plain["vocab"]
        new = cls.__new__(cls)
        torch.nn.Module.__init__(new)
        sizes = {name: plain[name] for name in ("factored", "dim", "z_dim", "hidden")}
        new._set_up(plain["nonterminals"], plain["preterminals"], vocab, **sizes)
        new.to(next(iter(tensors.values())).dtype).load_state_dict(dict(tensors))
        return new

    def save(self, file: str | Path) -> None:
        """Write the model to one file: settings, and the tensors of its networks. There is no code in it.

        :param file: its path.
        """
        plain, tensors = self.settings()
        torch.save({"settings": plain, "tensors": tensors}, file)

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """The way back from :meth:`save`. Files from strangers run nothing: only plain values and tensors are read.

        :param file: its path.
        """
        found = torch.load(file, weights_only=True)
        if not isinstance(found, dict) or found.keys() != {"settings", "tensors"}:
            raise StructureError(f"expected a file that {cls.__name__}.save wrote, actual {str(file)!r:.200}")
        return cls.from_settings(found["settings"], found["tensors"])

    def extra_repr(self) -> str:
        return f"nonterminals={self.nonterminals}, preterminals={self.preterminals}, vocab={self.symbols}"


class CompoundPCFG(NeuralPCFG):
    """A neural PCFG with rules that vary from sentence to sentence: they depend on a hidden vector z.

        for each sentence:  z ~ Normal(0, I);  root, rules, emission = softmax of scores, computed from an embedding of
                            each label and from z;  its words by distributions.PCFG(root, rules, emission)

    :meth:`guide` is an LSTM over the words, which gives mean and scale of z. Trees are summed out exactly, so that one
    draw of z a sentence makes a low-variance gradient: train with ``SVI`` and any ELBO of Pyro's. z is at the guide's
    mean where trees are predicted.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param z_dim: size of z; with 0 it is a :class:`NeuralPCFG`.
    :param factored: whether a rule is p(left part | label) p(right part | label), as in :class:`.SimplePCFG`.
    :param dim: of embeddings and layers.
    :param hidden: of the LSTM, in each direction.

        >>> import pyro, pyro_unsup as pu
        >>> from pyro.infer import SVI, Trace_ELBO
        >>> pyro.set_rng_seed(0)
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(40, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.CompoundPCFG.of(corpus, nonterminals=3, preterminals=5, z_dim=4, dim=16, hidden=8)
        >>> svi = SVI(model, model.guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
        >>> losses = [svi.step(corpus.select(range(k, k + 8))) for k in (0, 8, 16) * 4]  # mini-batches of 8
        >>> sum(losses[-3:]) < sum(losses[:3]), model.brackets(corpus.select([0])).shape
        (True, (9, 3))

    **References:** [1] Y. Kim, C. Dyer and A. M. Rush (2019) "Compound probabilistic context-free grammars for grammar
    induction".
    """

    def __init__(
        self,
        nonterminals: int,
        preterminals: int,
        vocab: int | Sized,
        z_dim: int = 64,
        factored: bool = False,
        dim: int = 256,
        hidden: int = 128,
    ) -> None:
        torch.nn.Module.__init__(self)
        if type(z_dim) is not int or z_dim < 0:
            raise StructureError(f"z_dim must be a whole number, 0 for none, actual = {z_dim!r:.80}")
        self._set_up(nonterminals, preterminals, vocab, factored, dim, z_dim, hidden)


def _flat(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:  # (tokens,), (B,) -> (tokens,), (B + 1,)
    return words, offsets_of(lengths)
