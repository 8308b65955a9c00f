"""The headed bracketing: a dependency tree and a binary tree over a sentence in one, each weighed by its own model."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .bracketing import Bracketing
from .dependency import Dependency, check_heads
from .headed_bracketing_posterior import HeadedBracketingPosterior
from .headed_bracketing_sum import ORDERS, HeadedParts, log_partition, reference_log_partition
from .parts import Arcs
from .ragged import broadcast
from .structured import Structure, one_set


class HeadedBracketing(Structure):
    """Sentences of tags under a hidden headed binary tree, the tree summed out: the product of :class:`.Dependency` and
    :class:`.Bracketing` (the dependency model with valence times the constituent-context model).

    Let every head take its children one by one: first those on its right, near ones before far ones, then those on its
    left in the same way. With each child its span grows by that of the child, so that the spans on the way are the
    constituents of a binary tree, and every projective dependency tree with one root goes with exactly one. The weight
    of such a tree is that of its arcs and decisions times that of all spans of the sentence as constituents or
    distituents:

    .. math:: p(x) = \\sum_y p_{\\mathrm{dependency}}(x, y) \\, p_{\\mathrm{bracketing}}(x, b(y)).

    Both models draw the same words, so the product is deficient, and has no :meth:`sample`. The sum goes over spans and
    their heads (:func:`.headed_sum`): O(n^4). On CPU a compiled kernel does the work.

    A value is the tags of all sentences, end to end. A tree is the head of each word: 0 for the root, k for the k-th
    word of its sentence, as in a corpus; its constituents are :func:`brackets_of` it.

    :param root: (*batch, K), as all of the next two for :class:`.Dependency`.
    :param attach: (*batch, K, 2, K).
    :param stop: (*batch, K, 2, 2, 2).
    :param yields: (*batch, 2, Y), as the next one for :class:`.Bracketing`.
    :param contexts: (*batch, 2, X).
    :param spans: (spans, 2) the yield and the context of each span of these sentences, in the order of
        :func:`.spans_of`.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param node: (*batch, W + 1) log-weight of a constituent of w > 1 words, by w; zeros if not given.
    :param arcs: (cells,) one more log-weight for each arc of each sentence, or truth values, as for
        :class:`.Dependency`.
    :param order: the side on which heads take their children first, ``"right"`` or ``"left"``.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import HeadedBracketing
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> dependencies = torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2)
        >>> spans = torch.zeros(35, 2, dtype=torch.long)
        >>> trees = HeadedBracketing(*dependencies, torch.zeros(2, 1), torch.zeros(2, 1), spans, lengths)
        >>> trees.log_prob(torch.zeros(15, dtype=torch.long)).exp().round()
        tensor([  1.,   2.,   7.,  30., 143.])

    **References:**

    [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of dependency and
        constituency", section 5.
    """

    def __init__(
        self,
        root: Tensor,
        attach: Tensor,
        stop: Tensor,
        yields: Tensor,
        contexts: Tensor,
        spans: Tensor,
        lengths: Tensor,
        node: Tensor | None = None,
        arcs: Tensor | None = None,
        order: str = "right",
        validate_args: bool | None = None,
    ) -> None:
        check_order(order)
        self.order = order
        self.dependency = Dependency(root, attach, stop, lengths, arcs)
        self.bracketing = Bracketing(yields, contexts, lengths, node)
        self.lengths = self.dependency.lengths
        self.spans = spans
        self._parts = self._check()
        batch = broadcast(self._parts.batch_shape, self.lengths.shape)
        super().__init__(batch, self.dependency.event_shape, validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> HeadedParts:
        self.bracketing._data(self.spans)
        parts = HeadedParts(self.dependency._parts, self.bracketing._parts)
        parts.check()
        return parts

    @property
    def weights(self) -> dict[str, Tensor]:
        return {**self.dependency.weights, **self.bracketing.weights}

    def with_weights(self, weights: dict[str, Tensor]) -> HeadedBracketing:
        arcs = {name: w for name, w in weights.items() if name in ("root", "attach", "stop", "arcs")}
        spans = {name: w for name, w in weights.items() if name not in arcs}
        return self._of(self.dependency.with_weights(arcs), self.bracketing.with_weights(spans))

    def raised(self, power: float) -> HeadedBracketing:
        raised: Any = self.dependency.raised(power)
        return self._of(raised, self.bracketing.raised(power))

    def _of(self, dependency: Dependency, bracketing: Bracketing) -> HeadedBracketing:
        new = copy(self)
        new.dependency, new.bracketing = dependency, bracketing
        new._parts = new._check()
        return new

    def references(self) -> dict[str, dict[str, Tensor]]:
        """Those of :class:`.Dependency`, by arcs: ``"uniform"`` and ``"harmonic"``."""
        return self.dependency.references()

    def expand(self, batch_shape: Any, _instance: Any = None) -> HeadedBracketing:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        found: constraints.Constraint = self.dependency.support
        return found

    def log_prob(self, value: Tensor) -> Tensor:  # (tokens,) -> batch_shape
        tags = self._data(value)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), tags, self.spans, self.lengths, self.order)
        else:  # weights differ in the batch
            total = reference_log_partition(self._parts, tags, self.spans, self.lengths, self.order)
        return total.expand(broadcast(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (tokens,), (tokens,) -> (*batch, B)
        brackets = brackets_of(structure, self.lengths, self.order)
        return self.dependency.score(value, structure) + self.bracketing.score(self.spans, brackets)

    def posterior(self, value: Tensor) -> HeadedBracketingPosterior:
        one_set(self._parts.batch_shape)
        tags, squeezed = self._data(value), self._parts.squeezed()
        parts = HeadedParts.of(tuple(x.detach() for x in squeezed.tables()), squeezed.bracketing.power)
        names = {name: w.detach() for name, w in self.weights.items()}
        return HeadedBracketingPosterior(names, parts, tags, self.spans, self.lengths, self.order)

    def parts(self, value: Tensor) -> Arcs:
        return self.dependency.parts(value)

    def weighed(self, value: Tensor, factors: Tensor) -> HeadedBracketing:
        return self._of(self.dependency.weighed(value, factors), self.bracketing)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "a headed bracketing cannot draw sentences: its two models draw the same words, and need not agree. Draw "
            "trees for given sentences with posterior(value).sample()"
        )

    def _data(self, value: Tensor) -> Tensor:
        return self.dependency._data(value)


def brackets_of(heads: Tensor, lengths: Tensor, order: str = "right") -> Tensor:  # (tokens,), (B,) -> (spans,)
    """The binary trees that go with dependency trees: for every span, in the order of :func:`.spans_of`, 1 if it is a
    constituent and 0 if not; -1 where a sentence has no tree.

    Each arc makes one constituent. If heads take the children on their right first, a child on the right goes to its
    head without anything on its left, and a child on the left to its head with all that is on its right.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing import constituents
    >>> from pyro_unsup.distributions.headed_bracketing import brackets_of
    >>> lengths, heads = torch.tensor([3]), torch.tensor([2, 0, 2])
    >>> constituents(brackets_of(heads, lengths), lengths).tolist()[3:]  # without single words
    [[0, 1, 3], [0, 0, 3]]
    >>> constituents(brackets_of(heads, lengths, "left"), lengths).tolist()[3:]
    [[0, 0, 2], [0, 0, 3]]
    """
    from ..kernels.headed_bracketing import brackets_of_heads

    check_order(order)
    if bool((heads < 0).any()):
        some = torch.zeros_like(lengths).index_add(0, _owner(lengths), (heads < 0).long()) > 0
        check_heads(heads[~some[_owner(lengths)]], lengths[~some])
    else:
        heads = check_heads(heads, lengths)
    found = brackets_of_heads(heads.cpu().contiguous().numpy(), lengths.cpu().numpy(), order == "left")
    return found.to(lengths.device)


def check_order(order: str) -> None:
    if order not in ORDERS:
        raise StructureError(f"order should be 'right' or 'left', the side of the first children, actual {order!r:.80}")


def _owner(lengths: Tensor) -> Tensor:  # (B,) -> (tokens,)
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
