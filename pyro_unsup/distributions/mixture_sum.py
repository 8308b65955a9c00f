"""Summing over the clusters of a bag of words: the readable definition, and the compiled one behind its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .ragged import offsets_of
from .semiring import LOG, Sum


def weights_batch(cluster: Tensor, words: Tensor) -> Size:
    """The batch axes of the weights."""
    shapes = cluster.shape[:-1], words.shape[:-2]
    return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()


def cluster_scores(
    cluster: Tensor,  # (*batch, K)
    words: Tensor,  # (*batch, K, V)
    bags: Tensor,  # (cells, 2)
    lengths: Tensor,  # (B,)
) -> Tensor:  # (*batch, B, K)
    """log p(bag, cluster): the weight of the cluster, and of each word as often as it occurs."""
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)  # (cells,)
    word, times = bags[:, 0].long(), bags[:, 1:].to(words.dtype)
    rows = words.mT  # (*batch, V, K)
    if rows.dim() > 2 and rows.shape[-3] > 1:  # every bag has weights of its own
        each = rows[..., owner, word, :]
    else:
        each = (rows.squeeze(-3) if rows.dim() > 2 else rows)[..., word, :]  # (*batch, cells, K)
    total = each.new_zeros(*each.shape[:-2], len(lengths), each.shape[-1]).index_add(-2, owner, times * each)
    return total + (cluster if cluster.dim() > 1 else cluster.unsqueeze(-2))


def reference_log_partition(
    cluster: Tensor, words: Tensor, bags: Tensor, lengths: Tensor, sum_: Sum = LOG
) -> Tensor:  # (*batch, B)
    """The meaning of a mixture: the sum over clusters, in any semiring; any device, batch and order of gradient."""
    return sum_(cluster_scores(cluster, words, bags, lengths), -1)


def log_partition(cluster: Tensor, words: Tensor, bags: Tensor, lengths: Tensor) -> Tensor:  # (B,)
    """log Z under one set of weights, (K,) and (K, V): the kernel on CPU, elsewhere the definition."""
    if bags.device.type != "cpu" or words.device.type != "cpu":
        return reference_log_partition(cluster, words, bags, lengths)
    with plain_torch():
        total: Tensor = _KernelSum.apply(cluster, words, bags.contiguous(), lengths)
    return total


def check_bags(cluster: Tensor, words: Tensor, bags: Tensor) -> None:
    """Raise unless weights are weights, and every word has its column."""
    for name, table in (("cluster", cluster), ("words", words)):
        if table.dtype != words.dtype or not table.is_floating_point():
            raise StructureError(
                f"the weights of a mixture must have one floating dtype: words has {words.dtype}, "
                f"{name} has {table.dtype}"
            )
        if table.numel() and not float(table.detach().max()) < torch.inf:
            raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")
    from ..kernels.mixture import bags_within  # numba loads when it is first needed

    V = words.shape[-1]
    if bags_within(bags.cpu().contiguous().numpy(), V):
        return
    least, most = int(bags[:, 0].min()), int(bags[:, 0].max())
    if least < 0 or most >= V:
        raise StructureError(
            f"words must lie in 0 .. {V - 1} (the table has {V} columns), actual range {least} .. {most}"
        )
    raise StructureError(f"a word in a bag occurs at least once, actual smallest = {int(bags[:, 1].min())}")


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel, whose counts are the gradient. They come from the same pass, so backward is nearly free."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        log_z, ctx.counts = _run(inputs, None, any(ctx.needs_input_grad))
        return log_z.to(inputs[1].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, needs = ctx.saved_tensors, ctx.needs_input_grad[:2]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(*inputs)
            wanted = [w for w, need in zip(inputs, needs, strict=False) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in needs), None, None
        if grad.numel() and bool((grad == grad[0]).all()):
            counts = ctx.counts if grad[0] == 1 else [c * grad[0] for c in ctx.counts]
        else:
            counts = _run(inputs, grad, True)[1]
        return *(c if need else None for c, need in zip(counts, needs, strict=True)), None, None


def _run(inputs: tuple[Tensor, ...], scale: Tensor | None, want: bool) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    from ..kernels.mixture import mixture_pass

    cluster, words, bags, lengths = (x.detach() for x in inputs)
    weigh = None if scale is None else scale.double().contiguous().numpy()
    return mixture_pass(cluster, words, bags.numpy(), offsets_of(lengths).numpy(), weigh, want)
