"""Summing over the binary trees of a sentence: the readable definition, and the compiled one behind its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .ragged import offsets_of
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from ..kernels.bracketing import BracketingTables


def spans_of(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B,) -> three of (spans,)
    """The sentence, start and end of every span, in the order that values and structures use: sentence by sentence,
    narrow spans first, and from left to right among those of one width.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing_sum import spans_of
    >>> [x.tolist() for x in spans_of(torch.tensor([1, 3]))]
    [[0, 1, 1, 1, 1, 1, 1], [0, 0, 1, 2, 0, 1, 0], [1, 1, 2, 3, 2, 3, 3]]
    """
    device = lengths.device
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)  # one row a width
    width = torch.arange(len(sentence), device=device) - offsets_of(lengths)[sentence] + 1
    size = lengths[sentence] - width + 1
    row = torch.repeat_interleave(torch.arange(len(size), device=device), size)
    start = torch.arange(len(row), device=device) - offsets_of(size)[row]
    return sentence[row], start, start + width[row]


def span_lengths(lengths: Tensor) -> Tensor:  # (B,) -> (B,)
    """How many spans each sentence has."""
    return lengths * (lengths + 1) // 2


@dataclass
class BracketingParts:
    """Log-weights in one form, whichever were given.

    :param yields: (*batch, 2, Y), row 0 as distituent and row 1 as constituent.
    :param contexts: (*batch, 2, X).
    :param node: (*batch, W + 1) by width.
    :param tree: (*batch, W + 1) by length.
    :param power: that all weights are raised to.
    """

    yields: Tensor
    contexts: Tensor
    node: Tensor
    tree: Tensor
    power: float = 1.0

    def tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.yields, self.contexts, self.node, self.tree

    @property
    def batch_shape(self) -> Size:
        shapes = (self.yields.shape[:-2], self.contexts.shape[:-2], self.node.shape[:-1], self.tree.shape[:-1])
        return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()

    def squeezed(self) -> BracketingParts:
        """Without batch axes of size 1."""
        if self.batch_shape.numel() != 1:
            raise StructureError(f"one set of weights expected, actual batch of weights {tuple(self.batch_shape)}")
        yields, contexts = (x.reshape(x.shape[-2:]) for x in (self.yields, self.contexts))
        return BracketingParts(yields, contexts, self.node.reshape(-1), self.tree.reshape(-1), self.power)

    def check(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        for name, table in zip(("yields", "contexts", "node", "tree"), self.tables(), strict=True):
            if table.dtype != self.yields.dtype or not table.is_floating_point():
                raise StructureError(
                    f"the weights of a bracketing must have one floating dtype: yields has {self.yields.dtype}, "
                    f"{name} has {table.dtype}"
                )
            if table.numel() and not float(table.detach().max()) < torch.inf:
                raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def kernel_weights(self) -> BracketingTables:
        from ..kernels.bracketing import BracketingTables  # numba loads when it is first needed

        yields, contexts, node, tree = (x.detach() for x in self.tables())
        return BracketingTables(yields, contexts, node, tree, self.power)


@dataclass
class SpanScores:
    """Log-weights of the spans at hand.

    :param inside: (*batch, spans) as a constituent, ``node`` included.
    :param outside: (*batch, spans) as a distituent.
    :param tree: (*batch, B) of each sentence.
    """

    inside: Tensor
    outside: Tensor
    tree: Tensor

    @staticmethod
    def of(parts: BracketingParts, spans: Tensor, lengths: Tensor) -> SpanScores:  # (spans, 2), (B,)
        owner, start, end = spans_of(lengths)
        y, x, width = spans[:, 0].long(), spans[:, 1].long(), end - start
        node = _cells(parts.node.unsqueeze(-2), owner, 0, width)
        inside = _cells(parts.yields, owner, 1, y) + _cells(parts.contexts, owner, 1, x)
        inside = torch.where(width > 1, inside + node, inside)
        outside = _cells(parts.yields, owner, 0, y) + _cells(parts.contexts, owner, 0, x)
        sentence = torch.arange(len(lengths), device=lengths.device)
        tree = _cells(parts.tree.unsqueeze(-2), sentence, 0, lengths)
        return SpanScores(inside * parts.power, outside * parts.power, tree * parts.power)


def tree_sum(
    weight: Tensor,  # (*batch, N + 1, N + 1) of span (i, j) as a constituent
    lengths: Tensor,  # (*batch,)
    sum_: Sum = LOG,
) -> Tensor:  # (*batch,)
    """The meaning of a bracketing: the sum over all binary trees, in any semiring.

    The sum over the trees of a span goes over the places to split it::

        inside[i, i + 1] = weight[i, i + 1]
        inside[i, j]     = weight[i, j] + sum_{i < k < j}  inside[i, k] + inside[k, j]
        total            = inside[0, n]
    """
    N = weight.shape[-1] - 1
    inside = [weight.diagonal(w, -2, -1) for w in range(min(N, 1) + 1)]  # by width; (*batch, N + 1 - width)
    for w in range(2, N + 1):
        starts = N + 1 - w
        splits = [inside[v][..., :starts] + inside[w - v][..., v : v + starts] for v in range(1, w)]
        inside.append(weight.diagonal(w, -2, -1) + sum_(torch.stack(splits, -1), -1))
    whole = torch.stack([row[..., 0] for row in inside], -1)  # (*batch, N + 1) of the first w words
    return whole.gather(-1, lengths.expand(whole.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def reference_log_partition(parts: BracketingParts, spans: Tensor, lengths: Tensor, sum_: Sum = LOG) -> Tensor:
    """:func:`tree_sum` of flat spans, (spans, 2), (B,) -> (*batch, B): any device, any batch, any order of gradient."""
    weights, shared = constituent_weights(parts, spans, lengths)
    total = shared + tree_sum(weights, lengths, sum_)
    total = torch.where(total == -torch.inf, -torch.inf, total)  # impossible: no gradient
    return torch.where(lengths > 0, total, torch.zeros_like(total))


def constituent_weights(
    parts: BracketingParts, spans: Tensor, lengths: Tensor, mirror: bool = False
) -> tuple[Tensor, Tensor]:  # (*lead, B, N + 1, N + 1), (*lead, B)
    """What each constituent multiplies the weight of a tree by, and what all trees of a sentence share, in logs.

    First let every span be a distituent; a constituent then multiplies the weight by inside / outside. Spans that no
    tree of the sentence is without count as what they are. A span that cannot be a distituent must be in the tree, so
    nothing that crosses it may be: a tree without crossings of a span has that span, for the smallest constituent
    around it would otherwise split into one that crosses it.

    :param mirror: read sentences from right to left.
    """
    owner, start, end = spans_of(lengths)
    scores = SpanScores.of(parts, spans, lengths)
    always = (end - start == 1) | (end - start == lengths[owner])
    forced = ~always & (scores.outside == -torch.inf)
    outside = torch.where(always | forced, torch.zeros_like(scores.outside), scores.outside)
    weight = scores.inside - outside
    N, lead = int(lengths.max()) if len(lengths) else 0, weight.shape[:-1]
    if mirror:
        start, end = lengths[owner] - end, lengths[owner] - start
    place = (owner * (N + 1) + start) * (N + 1) + end

    def chart(flat: Tensor) -> Tensor:  # (*lead, spans) -> (*lead, B, N + 1, N + 1)
        empty = flat.new_zeros(*lead, len(lengths) * (N + 1) ** 2)
        return empty.index_copy(-1, place, flat.expand(*lead, -1)).reshape(*lead, len(lengths), N + 1, N + 1)

    weights = chart(weight)
    if bool(forced.any()):
        weights = weights.masked_fill(crossing(chart(forced)), -torch.inf)
    shared = scores.tree + outside.new_zeros(*lead, len(lengths)).index_add(-1, owner, outside.expand(*lead, -1))
    return weights, shared


def crossing(some: Tensor) -> Tensor:  # (*batch, N + 1, N + 1) bool -> the same
    """Which spans cross one of these: they overlap, and neither holds the other."""
    size = some.shape[-1]
    less = torch.ones(size, size, device=some.device).triu(1)  # [a, b]: a < b
    given = some.to(less.dtype)
    # i < a < j < b: first whether some b lies beyond j, then whether such an a lies between i and j.
    later = less @ (given @ less.mT * less)
    # a < i < b < j, in the same way.
    earlier = (less.mT @ given * less) @ less
    return ((later > 0) | (earlier > 0)) & (less > 0)


def log_partition(parts: BracketingParts, spans: Tensor, lengths: Tensor) -> Tensor:
    """log Z under one set of weights, (spans, 2), (B,) -> (B,): the kernel on CPU, elsewhere the definition."""
    if spans.device.type != "cpu" or parts.yields.device.type != "cpu":
        return reference_log_partition(parts, spans, lengths)
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), spans.contiguous(), lengths.contiguous(), parts.power)
    return total


def check_spans(parts: BracketingParts, spans: Tensor) -> None:
    """Raise unless weights are weights, and every yield and context has its cell."""
    from ..kernels.bracketing import spans_within

    with plain_torch():
        parts.check()
    types = parts.yields.shape[-1], parts.contexts.shape[-1]
    if spans_within(spans, *types):
        return
    for name, found, size in zip(("yields", "contexts"), spans.T, types, strict=True):
        least, most = int(found.min()), int(found.max())
        if least < 0 or most >= size:
            raise StructureError(
                f"{name} must lie in 0 .. {size - 1} (the table has {size} columns), actual range {least} .. {most}"
            )


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel. The same pass finds the posterior of each span, so backward has only to count."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        from ..kernels.bracketing import bracketing_pass

        *inputs, ctx.power = args
        ctx.save_for_backward(*inputs)
        weights = _parts(inputs[:4], ctx.power).kernel_weights()
        log_z, ctx.marginals = bracketing_pass(weights, inputs[4].numpy(), inputs[5].numpy(), any(ctx.needs_input_grad))
        ctx.possible = log_z > -torch.inf
        return log_z.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, (spans, lengths) = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(_parts(weights, ctx.power), spans, lengths)
            wanted = [w for w, need in zip(weights, ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in ctx.needs_input_grad[:4]), None, None, None
        scale = torch.where(ctx.possible, grad.double(), 0.0) * ctx.power
        counts = expected_counts(_parts(weights, ctx.power), spans, lengths, ctx.marginals, scale).tables()
        return *(c if need else None for c, need in zip(counts, ctx.needs_input_grad, strict=False)), None, None, None


def expected_counts(
    parts: BracketingParts, spans: Tensor, lengths: Tensor, marginals: Tensor, scale: Tensor
) -> BracketingParts:
    """How often each weight is used, given the posterior of each span, (spans,), and a scale a sentence, (B,)."""
    from ..kernels.bracketing import bracketing_counts

    like, where = parts.kernel_weights(), (spans.numpy(), lengths.numpy())
    found = bracketing_counts(like, *where, marginals.numpy(), scale.contiguous().numpy())
    return BracketingParts(found.yields, found.contexts, found.node, found.tree)


def _parts(tables: Sequence[Tensor], power: float) -> BracketingParts:
    yields, contexts, node, tree = tables
    return BracketingParts(yields, contexts, node, tree, power)


def _cells(table: Tensor, owner: Tensor, row: int, column: Tensor) -> Tensor:  # (*batch, R, C), (m,) -> (*lead, m)
    """One cell for each span; from the table of its own sentence, where every sentence has one."""
    if table.dim() > 2 and table.shape[-3] > 1:
        return table[..., owner, row, column]
    return (table.squeeze(-3) if table.dim() > 2 else table)[..., row, column]
