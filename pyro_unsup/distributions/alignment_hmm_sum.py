"""Summing over alignments whose links jump: the readable definition, and the compiled one behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from ..kernels.threads import plain_torch
from .alignment_grid import Grid
from .alignment_hmm_jumps import jumps_to_the_end, jumps_within, reach_of
from .ragged import offsets_of
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from ..kernels.alignment_hmm import HMMWeights, Swept, Trellises


@dataclass
class HMMParts:
    """Log-weights of one direction.

    :param translation: (*batch, C) the table.
    :param null: (*batch, B) of no link, by pair.
    :param word: (*batch, B) of a link.
    :param jump: (*batch, 3, 2 W + 1).
    :param room: (*batch, rooms).
    :param share: (*batch, most) of a jump to one of n places that share a weight, for n from 1 on.
    """

    translation: Tensor
    null: Tensor
    word: Tensor
    jump: Tensor
    room: Tensor
    share: Tensor

    def tables(self) -> tuple[Tensor, ...]:
        return self.translation, self.null, self.word, self.jump, self.room, self.share

    @property
    def batch_shape(self) -> Size:
        shapes = [x.shape[: -2 if x is self.jump else -1] for x in self.tables()]
        return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()

    def squeezed(self) -> HMMParts:
        """Without batch axes of size 1."""
        return HMMParts(*(x.reshape(x.shape[-2:] if x is self.jump else -1) for x in self.tables()))

    def of_pairs(self, pairs: Tensor) -> HMMParts:
        """The same weights for some of the pairs."""
        return replace(self, null=self.null[..., pairs], word=self.word[..., pairs])

    def kernel_weights(self) -> HMMWeights:
        from ..kernels.alignment_hmm import HMMWeights

        return HMMWeights(*(x.detach().contiguous().numpy() for x in self.tables()))


def place_sum(
    link: Tensor,  # (*batch, B, T, S) log-weight of each link of each word
    null: Tensor,  # (*batch, B, T) of no link
    jump: Tensor,  # (*batch, B, S + 1, S) from each place (0 is before the sentence) to each word
    end: Tensor,  # (*batch, B, S + 1)
    lengths: Tensor,  # (B,) how many words choose
    sum_: Sum = LOG,
) -> Tensor:  # (*batch, B)
    """The meaning of an alignment by jumps: the sum over all of them, in any semiring.

    The message at t holds, for every place, the sum over all ways to link the first t words, the last link being to
    that place::

        m_0[0]   = 1
        m_t[i]   = m_{t-1}[i] null_t  +  link_t[i] sum_h m_{t-1}[h] jump[h, i]
        total    = sum_i m_n[i] end[i]
    """
    batch = torch.broadcast_shapes(link.shape[:-2], null.shape[:-1], jump.shape[:-2], end.shape[:-1])
    message = torch.cat([end.new_zeros(*batch, 1), end.new_full((*batch, end.shape[-1] - 1), -torch.inf)], -1)
    for t in range(link.shape[-2]):
        stay = message + null[..., t, None]
        arrived = link[..., t, :] + sum_(message.unsqueeze(-1) + jump, -2)
        linked = sum_(torch.stack([stay[..., 1:], arrived], -1), -1)
        message = torch.where((t < lengths)[:, None], torch.cat([stay[..., :1], linked], -1), message)
    total = sum_(message + end, -1)
    return torch.where(lengths > 0, total, torch.zeros_like(total))


@dataclass
class Padded:
    """The cells that one direction uses, pair by pair, as a rectangle: (B, T, S + 1), the null word first.

    :param cell: (n,) which cell of the grids.
    :param at: (n,) its place in the rectangle.
    :param lengths: (B,) how many words choose.
    :param sizes: (B,) among how many.
    """

    cell: Tensor
    at: Tensor
    lengths: Tensor
    sizes: Tensor
    shape: tuple[int, int, int]

    @staticmethod
    def of(grid: Grid, turned: bool) -> Padded:
        ordered, cell = grid.select(torch.arange(len(grid)))
        row, column = ordered.parts()
        pair, down = ordered.pair[row], ordered.place[row]
        chooser, other = (down, column) if turned else (column, down)
        lengths, sizes = grid.source_lengths, grid.target_lengths
        lengths, sizes = (lengths, sizes) if turned else (sizes, lengths)
        T, S = (int(x.max()) if len(grid) else 0 for x in (lengths, sizes))
        used = chooser > 0
        at = ((pair * T + chooser - 1) * (S + 1) + other)[used]
        return Padded(cell[used], at, lengths, sizes, (len(grid), T, S + 1))

    def weights(self, parts: HMMParts, value: Tensor) -> tuple[Tensor, Tensor]:  # (*batch, B, T, S), (*batch, B, T)
        """Of each link, and of no link."""
        found = parts.translation[..., value[self.cell].long()]
        empty = found.new_full((*found.shape[:-1], self.shape[0] * self.shape[1] * self.shape[2]), -torch.inf)
        each = empty.index_copy(-1, self.at, found).unflatten(-1, self.shape)
        return each[..., 1:] + parts.word[..., None, None], each[..., 0] + parts.null[..., None]

    def jumps(self, parts: HMMParts) -> tuple[Tensor, Tensor]:  # (*batch, B, S + 1, S), (*batch, B, S + 1)
        W, most = reach_of(parts.jump), self.shape[2] - 1
        inner, end = jumps_within(self.sizes, W, most), jumps_to_the_end(self.sizes, W, most)
        weights = (parts.jump, parts.room, parts.share)
        return inner.logs(*weights), end.logs(*weights)


def reference_log_partition(
    parts: HMMParts, value: Tensor, grid: Grid, turned: bool, sum_: Sum = LOG
) -> Tensor:  # (cells,) -> (*batch, B)
    """:func:`place_sum` of all pairs: any batch of weights, any order of gradient."""
    padded = Padded.of(grid, turned)
    return place_sum(*padded.weights(parts, value), *padded.jumps(parts), padded.lengths, sum_)


def trellises(grid: Grid) -> Trellises:
    """Where the pairs of a grid lie, for the kernels."""
    from ..kernels.alignment_hmm import Trellises

    known = grid.__dict__.get("trellises")
    if known is None:
        order, _ = grid._by_pair
        offsets = offsets_of(grid.source_lengths + 1).numpy()
        known = grid.__dict__["trellises"] = Trellises(grid.rows, order.numpy(), offsets)
    found: Trellises = known
    return found


def log_partition(parts: HMMParts, value: Tensor, grid: Grid, turned: bool) -> Tensor:
    """log Z under one set of weights, (cells,) -> (B,), by the kernel."""
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), value, grid, turned)
    return total


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel, whose counts are the gradient. They come from the same pass, so backward is nearly free."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *weights, value, grid, turned = inputs
        ctx.save_for_backward(*weights, value)
        ctx.grid, ctx.turned = grid, turned
        found = swept(HMMParts(*weights), value, grid, turned, any(ctx.needs_input_grad))
        log_z = torch.from_numpy(found.log_z)
        ctx.possible = log_z > -torch.inf
        if any(ctx.needs_input_grad):
            ctx.counts = expected(found, weights, value, grid, turned, ctx.possible.double())
        return log_z.to(weights[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *weights, value = ctx.saved_tensors
        needs = ctx.needs_input_grad[:6]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(HMMParts(*weights), value, ctx.grid, ctx.turned)
            wanted = [w for w, need in zip(weights, needs, strict=True) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in needs), None, None, None
        with plain_torch():
            if same(grad):
                result = [c * grad[0] for c in ctx.counts] if len(grad) and grad[0] != 1 else ctx.counts
            else:
                scale = torch.where(ctx.possible, grad.double(), 0.0)
                again = swept(HMMParts(*weights), value, ctx.grid, ctx.turned, True, scale)
                result = expected(again, weights, value, ctx.grid, ctx.turned, scale)
        return *(c if need else None for c, need in zip(result, needs, strict=True)), None, None, None


def same(grad: Tensor) -> bool:  # (B,)
    """Whether all pairs weigh the same."""
    return grad.numel() == 0 or bool((grad == grad[0]).all())


def swept(parts: HMMParts, value: Tensor, grid: Grid, turned: bool, want: bool, scale: Tensor | None = None) -> Swept:
    """One sweep of the kernel."""
    from ..kernels.alignment_hmm import sweep

    weigh = None if scale is None else scale.numpy()
    return sweep(parts.kernel_weights(), value.numpy(), trellises(grid), turned, want, weigh)


def expected(
    found: Swept, weights: list[Tensor], value: Tensor, grid: Grid, turned: bool, scale: Tensor
) -> list[Tensor]:
    """How often each weight is used, in the order of the weights, each pair weighed by its scale (B,)."""
    from ..kernels.alignment_hmm import counts

    table = counts(found.posterior, value.numpy(), grid.rows, turned, scale.numpy(), len(weights[0]))
    return [torch.from_numpy(table).to(weights[0].dtype), *others(found, weights[0].dtype, grid, turned, scale)]


def others(found: Swept, dtype: torch.dtype, grid: Grid, turned: bool, scale: Tensor) -> list[Tensor]:
    """The same of all weights but the table."""
    null = torch.from_numpy(found.null) * scale
    word = (grid.source_lengths if turned else grid.target_lengths) * scale - null
    jumps = (torch.from_numpy(x) for x in (found.jump, found.room, found.share))
    return [x.to(dtype) for x in (null, word, *jumps)]
