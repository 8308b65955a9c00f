"""Summing over headed binary trees: the readable definition, and the compiled one behind its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .bracketing_sum import BracketingParts, constituent_weights, expected_counts
from .dependency_sum import ADJACENT, BEYOND, CONTINUE, LEFT, RIGHT, STOP, DependencyParts, arcs_of, cells
from .ragged import offsets_of, pad
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from ..kernels.headed_bracketing import HeadedData, HeadedSums

#: The side on which heads take their children first.
ORDERS = ("right", "left")


@dataclass
class HeadedParts:
    """Log-weights in one form."""

    dependency: DependencyParts
    bracketing: BracketingParts

    def tables(self) -> tuple[Tensor, ...]:
        return *self.dependency.tables(), *self.bracketing.tables()

    @staticmethod
    def of(tables: tuple[Tensor, ...], power: float) -> HeadedParts:
        """The way back from :meth:`tables`."""
        root, attach, stop, arcs, yields, contexts, node, tree = tables
        return HeadedParts(
            DependencyParts(root, attach, stop, arcs), BracketingParts(yields, contexts, node, tree, power)
        )

    @property
    def batch_shape(self) -> Size:
        return Size(torch.broadcast_shapes(self.dependency.batch_shape, self.bracketing.batch_shape))

    def squeezed(self) -> HeadedParts:
        """Without batch axes of size 1."""
        return HeadedParts(self.dependency.squeezed(), self.bracketing.squeezed())

    def check(self) -> None:
        """Raise unless all are of one dtype."""
        one, other = self.dependency.root.dtype, self.bracketing.yields.dtype
        if one != other:
            raise StructureError(
                f"the weights of a headed bracketing must have one floating dtype: root has {one}, yields has {other}"
            )


def headed_sum(
    root: Tensor,  # (*batch, N) of each word as the root
    arc: Tensor,  # (*batch, N, N) axes (head, child)
    stop: Tensor,  # (*batch, N, 2, 2, 2) axes (head, direction, adjacency, decision)
    weight: Tensor,  # (*batch, N + 1, N + 1) of span (i, j) as a constituent
    lengths: Tensor,  # (*batch,)
    sum_: Sum = LOG,
) -> Tensor:  # (*batch,)
    """The meaning of a headed bracketing: the sum over all dependency trees, in any semiring, if every head takes the
    children on its right first, then those on its left, near ones before far ones.

    An item is a span between fenceposts i and j with its head h. First it grows to the right, while i = h. Then it is
    sealed on that side, and grows to the left. When it is full, it is put below a head outside, whichever of its words
    is its own head. That a head has no child on one side yet is to be seen from the span, as ``adjacent`` if it ends
    there, else ``beyond``::

        right[h, h + 1]   = 0
        right[h, j]       = weight[h, j] + sum_{h < k < j}  right[h, k] + continue[h, right] + below[k, j, h]
        left[h, j, h]     = right[h, j] + stop[h, right]
        left[i, j, h]     = weight[i, j] + sum_{i < k <= h}  below[i, k, h] + left[k, j, h] + continue[h, left]
        full[i, j, h]     = left[i, j, h] + stop[h, left]
        below[i, j, h]    = sum_{i <= c < j}  full[i, j, c] + arc[h -> c]
        total             = sum_r  root[r] + full[0, n, r]

    Single words weigh ``weight``, too. O(n^4).
    """
    N, batch = root.shape[-1], torch.broadcast_shapes(root.shape[:-1], stop.shape[:-4], weight.shape[:-2])
    root, arc, weight = root.expand(*batch, N), arc.expand(*batch, N, N), weight.expand(*batch, N + 1, N + 1)
    # Lists by width. (*batch, starts), and of the last three (*batch, starts, heads): heads by their place in the span,
    # but of ``below`` all words of the sentence.
    right_open, left_open, full, below = ([root] for _ in range(4))  # nothing has width 0: never looked at
    for w in range(1, N + 1):
        S = N + 1 - w
        here = weight.diagonal(w, -2, -1)
        some = ADJACENT if w == 1 else BEYOND
        if w > 1:
            ways = [right_open[v][..., :S] + below[w - v].diagonal(-v, -2, -1) for v in range(1, w)]
            here = here + sum_(torch.stack(ways, -1), -1)
        right_open.append(here + stop[..., :S, RIGHT, some, CONTINUE])
        left = [here + stop[..., :S, RIGHT, some, STOP]]
        for d in range(1, w):
            ways = [
                below[v].diagonal(d, -2, -1)[..., :S] + left_open[w - v][..., v : v + S, d - v] for v in range(1, d + 1)
            ]
            left.append(weight.diagonal(w, -2, -1) + sum_(torch.stack(ways, -1), -1))
        ends = [stop[..., d : d + S, LEFT, BEYOND if d else ADJACENT, :] for d in range(w)]
        both = torch.stack(left, -1).unsqueeze(-1) + torch.stack(ends, -2)  # (*batch, S, w, 2)
        full.append(both[..., STOP])
        left_open.append(both[..., CONTINUE])
        windows = arc.unfold(-1, w, 1).movedim(-3, -2)  # (*batch, S, N, w)
        below.append(sum_(full[w].unsqueeze(-2) + windows, -1))
    whole = [torch.nn.functional.pad(full[w][..., 0, :], (0, N - w), value=-torch.inf) for w in range(1, N + 1)]
    rows = torch.stack(whole, -2)  # (*batch, N, N) by length and root
    at = (lengths - 1).clamp(min=0).expand(rows.shape[:-2])[..., None, None].expand(*rows.shape[:-2], 1, N)
    return sum_(root + rows.gather(-2, at).squeeze(-2), -1)


def reference_log_partition(
    parts: HeadedParts, tags: Tensor, spans: Tensor, lengths: Tensor, order: str = "right", sum_: Sum = LOG
) -> Tensor:
    """:func:`headed_sum` of flat tags and spans, (tokens,), (spans, 2), (B,) -> (*batch, B): any device, any batch, any
    order of gradient. Heads that take the children on their left first are those of sentences in a mirror."""
    tags, N, B = tags.long(), int(lengths.max()) if len(lengths) else 0, len(lengths)
    if N == 0:
        return parts.dependency.root.new_zeros(*parts.batch_shape[:-1], B)
    mirror = order == "left"
    owner, head, child = arcs_of(lengths)
    scores = parts.dependency.arc_scores(tags, lengths, owner, head, child)  # (*lead, cells)
    if parts.dependency.arcs.numel():
        scores = torch.where(head == child, scores, scores + parts.dependency.arcs)
    if mirror:
        n = lengths[owner] + 1
        head, child = torch.where(head > 0, n - head, 0), n - child
    place = (owner * N + child - 1) * (N + 1) + head
    chart = scores.new_zeros(*scores.shape[:-1], B * N * (N + 1)).index_copy(-1, place, scores)
    chart = chart.reshape(*scores.shape[:-1], B, N, N + 1)

    word = torch.repeat_interleave(torch.arange(B, device=tags.device), lengths)
    if mirror:
        tags = tags[(offsets_of(lengths)[word] + offsets_of(lengths)[word + 1] - 1) - torch.arange(len(tags)).to(tags)]
    ends = cells(parts.dependency.stop, 4, word, tags).movedim(-4, 0)  # (tokens, *lead, 2, 2, 2)
    ends = pad(ends, lengths).movedim((0, 1), (-5, -4))  # (*lead, B, N, 2, 2, 2)
    ends = ends.flip(-3) if mirror else ends

    weights, shared = constituent_weights(parts.bracketing, spans, lengths, mirror)
    total = shared + headed_sum(chart[..., 0], chart[..., 1:].mT, ends, weights, lengths, sum_)
    total = torch.where(total == -torch.inf, -torch.inf, total)  # impossible: no gradient
    return torch.where(lengths > 0, total, torch.zeros_like(total))


def log_partition(parts: HeadedParts, tags: Tensor, spans: Tensor, lengths: Tensor, order: str = "right") -> Tensor:
    """log Z under one set of weights, -> (B,): the kernel on CPU, elsewhere the definition."""
    if tags.device.type != "cpu" or parts.dependency.root.device.type != "cpu":
        return reference_log_partition(parts, tags, spans, lengths, order)
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), tags, spans, lengths, order, parts.bracketing.power)
    return total


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel. The same pass finds all posteriors, so backward has only to count."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        *inputs, ctx.order, ctx.power = args
        ctx.save_for_backward(*inputs)
        parts, (tags, spans, lengths) = HeadedParts.of(tuple(inputs[:8]), ctx.power), inputs[8:]
        ctx.sums = kernel_pass(parts, kernel_data(tags, spans, lengths, ctx.order), any(ctx.needs_input_grad))
        log_z: Tensor = ctx.sums.log_z
        return log_z.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tables, (tags, spans, lengths), need = ctx.saved_tensors[:8], ctx.saved_tensors[8:], ctx.needs_input_grad[:8]
        parts, none = HeadedParts.of(tables, ctx.power), (None,) * 5
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(parts, tags, spans, lengths, ctx.order)
            wanted = [w for w, asked in zip(tables, need, strict=True) if asked]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if asked else None for asked in need), *none
        counts = headed_counts(parts, kernel_data(tags, spans, lengths, ctx.order), ctx.sums, grad.double(), ctx.power)
        return *(c if asked else None for c, asked in zip(counts.tables(), need, strict=True)), *none


def kernel_data(tags: Tensor, spans: Tensor, lengths: Tensor, order: str) -> HeadedData:
    """Sentences as the kernels want them."""
    from ..kernels.headed_bracketing import HeadedData  # numba loads when it is first needed

    return HeadedData(
        tags.long().contiguous().numpy(), spans.contiguous().numpy(), lengths.contiguous().numpy(), order == "left"
    )


def kernel_pass(parts: HeadedParts, data: HeadedData, want: bool = True) -> HeadedSums:
    """log Z, and posteriors if wanted."""
    from ..kernels.headed_bracketing import headed_pass

    return headed_pass(parts.dependency.kernel_weights(), parts.bracketing.kernel_weights(), data, want)


def headed_counts(
    parts: HeadedParts, data: HeadedData, sums: HeadedSums, scale: Tensor, power: float = 1.0
) -> HeadedParts:
    """How often each weight is used, given the posteriors and a scale a sentence, (B,).

    :param power: that is counted for each use of a weight of the bracketing.
    """
    from ..kernels.headed_bracketing import dependency_counts

    weigh = torch.where(sums.log_z > -torch.inf, scale, 0.0).contiguous()
    found = dependency_counts(parts.dependency.kernel_weights(), data, sums, weigh.numpy())
    spans, lengths = torch.from_numpy(data.spans), torch.from_numpy(data.lengths)
    bracketing = expected_counts(parts.bracketing, spans, lengths, sums.spans, weigh * power)
    return HeadedParts(DependencyParts(found.root, found.attach, found.stop, found.arcs), bracketing)
