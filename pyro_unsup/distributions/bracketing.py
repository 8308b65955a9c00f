"""The bracketing: binary trees over sentences, every span weighed as a constituent or as none."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .bracketing_posterior import BracketingPosterior
from .bracketing_priors import split_node
from .bracketing_sum import (
    BracketingParts,
    SpanScores,
    check_spans,
    crossing,
    log_partition,
    reference_log_partition,
    span_lengths,
    spans_of,
)
from .parts import Brackets
from .ragged import broadcast, check_lengths
from .structured import Structure, one_set
from .weighed import as_mask


class Bracketing(Structure):
    """Sentences under a hidden binary tree, the tree summed out (the constituent-context model).

    The story, for a sentence of n words: draw a binary tree y over it. Each of its n (n + 1) / 2 spans of one word or
    more is a constituent (in the tree) or a distituent (not in it). Every span, on its own, draws its yield and its
    context given which of the two it is. Weights are logs of anything, and

    .. math:: \\log p(x) = \\log \\sum_y t(n) \\prod_{s \\in y, |s| > 1} v(|s|)
              \\prod_s \\psi(\\mathrm{yield}_s \\mid [s \\in y]) \\, \\chi(\\mathrm{context}_s \\mid [s \\in y]).

    The words of a sentence are drawn again and again, by every span over them: the model is deficient, and has no
    :meth:`sample`. Single words and whole sentences are constituents of every tree, and count as such.

    With the ratio :math:`\\phi_s` of a span's weight as constituent to its weight as distituent, and K the product of
    all distituent weights, :math:`p(x) = K \\cdot I(0, n)`, where :math:`I(i, j) = \\phi_{ij} \\sum_k I(i, k) I(k, j)`.
    O(n^3). On CPU a compiled kernel does the work. A weight of -inf as a distituent means that the span must be in the
    tree, and that is what is computed.

    A value is a table with two columns, the yield and the context of each span: sentence by sentence, narrow spans
    first, from left to right among those of one width (:func:`.spans_of`). A tree is a vector over the same spans, 1
    for a constituent and 0 for a distituent.

    :param yields: (*batch, 2, Y) log-weights of yields, row 0 for distituents and row 1 for constituents.
    :param contexts: (*batch, 2, X), in the same way.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param node: (*batch, W + 1) log-weight of a constituent of w > 1 words, by w; zeros if not given.
    :param tree: (*batch, W + 1) log-weight of a sentence of n words, by n; zeros if not given. A prior over trees is a
        choice of ``node`` and ``tree``: see :mod:`.bracketing_priors`.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import Bracketing
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> spans = torch.zeros(35, 2, dtype=torch.long)
        >>> Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), lengths).log_prob(spans).exp().round()
        tensor([ 1.,  1.,  2.,  5., 14.])

    **References:**

    [1] D. Klein and C. D. Manning (2002) "A generative constituent-context model for improved grammar induction".
    [2] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language learning", 6.1.
    """

    def __init__(
        self,
        yields: Tensor,
        contexts: Tensor,
        lengths: Tensor,
        node: Tensor | None = None,
        tree: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.yields, self.contexts, self.node, self.tree = yields, contexts, node, tree
        self._power = 1.0
        self.lengths = check_lengths(torch.as_tensor(lengths))
        self._parts = self._check()
        batch = broadcast(self._parts.batch_shape, self.lengths.shape)
        super().__init__(batch, Size([int(span_lengths(self.lengths).sum()), 2]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> BracketingParts:
        if self.lengths.dim() != 1:
            raise StructureError(f"lengths should have shape (B,), actual shape {tuple(self.lengths.shape)}")
        for name, table in (("yields", self.yields), ("contexts", self.contexts)):
            if table.dim() < 2 or table.shape[-2] != 2:
                raise StructureError(
                    f"{name} should end in shape (2, types): distituents, then constituents; "
                    f"actual shape {tuple(table.shape)}"
                )
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        for name, by_width in (("node", self.node), ("tree", self.tree)):
            if by_width is not None and (by_width.dim() < 1 or by_width.shape[-1] <= longest):
                raise StructureError(
                    f"the longest sentence has {longest} words, so {name} should have {longest + 1} or more "
                    f"log-weights (0 to {longest}), actual shape {tuple(by_width.shape)}"
                )
        none = self.yields.new_zeros(longest + 1)
        parts = BracketingParts(
            self.yields,
            self.contexts,
            none if self.node is None else self.node,
            none if self.tree is None else self.tree,
            self._power,
        )
        if parts.batch_shape and parts.batch_shape[-1] not in (1, len(self.lengths)):
            raise StructureError(
                f"the last batch axis of the weights should be 1, or {len(self.lengths)} (one set a sentence), actual "
                f"batch of weights {tuple(parts.batch_shape)}"
            )
        return parts

    @property
    def weights(self) -> dict[str, Tensor]:
        given = {"yields": self.yields, "contexts": self.contexts, "node": self.node, "tree": self.tree}
        return {name: w if self._power == 1 else w * self._power for name, w in given.items() if w is not None}

    def with_weights(self, weights: dict[str, Tensor]) -> Bracketing:
        new = copy(self)  # in every E step of annealing: lengths need no second look
        for name, w in {**({} if self._power == 1 else self.weights), **weights}.items():
            setattr(new, name, w)
        new._power = 1.0
        new._parts = new._check()
        return new

    def raised(self, power: float) -> Bracketing:
        new = copy(self)  # the kernel takes the power along: tables are too large to multiply at every E step
        new._power = self._power * power
        new._parts = new._check()
        return new

    def references(self) -> dict[str, dict[str, Tensor]]:
        """``"split"``: a sentence is split at a random place, and so is each part."""
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        return {"split": {"node": split_node(longest).to(self.yields)}}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Bracketing:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=2)
    def support(self) -> constraints.Constraint:
        most = max(self.yields.shape[-1], self.contexts.shape[-1]) - 1
        return constraints.independent(constraints.integer_interval(0, most), 2)

    def log_prob(self, value: Tensor) -> Tensor:  # (spans, 2) -> batch_shape
        spans = self._data(value)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), spans, self.lengths)
        else:  # weights differ in the batch
            total = reference_log_partition(self._parts, spans, self.lengths)
        return total.expand(broadcast(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (spans, 2), (spans,) -> (*batch, B)
        spans = self._data(value)
        chosen = check_trees(structure, self.lengths)
        scores = SpanScores.of(self._parts, spans, self.lengths)
        each = torch.where(chosen, scores.inside, scores.outside)
        total = torch.where(self.lengths > 0, scores.tree, 0.0).expand(*each.shape[:-1], -1)
        return total.index_add(-1, spans_of(self.lengths)[0], each)

    def posterior(self, value: Tensor) -> BracketingPosterior:
        one_set(self._parts.batch_shape)
        names = {name: w.detach() for name, w in self.weights.items()}
        return BracketingPosterior(names, self._parts.squeezed(), self._data(value), self.lengths)

    def parts(self, value: Tensor) -> Brackets:
        return Brackets(value, self.lengths)

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Bracketing, Tensor]:
        spans, rows = self._data(value), self.yields
        new = copy(self)
        if (allowed := as_mask(factors)) is not None:  # what is forbidden is a distituent like others of its yield
            never = torch.stack([rows[..., 0, :], torch.full_like(rows[..., 1, :], -torch.inf)], -2)
            new.yields = torch.cat([rows, never], -1)
            new._parts = new._check()
            return new, torch.stack([torch.where(allowed, spans[:, 0], spans[:, 0] + rows.shape[-1]), spans[:, 1]], 1)
        if rows.dim() > 2 and rows.shape[-3] > 1:  # every sentence has weights of its own
            own = rows[..., spans_of(self.lengths)[0], :, spans[:, 0].long()].movedim(0, -1).unsqueeze(-3)
        else:
            own = rows.index_select(-1, spans[:, 0].long())  # (*batch, 2, spans)
        new.yields = torch.stack([own[..., 0, :], own[..., 1, :] + factors / self._power], -2)
        new._parts = new._check()
        return new, torch.stack([torch.arange(len(spans), dtype=spans.dtype), spans[:, 1]], 1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "a bracketing cannot draw sentences: every span draws its own yield and context, and those of overlapping "
            "spans need not agree on the words. Draw trees for given sentences with posterior(value).sample()"
        )

    def _data(self, value: Tensor) -> Tensor:
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected a yield and a context for every span, shape {tuple(self.event_shape)}, "
                f"actual {tuple(value.shape)}"
            )
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"yields and contexts must be integers, actual dtype = {value.dtype}")
        check_spans(self._parts, value)
        return value


def constituents(structure: Tensor, lengths: Tensor) -> Tensor:  # (spans,), (B,) -> (m, 3)
    """The constituents of trees, as rows of sentence, start and end.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing import constituents
    >>> constituents(torch.tensor([1, 1, 1, 0, 1, 1]), torch.tensor([3])).tolist()
    [[0, 0, 1], [0, 1, 2], [0, 2, 3], [0, 1, 3], [0, 0, 3]]
    """
    return torch.stack(spans_of(lengths), 1)[structure == 1]


def check_trees(structure: Tensor, lengths: Tensor) -> Tensor:  # (spans,), (B,) -> (spans,) bool
    """The structure as truth values, if it is one binary tree a sentence."""
    owner, start, end = spans_of(lengths)
    if structure.shape != owner.shape:
        raise StructureError(
            f"a tree has one number for each of the {len(owner)} spans, actual shape {tuple(structure.shape)}"
        )
    if bool(((structure != 0) & (structure != 1)).any()):
        raise StructureError("a tree is made of 1 (constituent) and 0 (distituent), found another number")
    chosen = structure != 0
    size = torch.zeros_like(lengths).index_add(0, owner, chosen.long())
    always = (end - start == 1) | (end - start == lengths[owner])
    bad = (size != (2 * lengths - 1).clamp(min=0)).nonzero()[:, 0].tolist() + owner[always & ~chosen].tolist()
    if not bad:
        N = int(lengths.max()) if len(lengths) else 0
        chart = torch.zeros(len(lengths), N + 1, N + 1, dtype=torch.bool, device=structure.device)
        chart[owner, start, end] = chosen
        bad = (chart & crossing(chart)).flatten(1).any(1).nonzero()[:, 0].tolist()
    if bad:
        first = min(bad)
        found = [tuple(span[1:]) for span in constituents(structure, lengths).tolist() if span[0] == first]
        raise StructureError(
            f"sentence {first} has no binary tree: expected its {int(lengths[first])} words, the whole sentence, and "
            f"between them spans that do not cross, {2 * int(lengths[first]) - 1} in all, actual {found!s:.200}"
        )
    return chosen
