"""Dependencies: sentences of tags under a hidden dependency tree, in which every word but one has a head."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .dependency_posterior import DependencyPosterior
from .dependency_priors import harmonic_arcs, uniform_arcs
from .dependency_sum import (
    ADJACENT,
    BEYOND,
    CONTINUE,
    STOP,
    DependencyParts,
    arc_lengths,
    cells,
    check_tags,
    log_partition,
    reference_log_partition,
)
from .parts import Arcs
from .ragged import broadcast, check_lengths, offsets_of
from .structured import Structure, one_set
from .weighed import as_factors


class Dependency(Structure):
    """Sentences of tags under a hidden dependency tree, the tree summed out (the dependency model with valence).

    The story: the root draws one tag r from ``root``. Each head h, to the left and, apart from that, to the right: it
    decides by ``stop`` whether to stop or to continue, given the direction, and whether no child is there yet
    (adjacent) or some are (beyond). To continue is to draw a child from ``attach`` given head and direction, which goes
    through the same story, outside all that came before it. Weights are logs of anything: the weight of a tree is their
    product, and p(x) the sum over all projective trees with one root. Each of n words is attached once (the root
    included), stops twice, and all together continue n - 1 times.

    Heads are split into their left and right halves, so the sum takes O(n^3) (:func:`.dependency_sum`). On CPU a
    compiled kernel does the work.

    A value is the tags of all sentences, end to end. A tree is the head of each word: 0 for the root, k for the k-th
    word of its sentence, as in a corpus.

    :param root: (*batch, K).
    :param attach: (*batch, K, 2, K) axes (head, direction, child); directions are left, right.
    :param stop: (*batch, K, 2, 2, 2) axes (head, direction, adjacency, decision); adjacencies are adjacent, beyond;
        decisions are stop, continue.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param arcs: (cells,) one more log-weight for each arc of each sentence, or truth values: which arcs are allowed.
        The order is that of :func:`.arcs_of`, and of the posterior's marginals: sentence by sentence a matrix
        (n, n + 1), by child and head, the root being the first head.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import Dependency
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> trees = Dependency(torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2), lengths)
        >>> trees.log_prob(torch.zeros(15, dtype=torch.long)).exp().round()
        tensor([  1.,   2.,   7.,  30., 143.])

    **References:**

    [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of dependency and
        constituency".
    [2] J. Eisner and G. Satta (1999) "Efficient parsing for bilexical context-free grammars and head automaton
        grammars" (split heads).
    """

    def __init__(
        self,
        root: Tensor,
        attach: Tensor,
        stop: Tensor,
        lengths: Tensor,
        arcs: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.root, self.attach, self.stop = root, attach, stop
        self.arcs = _as_weights(arcs, root)
        self.lengths = check_lengths(torch.as_tensor(lengths))
        self._parts = self._check()
        batch = broadcast(self._parts.batch_shape, self.lengths.shape)
        super().__init__(batch, Size([int(self.lengths.sum())]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> DependencyParts:
        if self.lengths.dim() != 1:
            raise StructureError(f"lengths should have shape (B,), actual shape {tuple(self.lengths.shape)}")
        if self.root.dim() < 1:
            raise StructureError("root should have shape (tags,), actual shape ()")
        K = self.root.shape[-1]
        for name, table, shape in (
            ("attach", self.attach, (K, 2, K)),
            ("stop", self.stop, (K, 2, 2, 2)),
        ):
            if table.shape[-len(shape) :] != shape:
                raise StructureError(
                    f"root has {K} tags, so {name} should end in shape {shape}, actual shape {tuple(table.shape)}"
                )
        size = int(arc_lengths(self.lengths).sum())
        if self.arcs is not None and self.arcs.shape != (size,):
            raise StructureError(
                f"these sentences have {size} cells for arcs, n (n + 1) for n words, so arcs should have shape "
                f"({size},), actual shape {tuple(self.arcs.shape)}"
            )
        parts = DependencyParts(
            self.root, self.attach, self.stop, self.root.new_zeros(0) if self.arcs is None else self.arcs
        )
        if parts.batch_shape and parts.batch_shape[-1] not in (1, len(self.lengths)):
            raise StructureError(
                f"the last batch axis of the weights should be 1, or {len(self.lengths)} (one set a sentence), actual "
                f"batch of weights {tuple(parts.batch_shape)}"
            )
        return parts

    @property
    def weights(self) -> dict[str, Tensor]:
        found = {"root": self.root, "attach": self.attach, "stop": self.stop}
        return found if self.arcs is None else {**found, "arcs": self.arcs}

    def with_weights(self, weights: dict[str, Tensor]) -> Dependency:
        new = copy(self)
        for name, w in weights.items():
            setattr(new, name, _as_weights(w, self.root) if name == "arcs" else w)
        new._parts = new._check()
        return new

    def references(self) -> dict[str, dict[str, Tensor]]:
        """``"uniform"``: all trees alike; ``"harmonic"``: as the product of 1 / (length + 1) over their arcs."""
        known = {"uniform": uniform_arcs(self.lengths), "harmonic": harmonic_arcs(self.lengths, 1.0)}
        return {name: {"arcs": arcs.to(self.root)} for name, arcs in known.items()}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Dependency:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.integer_interval(0, self.root.shape[-1] - 1), 1)

    def log_prob(self, value: Tensor) -> Tensor:  # (tokens,) -> batch_shape
        tags = self._data(value)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), tags, self.lengths)
        else:  # weights differ in the batch
            total = reference_log_partition(self._parts, tags, self.lengths)
        return total.expand(broadcast(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (tokens,), (tokens,) -> (*batch, B)
        tags = self._data(value).long()
        heads = check_heads(structure, self.lengths)
        p, B, tokens = self._parts, len(self.lengths), len(tags)
        start = offsets_of(self.lengths)
        owner = torch.repeat_interleave(torch.arange(B, device=tags.device), self.lengths)
        child = torch.arange(tokens, device=tags.device) - start[owner] + 1
        each = p.arc_scores(tags, self.lengths, owner, heads, child)  # (*lead, tokens)
        if p.arcs.numel():
            cell = offsets_of(arc_lengths(self.lengths))[owner] + (child - 1) * (self.lengths[owner] + 1) + heads
            each = each + p.arcs[cell]
        # One child on each side of a head comes first, and the others after it; which one makes no difference.
        below = heads > 0
        where, side = owner[below], (heads < child).long()[below]
        place = (start[owner] + heads - 1)[below] * 2 + side
        order = torch.arange(len(place), device=tags.device)
        first = torch.full((2 * tokens,), tokens, device=tags.device).scatter_reduce(0, place, order, "amin")
        adjacency = torch.where(first[place] == order, ADJACENT, BEYOND)
        go = cells(p.stop, 4, where, tags[place // 2], side, adjacency, torch.full_like(side, CONTINUE))
        both = torch.arange(2, device=tags.device).repeat(tokens)
        some = torch.where(first < tokens, BEYOND, ADJACENT)
        twice = owner.repeat_interleave(2)
        end = cells(p.stop, 4, twice, tags.repeat_interleave(2), both, some, torch.full_like(both, STOP))
        total = each.new_zeros(*each.shape[:-1], B).index_add(-1, owner, each)
        for index, more in ((where, go), (twice, end)):
            total = total + more.new_zeros(*more.shape[:-1], B).index_add(-1, index, more)
        return total

    def posterior(self, value: Tensor) -> DependencyPosterior:
        one_set(self._parts.batch_shape)
        tags = self._data(value)
        root, attach, stop, arcs = (x.detach() for x in self._parts.squeezed().tables())
        names = {name: w.detach() for name, w in self.weights.items()}
        return DependencyPosterior(names, DependencyParts(root, attach, stop, arcs), tags, self.lengths)

    def parts(self, value: Tensor) -> Arcs:
        return Arcs(value, self.lengths)

    def weighed(self, value: Tensor, factors: Tensor) -> Dependency:
        arcs = as_factors(factors, self, self.parts(value))
        return self.with_weights({"arcs": arcs if self.arcs is None else self.arcs + arcs})

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw tags of the given lengths, from the weights restricted to those lengths."""
        if self._parts.batch_shape.numel() != 1:
            raise StructureError("sample() draws from one set of weights at a time: with Predictive, parallel=False")
        if self.arcs is not None:
            raise StructureError(
                "dependencies with weights for the arcs of given sentences cannot draw new ones: leave arcs out"
            )
        from ..kernels.dependency_draw import draw_sentences

        lengths = self.lengths.repeat(Size(sample_shape).numel())
        uniforms = torch.rand(int(lengths.sum()), 2, dtype=torch.float64)
        drawn = draw_sentences(self._parts.squeezed().kernel_weights(), lengths.numpy(), uniforms.numpy())
        return drawn.reshape(*sample_shape, -1)

    def _data(self, value: Tensor) -> Tensor:
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected the tags of all sentences end to end, shape {tuple(self.event_shape)}, "
                f"actual {tuple(value.shape)}"
            )
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"tags must be integers, actual dtype = {value.dtype}")
        check_tags(self._parts, value)
        return value


def check_heads(structure: Tensor, lengths: Tensor) -> Tensor:  # (tokens,), (B,) -> (tokens,) long
    """The structure itself, if it is one projective tree with one root for each sentence."""
    from ..kernels.dependency import first_bad_tree

    tokens = int(lengths.sum())
    if structure.shape != (tokens,) or structure.is_floating_point():
        raise StructureError(
            f"a tree has one head, an integer, for each of the {tokens} words, actual shape {tuple(structure.shape)} "
            f"of {structure.dtype}"
        )
    heads = structure.long()
    bad = first_bad_tree(heads.cpu().contiguous().numpy(), lengths.cpu().numpy())
    if bad >= 0:
        start = offsets_of(lengths)
        found = heads[int(start[bad]) : int(start[bad + 1])].tolist()
        raise StructureError(
            f"sentence {bad} has no projective tree with one root: expected one head 0, and 1 .. {len(found)} without "
            f"cycles or crossing arcs for all others, actual {found!s:.200}"
        )
    return heads


def _as_weights(arcs: Tensor | None, like: Tensor) -> Tensor | None:
    """Truth values as log-weights."""
    if arcs is None or arcs.dtype != torch.bool:
        return arcs
    return torch.zeros(arcs.shape, dtype=like.dtype, device=like.device).masked_fill(~arcs, -torch.inf)
