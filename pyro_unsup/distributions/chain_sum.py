"""Summing over the paths of a chain: the readable definition, and the compiled one behind the same gradient."""

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
    from ..kernels.chain import ChainTables


@dataclass
class ChainParts:
    """A chain's log-weights in one form for both orders.

    The context of a state is (a, b): b the state before it, and a the one before b. In a first-order chain a is always
    0; in a second-order chain a = K stands for "b is the first state".

    :param start: (*batch, K).
    :param trans: (*batch, A, K, K) axes (a, b, new); A = 1 for the first order, K + 1 for the second.
    :param stop: (*batch, A, K) axes (a, b); zeros without a stop event.
    :param emission: (*batch, K, V).
    """

    start: Tensor
    trans: Tensor
    stop: Tensor
    emission: Tensor

    @staticmethod
    def of(start: Tensor, transition: Tensor, second: Tensor | None, emission: Tensor) -> ChainParts:
        """From the tables that users give."""
        K = start.shape[-1]
        if second is None:
            full = transition.unsqueeze(-3)
        else:
            batch = torch.broadcast_shapes(transition.shape[:-3], second.shape[:-2])
            full = torch.cat(
                [
                    transition.expand(*batch, *transition.shape[-3:]),
                    second.expand(*batch, *second.shape[-2:]).unsqueeze(-3),
                ],
                -3,
            )
        stop = full[..., K] if full.shape[-1] > K else full.new_zeros(full.shape[:-1])
        return ChainParts(start, full[..., :K], stop, emission)

    @property
    def second_order(self) -> bool:
        return self.trans.shape[-3] > 1

    @property
    def batch_shape(self) -> Size:
        shapes = (self.start.shape[:-1], self.trans.shape[:-3], self.stop.shape[:-2], self.emission.shape[:-2])
        return Size(torch.broadcast_shapes(*shapes))

    def squeezed(self) -> ChainParts:
        """Without batch axes of size 1."""
        K, V = self.emission.shape[-2:]
        A = self.trans.shape[-3]
        if self.batch_shape.numel() != 1:
            raise StructureError(f"one set of weights expected, actual batch of weights {tuple(self.batch_shape)}")
        return ChainParts(
            self.start.reshape(K), self.trans.reshape(A, K, K), self.stop.reshape(A, K), self.emission.reshape(K, V)
        )

    def check(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        for name, table in (
            ("start", self.start),
            ("transition", self.trans),
            ("stop", self.stop),
            ("emission", self.emission),
        ):
            if table.dtype != self.start.dtype or not table.is_floating_point():
                raise StructureError(
                    f"the weights of a chain must have one floating dtype: start has {self.start.dtype}, "
                    f"{name} has {table.dtype}"
                )
            if table.numel() and not float(table.detach().amax()) < torch.inf:
                raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def detach(self) -> ChainParts:
        return ChainParts(*(x.detach() for x in (self.start, self.trans, self.stop, self.emission)))

    def kernel_weights(self) -> ChainTables:
        from ..kernels.chain import ChainTables  # numba loads when it is first needed

        return ChainTables(*(x.detach() for x in (self.start, self.trans, self.stop, self.emission)))


def path_sum(
    start: Tensor,  # (*batch, K)
    trans: Tensor,  # (*batch, A, K, K)
    stop: Tensor,  # (*batch, A, K)
    emitted: Tensor,  # (*batch, T, K) emission weights of the words that are there
    lengths: Tensor,  # (*batch,)
    sum_: Sum = LOG,
) -> Tensor:  # (*batch,)
    """The meaning of a chain: the sum over all paths, in any semiring.

    The message at t holds, for every context (a, b) that ends there, the sum over all ways to arrive::

        m_1[pad, b] = start[b] + emitted_1[b]
        m_t[b, c]   = emitted_t[c] + sum_a  m_{t-1}[a, b] + trans[a, b, c]      second order
        m_t[0, c]   = emitted_t[c] + sum_b  m_{t-1}[0, b] + trans[0, b, c]      first order
        total       = sum_{a, b}  m_n[a, b] + stop[a, b]
    """
    second = trans.shape[-3] > 1
    K = start.shape[-1]
    batch = torch.broadcast_shapes(start.shape[:-1], trans.shape[:-3], emitted.shape[:-2], lengths.shape)
    lengths = lengths.expand(batch)
    if emitted.shape[-2] == 0:
        return start.new_zeros(batch)

    def with_pads(rows: Tensor) -> Tensor:  # (*batch, K, K) -> (*batch, K + 1, K)
        return torch.cat([rows, rows.new_full((*rows.shape[:-2], 1, K), -torch.inf)], -2)

    message = (start + emitted[..., 0, :]).unsqueeze(-2).expand(*batch, 1, K)  # (*batch, A, K)
    if second:
        message = torch.cat([message.new_full((*batch, K, K), -torch.inf), message], -2)
    for t in range(1, emitted.shape[-2]):
        step = message.unsqueeze(-1) + trans  # (*batch, A, K, K)
        arrived = sum_(step, -3 if second else -2) + emitted[..., t, :].unsqueeze(-2)
        arrived = with_pads(arrived) if second else arrived
        message = torch.where((t < lengths)[..., None, None], arrived, message)
    total = sum_((message + stop).flatten(-2), -1)
    return torch.where(lengths > 0, total, torch.zeros_like(total))


def reference_log_partition(parts: ChainParts, padded: Tensor, lengths: Tensor, sum_: Sum = LOG) -> Tensor:
    """:func:`path_sum` of padded words, (*batch, T) -> (*batch,): any device, any batch, any order of gradient."""
    batch = torch.broadcast_shapes(parts.batch_shape, padded.shape[:-1], lengths.shape)
    rows = parts.emission.mT  # (*batch, V, K)
    if rows.dim() == 2:
        emitted = rows[padded]
    else:
        index = padded.expand(*batch, -1).unsqueeze(-1).expand(*batch, -1, rows.shape[-1])
        emitted = rows.expand(*batch, *rows.shape[-2:]).gather(-2, index)
    return path_sum(parts.start, parts.trans, parts.stop, emitted, lengths, sum_)


def log_partition(parts: ChainParts, words: Tensor, lengths: Tensor) -> Tensor:
    """log Z of flat words under one set of weights, (tokens,), (B,) -> (B,): the kernel on CPU, else the definition."""
    if words.device.type != "cpu" or parts.start.device.type != "cpu":
        parts.check()
        return reference_log_partition(parts, pad(words, lengths).long(), lengths)
    with plain_torch():
        parts.check()
        total: Tensor = _KernelSum.apply(parts.start, parts.trans, parts.stop, parts.emission, words, lengths)
    return total


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel, whose counts are the gradient. They come from the same pass, so backward is nearly free."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        log_z, ctx.counts = _run(inputs, None, any(ctx.needs_input_grad))
        return log_z.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, (words, lengths) = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(ChainParts(*weights), pad(words, lengths).long(), lengths)
            wanted = [w for w, need in zip(weights, ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in ctx.needs_input_grad[:4]), None, None
        if grad.numel() and bool((grad == grad[0]).all()):
            counts, factor = ctx.counts, grad[0]
        else:
            counts, factor = _run((*weights, words, lengths), grad, True)[1], None
        result = (counts.start, counts.trans, counts.stop, counts.emit)
        scaled = result if factor is None or factor == 1 else tuple(c * factor for c in result)
        return *(c if need else None for c, need in zip(scaled, ctx.needs_input_grad, strict=False)), None, None


def _run(inputs: tuple[Tensor, ...], scale: Tensor | None, want: bool) -> tuple[Tensor, ChainTables | None]:
    from ..kernels.chain import chain_pass

    parts = ChainParts(*inputs[:4])
    weigh = None if scale is None else scale.double().numpy()
    return chain_pass(
        parts.kernel_weights(), inputs[4].contiguous().numpy(), offsets_of(inputs[5]).numpy(), weigh, want
    )
