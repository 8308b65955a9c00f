"""The mixture: bags of words, each from one hidden cluster."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .mixture_posterior import MixturePosterior
from .mixture_sum import check_bags, cluster_scores, log_partition, reference_log_partition, weights_batch
from .parts import Clusters
from .ragged import broadcast, check_lengths, offsets_of
from .structured import Structure, one_set


class Mixture(Structure):
    """Documents as bags of words, the cluster of each summed out (naive Bayes without labels).

    The story, for a document: draw its cluster z from ``cluster``, then every one of its words from the row z of
    ``words``. Weights are logs of anything, and with :math:`n_w` the number of times that word w occurs

    .. math:: \\log p(x) = \\log \\sum_z w(z) \\prod_w w(w \\mid z)^{n_w}.

    The words are taken in their order, so there is no multinomial coefficient: it is the same for every cluster.
    O(K) for each different word of a document. On CPU a compiled kernel does the work.

    A value is a table of cells with two columns, a word and how often it occurs: document by document, in any order
    inside one. A structure is a vector with the cluster of each document. A document without words still has a cluster,
    and its probability is the sum of their weights.

    :param cluster: (*batch, K) log-weights.
    :param words: (*batch, K, V) log-weights.
    :param lengths: (B,) cells of each document.

    Example, three clusters with all weights 1, so that p(x) counts them::

        >>> import torch
        >>> from pyro_unsup.distributions import Mixture
        >>> mixture = Mixture(torch.zeros(3), torch.zeros(3, 2), torch.tensor([2, 1]))
        >>> mixture.log_prob(torch.tensor([[0, 5], [1, 2], [0, 1]])).exp()
        tensor([3., 3.])

    **References:**

    [1] K. Nigam, A. McCallum, S. Thrun and T. Mitchell (2000) "Text classification from labeled and unlabeled documents
    using EM".
    [2] P. Liang and D. Klein (2009) "Online EM for unsupervised models", section 2.
    """

    def __init__(self, cluster: Tensor, words: Tensor, lengths: Tensor, validate_args: bool | None = None) -> None:
        self.cluster, self.words = cluster, words
        self.lengths = check_lengths(torch.as_tensor(lengths))
        self._check()
        batch = broadcast(weights_batch(cluster, words), self.lengths.shape)
        super().__init__(batch, Size([int(self.lengths.sum()), 2]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> None:
        if self.lengths.dim() != 1:
            raise StructureError(f"lengths should have shape (B,), actual shape {tuple(self.lengths.shape)}")
        K = self.cluster.shape[-1] if self.cluster.dim() else 0
        if K == 0 or self.words.dim() < 2 or self.words.shape[-2] != K:
            raise StructureError(
                f"cluster has {K} clusters, so words should end in shape ({K}, types), "
                f"actual shape {tuple(self.words.shape)}"
            )
        batch = weights_batch(self.cluster, self.words)
        if batch and batch[-1] not in (1, len(self.lengths)):
            raise StructureError(
                f"the last batch axis of the weights should be 1, or {len(self.lengths)} (one set a document), actual "
                f"batch of weights {tuple(batch)}"
            )

    @property
    def weights(self) -> dict[str, Tensor]:
        return {"cluster": self.cluster, "words": self.words}

    def with_weights(self, weights: dict[str, Tensor]) -> Mixture:
        new = copy(self)  # in every tempered E step: lengths need no second look
        for name, w in weights.items():
            setattr(new, name, w)
        new._check()
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> Mixture:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=2)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.nonnegative_integer, 2)

    def log_prob(self, value: Tensor) -> Tensor:  # (cells, 2) -> batch_shape
        bags = self._data(value)
        if weights_batch(self.cluster, self.words).numel() == 1:
            total = log_partition(*self._squeezed(), bags, self.lengths)
        else:  # weights differ in the batch
            total = reference_log_partition(self.cluster, self.words, bags, self.lengths)
        return total.expand(broadcast(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (cells, 2), (B,) -> (*batch, B)
        bags, K = self._data(value), self.cluster.shape[-1]
        if structure.shape != self.lengths.shape or structure.is_floating_point():
            raise StructureError(
                f"expected one cluster a document, {len(self.lengths)} integers, "
                f"actual {structure.dtype} of shape {tuple(structure.shape)}"
            )
        if len(structure) and (int(structure.min()) < 0 or int(structure.max()) >= K):
            raise StructureError(
                f"clusters must lie in 0 .. {K - 1}, actual range {int(structure.min())} .. {int(structure.max())}"
            )
        scores = cluster_scores(self.cluster, self.words, bags, self.lengths)
        return scores.gather(-1, structure.long().expand(scores.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def posterior(self, value: Tensor) -> MixturePosterior:
        one_set(weights_batch(self.cluster, self.words))
        bags = self._data(value)
        return MixturePosterior({name: w.detach() for name, w in self.weights.items()}, bags, self.lengths)

    def parts(self, value: Tensor) -> Clusters:
        return Clusters(value, self.lengths, self.cluster.shape[-1])

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Mixture, Tensor]:
        """Every document gets one more word, that no other has; its weight in a cluster is the factor."""
        bags, lengths = self._data(value), self.lengths
        if weights_batch(self.cluster, self.words).numel() != 1:  # the kernel has one prior for all
            cluster = self.cluster if self.cluster.dim() > 1 else self.cluster.unsqueeze(-2)
            return self.with_weights({"cluster": cluster + factors}), bags
        rows = self.words.mT  # (*batch, V, K)
        own = torch.cat([rows, factors.expand(*rows.shape[:-2], -1, -1)], -2)
        documents = torch.arange(len(lengths), dtype=bags.dtype)
        places = torch.arange(len(bags)) + torch.repeat_interleave(documents, lengths, output_size=len(bags)) + 1
        more = bags.new_ones(len(bags) + len(lengths), 2).index_copy_(0, places, bags)
        more[offsets_of(lengths + 1)[:-1], 0] = rows.shape[-2] + documents
        new = copy(self)
        new.words, new.lengths = own.mT, lengths + 1
        new._event_shape = more.shape
        return new, more

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw documents: ``lengths`` words each, every word in a cell of its own."""
        if weights_batch(self.cluster, self.words).numel() != 1:
            raise StructureError("sample() draws from one set of weights at a time: with Predictive, parallel=False")
        cluster, words = (w.detach() for w in self._squeezed())
        lengths = self.lengths.repeat(Size(sample_shape).numel())
        with torch.no_grad():
            # Weights need not sum to one, so long documents are drawn towards clusters whose words weigh more.
            masses = torch.logsumexp(words, -1, keepdim=True)  # (K, 1): a document of n times one "word"
            blanks = torch.stack([torch.zeros_like(lengths), lengths], 1)[lengths > 0]
            owners = MixturePosterior({"cluster": cluster, "words": masses}, blanks, (lengths > 0).long()).sample()
            owners = torch.repeat_interleave(owners, lengths)  # (words drawn,)
            drawn = torch.zeros_like(owners)
            for k in owners.unique():  # one multinomial call a cluster, not one row of the vocabulary a word
                here = (owners == k).nonzero()[:, 0]
                drawn[here] = torch.multinomial(words[k].softmax(-1), len(here), replacement=True)
        return torch.stack([drawn, torch.ones_like(drawn)], 1).reshape(*sample_shape, *self.event_shape)

    def _squeezed(self) -> tuple[Tensor, Tensor]:  # (K,), (K, V)
        return self.cluster.reshape(-1), self.words.reshape(self.words.shape[-2:])

    def _data(self, value: Tensor) -> Tensor:
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected a word and a count for every cell, shape {tuple(self.event_shape)}, "
                f"actual {tuple(value.shape)}"
            )
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"words and counts must be integers, actual dtype {value.dtype}")
        with plain_torch():
            check_bags(self.cluster, self.words, value)
        return value
