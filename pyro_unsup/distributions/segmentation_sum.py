"""Summing over the segmentations of a sentence: the readable definition, and the compiled one behind its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .ragged import offsets_of, pad
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from ..kernels.segmentation import SegmentationTables


@dataclass
class SegmentationParts:
    """Log-weights in one form.

    :param segments: (*batch, S) of each type of segment.
    :param length: (*batch, L + 1) of a segment of w symbols, by w.
    :param stop: (*batch, 2) of going on with another segment, and of stopping.
    """

    segments: Tensor
    length: Tensor
    stop: Tensor

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.segments, self.length, self.stop

    @property
    def batch_shape(self) -> Size:
        shapes = [table.shape[:-1] for table in self.tables()]
        return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()

    def squeezed(self) -> SegmentationParts:
        """Without batch axes of size 1."""
        if self.batch_shape.numel() != 1:
            raise StructureError(f"one set of weights expected, actual batch of weights {tuple(self.batch_shape)}")
        return SegmentationParts(*(x.reshape(-1) for x in self.tables()))

    def check(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        for name, table in zip(("segments", "length", "stop"), self.tables(), strict=True):
            if table.dtype != self.segments.dtype or not table.is_floating_point():
                raise StructureError(
                    f"the weights of a segmentation must have one floating dtype: segments has {self.segments.dtype}, "
                    f"{name} has {table.dtype}"
                )
            if table.numel() and not float(table.detach().max()) < torch.inf:
                raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def kernel_weights(self) -> SegmentationTables:
        from ..kernels.segmentation import SegmentationTables  # numba loads when it is first needed

        return SegmentationTables(*(x.detach() for x in self.tables()))

    def scores(self, numbers: Tensor, width: Tensor, owner: Tensor) -> Tensor:  # (*m), (*m), (*m) -> (*batch, *m)
        """The log-weights of segments, going on included, by their numbers, lengths and sentences."""
        each = _cells(self.segments, owner, numbers.long().clamp(min=0))
        each = each + _cells(self.length, owner, width) + _cells(self.stop, owner, torch.zeros_like(width))
        return torch.where(numbers >= 0, each, -torch.inf)


def segmentation_sum(
    score: Tensor,  # (*batch, T, L) of the segment that ends at t, by its length
    lengths: Tensor,  # (*batch,)
    sum_: Sum = LOG,
) -> Tensor:  # (*batch,)
    """The meaning of a segmentation: the sum over all ways to cut a sentence up, in any semiring.

    The sum over the ways to cut up the first t symbols goes over the length of the last segment::

        ahead[0] = 0
        ahead[t] = sum_{w <= L}  ahead[t - w] + score[t, w]
        total    = ahead[n]
    """
    ahead = [score.new_zeros(score.shape[:-2])]
    for t in range(1, score.shape[-2] + 1):
        ways = [ahead[t - w] + score[..., t - 1, w - 1] for w in range(1, min(t, score.shape[-1]) + 1)]
        ahead.append(sum_(torch.stack(ways, -1), -1))
    whole = torch.stack(ahead, -1)  # (*batch, T + 1)
    return whole.gather(-1, lengths.expand(whole.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def reference_log_partition(parts: SegmentationParts, cells: Tensor, lengths: Tensor, sum_: Sum = LOG) -> Tensor:
    """:func:`segmentation_sum` of flat sentences, (symbols, L), (B,) -> (*batch, B): any device, any order of
    gradient."""
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=cells.device), lengths).unsqueeze(-1)
    width = torch.arange(1, cells.shape[1] + 1, device=cells.device)
    score = parts.scores(cells, width.expand(cells.shape), owner.expand(cells.shape))  # (*lead, symbols, L)
    lead = score.shape[:-2]
    padded = pad(score.movedim(-2, 0), lengths, -torch.inf).movedim((0, 1), (-3, -2))  # (*lead, B, T, L)
    total = segmentation_sum(padded, lengths, sum_) + parts.stop[..., 1].expand(*lead, len(lengths))
    total = torch.where(total == -torch.inf, -torch.inf, total)  # impossible: no gradient
    return torch.where(lengths > 0, total, torch.zeros_like(total))


def log_partition(parts: SegmentationParts, cells: Tensor, lengths: Tensor) -> Tensor:
    """log Z under one set of weights, (symbols, L), (B,) -> (B,): the kernel on CPU, elsewhere the definition."""
    if cells.device.type != "cpu" or parts.segments.device.type != "cpu":
        return reference_log_partition(parts, cells, lengths)
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), cells, lengths)
    return total


def check_cells(parts: SegmentationParts, cells: Tensor) -> None:
    """Raise unless weights are weights, and every segment has its log-weight or is -1."""
    with plain_torch():
        parts.check()
        least, most = (int(x) for x in cells.aminmax()) if cells.numel() else (0, 0)
    size = parts.segments.shape[-1]
    if least < -1 or most >= size:
        raise StructureError(
            f"segments must lie in 0 .. {size - 1} (there are {size} weights), or be -1 for what cannot be one, "
            f"actual range {least} .. {most}"
        )


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel, whose counts are the gradient. They come from the same pass, so backward is nearly free."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        want = any(ctx.needs_input_grad)
        log_z, ctx.counts = kernel_pass(SegmentationParts(*inputs[:3]), inputs[3], inputs[4], want=want)
        return log_z.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        parts, (cells, lengths) = SegmentationParts(*ctx.saved_tensors[:3]), ctx.saved_tensors[3:]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(parts, cells, lengths)
            wanted = [w for w, need in zip(parts.tables(), ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in ctx.needs_input_grad[:3]), None, None
        if grad.numel() and bool((grad == grad[0]).all()):
            counts, factor = ctx.counts, float(grad[0])
        else:
            counts, factor = kernel_pass(parts, cells, lengths, grad)[1], 1.0
        result = (counts.segments, counts.length, counts.stop)
        scaled = result if factor == 1 else tuple(c * factor for c in result)
        return *(c if need else None for c, need in zip(scaled, ctx.needs_input_grad, strict=False)), None, None


def kernel_pass(
    parts: SegmentationParts, cells: Tensor, lengths: Tensor, scale: Tensor | None = None, want: bool = True
) -> tuple[Tensor, SegmentationTables | None]:
    """log Z of each sentence in float64, (B,), and expected counts, each sentence weighed by its scale."""
    from ..kernels.segmentation import segmentation_pass

    weigh = None if scale is None else scale.double().contiguous().numpy()
    return segmentation_pass(
        parts.kernel_weights(), kernel_cells(cells).numpy(), offsets_of(lengths).numpy(), weigh, want
    )


def kernel_cells(cells: Tensor) -> Tensor:
    """The numbers of the segments as the kernels want them."""
    return cells.to(torch.int32).contiguous()


def _cells(table: Tensor, owner: Tensor, column: Tensor) -> Tensor:  # (*batch, C), (*m), (*m) -> (*lead, *m)
    """One cell for each segment; from the table of its own sentence, where every sentence has one."""
    if table.dim() > 1 and table.shape[-2] > 1:
        return table[..., owner, column]
    return (table.squeeze(-2) if table.dim() > 1 else table)[..., column]
