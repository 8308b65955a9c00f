"""The clusterer: naive Bayes without labels, a mixture of multinomials over the words of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any

import pyro
import torch
from torch import Tensor

from ..distributions import Mixture
from ..distributions.ragged import check_lengths
from ..errors import StructureError
from ..tables import declare, dense_tables
from .base import Examples, Model, check_settings, plain_names, size_of
from .sentences import as_flat, check_vocab

if TYPE_CHECKING:
    from .gibbs_clusters import ClusterState


class Bags(Examples):
    """Documents as the model sees them.

    :param cells: (cells, 2) a word and how often it occurs, document by document.
    :param lengths: (B,) cells of each document.
    """


class Clusterer(Model):
    """A mixture of multinomials over bags of words, as an ordinary Pyro model.

        cluster ~ Dirichlet,  words[z] ~ Dirichlet
        for each document:  a cluster by ``cluster``, every word by the row ``words`` of that cluster; clusters summed
                            out

    Tables: ``cluster`` (K,), ``words`` (K, V). A cluster that loses all its documents keeps its words, and has
    weight zero. Axes: ``cluster``, ``word``.

    :param clusters: how many.
    :param vocab: how many words, or the vocabulary itself.
    :param prior: Dirichlet concentration, one for both tables or by name.

    Documents may come with the counts of their words (anything with flat ``words``, ``counts`` and ``offsets``) or as
    sentences do (:func:`.as_flat`)::

        >>> import pyro_unsup as pu
        >>> documents = [[0, 1, 0, 0], [0, 0, 1], [2, 3, 3], [3, 2, 2, 3, 1]]
        >>> fit = pu.EM(pu.models.Clusterer(clusters=2, vocab=4)).run(documents, iterations=20)
        >>> first, second, third, fourth = fit.posterior(documents).mode().tolist()
        >>> first == second, second != third, third == fourth
        (True, True, True)

    **References:** [1] P. Liang and D. Klein (2009) "Online EM for unsupervised models", section 2.
    """

    task = "clusterer"
    interchangeable = True

    def __init__(self, clusters: int, vocab: int | Sized, prior: float | Mapping[str, float] = 1.0) -> None:
        if type(clusters) is not int or clusters < 1:
            raise StructureError(f"clusters must be a whole number, 1 or more, actual = {clusters!r:.80}")
        self.clusters, self.vocab = clusters, vocab
        self.states = clusters
        self.words = size_of(vocab)
        axes: dict[str, dict[str, int | Sized]]
        axes = {"cluster": {"cluster": clusters}, "words": {"cluster": clusters, "word": vocab}}
        self._tables = dense_tables("this clusterer", axes, prior, keep=["words"])

    def __call__(self, documents: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without documents it draws words, as many as ``lengths`` says for each document."""
        words, cells = self._tables["words"], None
        if documents is None:
            sizes = check_lengths(lengths)
        else:
            bags = self.index(documents, lengths)
            cells, sizes = bags.cells, bags.lengths
            if len(cells) < self.words:  # a mini-batch touches only some columns
                touched, which = torch.unique(cells[:, 0], return_inverse=True)
                words = words.touching(touched.long())
                cells = torch.stack([which.to(cells.dtype), cells[:, 1]], 1)
        mixture = Mixture(declare(self._tables["cluster"]), declare(words), sizes)
        with pyro.plate("documents", len(sizes)):
            drawn: Tensor = pyro.sample("bags", mixture, obs=cells)
        return drawn

    def index(self, documents: Any, lengths: Any = None) -> Bags:
        """Documents as the model sees them. What a collection looks like is remembered until another one comes."""
        if isinstance(documents, Bags):
            return documents
        known: Bags | None = self._recall(documents)
        if known is not None:
            return known
        check_vocab(documents, self.vocab, examples="documents")
        words, sizes = as_flat(documents, lengths, self.vocab)
        if len(words) == 0:
            raise StructureError("no words: expected at least one document with a word in it")
        if int(words.min()) < 0 or int(words.max()) >= self.words:
            raise StructureError(
                f"word numbers must lie in 0 .. {self.words - 1}, actual range {int(words.min())} .. {int(words.max())}"
            )
        if hasattr(documents, "counts"):
            bags = Bags(torch.stack([words, torch.as_tensor(documents.counts)], 1), sizes)
        else:
            bags = _counted(words, sizes, self.words)
        self._remember(documents, bags)
        return bags

    def with_states(self, states: int) -> Clusterer:
        """The same model with another number of clusters.

        :param states: how many.
        """
        return Clusterer(states, self.vocab, self._priors())

    def gibbs_state(self) -> type[ClusterState]:
        """What :class:`.CollapsedGibbs` moves: labels of data under this model, its tables integrated out."""
        from .gibbs_clusters import ClusterState

        return ClusterState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors (here none)."""
        return {"clusters": self.clusters, "vocab": plain_names(self.vocab), "prior": self._priors()}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Clusterer:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "clusters", "vocab", "prior")
        return cls(**plain)

    def __repr__(self) -> str:
        return f"Clusterer(clusters={self.clusters}, vocab={self.words})"


def _counted(words: Tensor, lengths: Tensor, types: int) -> Bags:  # (tokens,), (B,)
    """Words that lie end to end, counted document by document."""
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    cells, times = torch.unique(owner * types + words, return_counts=True)
    found = torch.stack([cells % types, times], 1).int()
    return Bags(found, torch.bincount(cells // types, minlength=len(lengths)))
