"""The mixture: bags of words, each from one hidden cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor

from .. import kernels
from ..errors import StructureError
from ..kernels.running import Place
from .dependency import check_sentences
from .parts import Clusters
from .semiring import Sum
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure


class Mixture(Structure):
    """Documents as bags of words, the cluster of each summed out (naive Bayes without labels).

    The story, for a document: draw its cluster z from ``cluster``, then every one of its words from the row z of
    ``words``. Weights are logs of anything, and with :math:`n_w` the number of times that word w occurs

    .. math:: \\log p(x) = \\log \\sum_z w(z) \\prod_w w(w \\mid z)^{n_w}.

    The words are taken in their order, so there is no multinomial coefficient: it is the same for every cluster.
    O(K) for each different word of a document. On CPU a compiled kernel does the work.

    A value is a table of cells with two columns, a word and how often it occurs: document by document, in any order
    inside one. A structure is a vector with the cluster of each document. Its parts are clusters, (B, K). A document
    without words still has a cluster, and its probability is the sum of their weights.

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

    axes = {"cluster": "K", "words": "K V"}  # noqa: RUF012
    part = "clusters"
    kernel = "pyro_unsup.kernels.mixture"
    wide_definition = True
    what = "words and counts"

    def __init__(self, cluster: Tensor, words: Tensor, lengths: Tensor, validate_args: bool | None = None) -> None:
        lengths = check_sentences(lengths)
        weights = {"cluster": cluster, "words": words}
        super().__init__(weights, lengths, Size([int(lengths.sum()), 2]), validate_args=validate_args)

    def owner(self, group: str) -> Tensor:
        return self.rows.owner if group == "value" else torch.arange(len(self.rows))

    @property
    def skipped(self) -> Tensor:
        return torch.zeros(len(self.rows), dtype=torch.bool)

    def potentials(self, value: Tensor) -> Potentials:
        """log p(document, cluster): the weight of the cluster, and of each word as often as it occurs."""
        owner = self.rows.owner.to(value.device)
        words = self.table("words").mT  # (*draws, 1 or B, V, K)
        each = self.look_up(words, owner, value[:, 0].long()) * value[:, 1:].to(words.dtype)  # (*draws, cells, K)
        lead = each.dim() - 2
        total = each.new_zeros(*each.shape[:lead], len(self.rows), each.shape[-1]).index_add(lead, owner, each)
        return {"clusters": total + self.table("cluster")}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """One choice a document::

        total = sum_k  cluster[k]
        """
        return sum_(potentials["clusters"], -1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, B, K) -> (*draws, B)
        return parts.argmax(-1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, B) -> (*draws, B, K)
        return structure.unsqueeze(-1) == torch.arange(self.sizes["K"], device=structure.device)

    def best_parts(self, gain: Tensor) -> Tensor:
        return gain.argmax(-1)

    def check_value(self, value: Tensor) -> None:
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"words and counts must be integers, actual dtype {value.dtype}")
        V = self.sizes["V"]
        if not value.numel() or _within(value, V):
            return
        least, most = int(value[:, 0].min()), int(value[:, 0].max())
        if least < 0 or most >= V:
            raise StructureError(
                f"words must lie in 0 .. {V - 1} (the table has {V} columns), actual range {least} .. {most}"
            )
        if int(value[:, 1].min()) < 1:
            raise StructureError(f"a word in a bag occurs at least once, actual smallest = {int(value[:, 1].min())}")

    def check_structure(self, structure: Tensor) -> None:
        K = self.sizes["K"]
        if structure.shape != self.rows.lengths.shape or structure.is_floating_point():
            raise StructureError(
                f"expected one cluster a document, {len(self.rows)} integers, "
                f"actual {structure.dtype} of shape {tuple(structure.shape)}"
            )
        if len(structure) and (int(structure.min()) < 0 or int(structure.max()) >= K):
            raise StructureError(
                f"clusters must lie in 0 .. {K - 1}, actual range {int(structure.min())} .. {int(structure.max())}"
            )

    def parts(self, value: Tensor) -> Clusters:
        return Clusters(value, self.rows.lengths, self.sizes["K"])

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        if places.keys() != self.weights.keys() or is_large(len(value), len(self.rows), batch_size):
            return None
        columns = places["words"].columns
        if columns is None or not places["cluster"].whole:
            return None
        data = (columns[value[:, 0].numpy()], value[:, 1].long().numpy(), self.rows.offsets.numpy())
        return CompiledStretch("mixture_stepwise", ("cluster", "words"), data)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw documents: ``lengths`` words each, every word in a cell of its own."""
        if self.draws or not self.one_set:
            return self.draw_by_draw(lambda one: one.sample(sample_shape), len(Size(sample_shape)))
        cluster, words = self.table("cluster").detach()[0], self.table("words").detach()[0]
        lengths = self.rows.lengths.repeat(Size(sample_shape).numel())
        with torch.no_grad():
            # Weights need not sum to one, so long documents are drawn towards clusters whose words weigh more.
            masses = torch.logsumexp(words, -1, keepdim=True)  # (K, 1): a document of n times one "word"
            blanks = torch.stack([torch.zeros_like(lengths), lengths], 1)[lengths > 0]
            owners = Mixture(cluster, masses, (lengths > 0).long()).posterior(blanks.to(words.device)).sample()
            owners = torch.repeat_interleave(owners, lengths.to(owners.device))  # (words drawn,)
            drawn = torch.zeros_like(owners)
            for k in owners.unique():  # one multinomial call a cluster, not one row of the vocabulary a word
                here = (owners == k).nonzero()[:, 0]
                drawn[here] = torch.multinomial(words[k].softmax(-1), len(here), replacement=True)
        return torch.stack([drawn, torch.ones_like(drawn)], 1).reshape(*sample_shape, *self.event_shape)


def _within(bags: Tensor, types: int) -> bool:  # (cells, 2)
    """Whether every cell has a word below this number, at least once: by a kernel, where there is one."""
    if bags.device.type != "cpu" or not kernels.enabled():
        return False
    from ..kernels.mixture import bags_within  # numba loads when it is first needed

    return bool(bags_within(bags.contiguous().numpy(), types))
