"""Summing over dependency trees: the readable definition, and the compiled one behind its gradient."""

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
    from ..kernels.dependency import DependencySums, DependencyTables

#: Directions, adjacencies and decisions, in the order of the axes of ``stop``.
LEFT, RIGHT = 0, 1
ADJACENT, BEYOND = 0, 1
STOP, CONTINUE = 0, 1


def arc_lengths(lengths: Tensor) -> Tensor:  # (B,) -> (B,)
    """How many cells for arcs each sentence has."""
    return lengths * (lengths + 1)


def arcs_of(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B,) -> three of (cells,)
    """The sentence, head and child of every cell for an arc: sentence by sentence, a row for each child, and in it a
    column for each head. Children are numbered from 1, and head 0 is the root. A word has a cell as its own head, too,
    that is never used.

    >>> import torch
    >>> from pyro_unsup.distributions.dependency_sum import arcs_of
    >>> [x.tolist() for x in arcs_of(torch.tensor([1, 2]))]
    [[0, 0, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 2, 0, 1, 2], [1, 1, 1, 1, 1, 2, 2, 2]]
    """
    device = lengths.device
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)  # one row a child
    child = torch.arange(len(sentence), device=device) - offsets_of(lengths)[sentence] + 1
    size = lengths[sentence] + 1
    row = torch.repeat_interleave(torch.arange(len(size), device=device), size)
    return sentence[row], torch.arange(len(row), device=device) - offsets_of(size)[row], child[row]


@dataclass
class DependencyParts:
    """Log-weights in one form.

    :param root: (*batch, K) of each tag as the root.
    :param attach: (*batch, K, 2, K) axes (head, direction, child).
    :param stop: (*batch, K, 2, 2, 2) axes (head, direction, adjacency, decision).
    :param arcs: (cells,) of each arc, in the order of :func:`arcs_of`; empty if all are alike.
    """

    root: Tensor
    attach: Tensor
    stop: Tensor
    arcs: Tensor

    def tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.root, self.attach, self.stop, self.arcs

    @property
    def batch_shape(self) -> Size:
        shapes = (self.root.shape[:-1], self.attach.shape[:-3], self.stop.shape[:-4])
        return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()

    def squeezed(self) -> DependencyParts:
        """Without batch axes of size 1."""
        if self.batch_shape.numel() != 1:
            raise StructureError(f"one set of weights expected, actual batch of weights {tuple(self.batch_shape)}")
        root, attach, stop, arcs = self.tables()
        return DependencyParts(root.reshape(-1), attach.reshape(attach.shape[-3:]), stop.reshape(stop.shape[-4:]), arcs)

    def check(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        for name, table in zip(("root", "attach", "stop", "arcs"), self.tables(), strict=True):
            if table.dtype != self.root.dtype or not table.is_floating_point():
                raise StructureError(
                    f"the weights of dependencies must have one floating dtype: root has {self.root.dtype}, "
                    f"{name} has {table.dtype}"
                )
            if table.numel() and not float(table.detach().max()) < torch.inf:
                raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def kernel_weights(self) -> DependencyTables:
        from ..kernels.dependency import DependencyTables  # numba loads when it is first needed

        return DependencyTables(*(x.detach() for x in self.tables()))

    def arc_scores(
        self,
        tags: Tensor,  # (tokens,)
        lengths: Tensor,  # (B,)
        owner: Tensor,  # (m,) sentences
        head: Tensor,  # (m,) 0 .. n
        child: Tensor,  # (m,) 1 .. n
    ) -> Tensor:  # (*batch, m)
        """The log-weights of arcs, without ``arcs``; -inf from a word to itself."""
        first = offsets_of(lengths)[owner] - 1
        c = tags[first + child]
        h = tags[first + torch.where(head > 0, head, child)]
        each = torch.where(
            head > 0,
            cells(self.attach, 3, owner, h, (head < child).long(), c),
            cells(self.root, 1, owner, c),
        )
        return torch.where(head == child, -torch.inf, each)


def dependency_sum(
    root: Tensor,  # (*batch, N) of each word as the root
    arc: Tensor,  # (*batch, N, N) axes (head, child)
    stop: Tensor,  # (*batch, N, 2, 2, 2) axes (head, direction, adjacency, decision)
    lengths: Tensor,  # (*batch,)
    sum_: Sum = LOG,
) -> Tensor:  # (*batch,)
    """The meaning of dependencies: the sum over all projective trees with one root, in any semiring.

    Heads are split: the words to the left of a head and those to the right of it are generated apart. A right half of
    i .. j is i with children to its right and all below them; the last word is j. It is open if it goes on to one more
    child, and sealed if it stops. One with an arc ends in the child attached last, of which only the left half is there
    yet::

        sealed[i, i] = stop[i, adjacent]               open[i, i] = continue[i, adjacent]
        arced[i, j]  = arc[i -> j] + sum_{i <= k < j}  open[i, k] + left_sealed[k + 1, j]
        whole[i, j]  = sum_{i < k <= j}  arced[i, k] + sealed[k, j]
        sealed[i, j] = whole[i, j] + stop[i, beyond]   open[i, j] = whole[i, j] + continue[i, beyond]
        total        = sum_r  root[r] + left_sealed[0, r] + sealed[r, n - 1]

    and the same to the left, in a mirror.
    """
    N = root.shape[-1]

    def ends(adjacency: int, w: int) -> Tensor:  # (*batch, N - w, 2, 2) axes (first word, direction, decision)
        """What seals halves of width w, or leaves them open."""
        left, right = stop[..., w:, LEFT, adjacency, :], stop[..., : N - w, RIGHT, adjacency, :]
        return torch.stack([left, right], -2)

    # Lists by width. Halves are (*batch, N - width, 2, 2), sealed and open; with an arc, (*batch, N - width, 2).
    halves, arced = [ends(ADJACENT, 0)], [root]  # a half of one word has no arc: never looked at
    for w in range(1, N):
        S = N - w
        arcs = torch.stack([arc.diagonal(-w, -2, -1), arc.diagonal(w, -2, -1)], -1)
        # A right half meets a left one. The one that is open is the head: arcs go left if the right half is sealed.
        meet = [halves[v][..., :S, RIGHT, :] + halves[w - 1 - v][..., v + 1 :, LEFT, :].flip(-1) for v in range(w)]
        arced.append(arcs + sum_(torch.stack(meet, -1), -1))
        left = [halves[v][..., :S, LEFT, STOP] + arced[w - v][..., v:, LEFT] for v in range(w)]
        right = [arced[v][..., :S, RIGHT] + halves[w - v][..., v:, RIGHT, STOP] for v in range(1, w + 1)]
        whole = sum_(torch.stack([torch.stack(left, -1), torch.stack(right, -1)], -2), -1)
        halves.append(whole.unsqueeze(-1) + ends(BEYOND, w))
    first = torch.stack([row[..., 0, LEFT, STOP] for row in halves], -1)  # (*batch, N) from the first word to r
    # From r to the end of the sentence, (*batch, N); -inf where r is beyond the end.
    size = lengths.unsqueeze(-1) - 1 - torch.arange(N, device=lengths.device)
    padded = [torch.nn.functional.pad(row[..., RIGHT, STOP], (0, w)) for w, row in enumerate(halves)]
    rows = torch.stack(padded, -1)  # (*batch, N, N) by first word and width
    at = size.clamp(min=0).expand(rows.shape[:-1]).unsqueeze(-1)
    last = torch.where(size >= 0, rows.gather(-1, at).squeeze(-1), -torch.inf)
    return sum_(root + first + last, -1)


def reference_log_partition(parts: DependencyParts, tags: Tensor, lengths: Tensor, sum_: Sum = LOG) -> Tensor:
    """:func:`dependency_sum` of flat tags, (tokens,), (B,) -> (*batch, B): any device, any batch, any order of
    gradient."""
    tags, N, B = tags.long(), int(lengths.max()) if len(lengths) else 0, len(lengths)
    if N == 0:
        return parts.root.new_zeros(*parts.batch_shape[:-1], B)
    owner, head, child = arcs_of(lengths)
    scores = parts.arc_scores(tags, lengths, owner, head, child)  # (*lead, cells)
    scores = scores if parts.arcs.numel() == 0 else torch.where(head == child, scores, scores + parts.arcs)
    lead = scores.shape[:-1]
    empty = scores.new_zeros(*lead, B * N * (N + 1))
    chart = empty.index_copy(-1, (owner * N + child - 1) * (N + 1) + head, scores).reshape(*lead, B, N, N + 1)
    word = torch.repeat_interleave(torch.arange(B, device=tags.device), lengths)
    ends = cells(parts.stop, 4, word, tags).movedim(-4, 0)  # (tokens, *lead, 2, 2, 2)
    ends = pad(ends, lengths).movedim((0, 1), (-5, -4))  # (*lead, B, N, 2, 2, 2)
    total = dependency_sum(chart[..., 0], chart[..., 1:].mT, ends, lengths, sum_)
    total = torch.where(total == -torch.inf, -torch.inf, total)  # impossible: no gradient
    return torch.where(lengths > 0, total, torch.zeros_like(total))


def log_partition(parts: DependencyParts, tags: Tensor, lengths: Tensor) -> Tensor:
    """log Z under one set of weights, (tokens,), (B,) -> (B,): the kernel on CPU, elsewhere the definition."""
    if tags.device.type != "cpu" or parts.root.device.type != "cpu":
        return reference_log_partition(parts, tags, lengths)
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), tags, lengths)
    return total


def check_tags(parts: DependencyParts, tags: Tensor) -> None:
    """Raise unless weights are weights, and every tag has its own."""
    with plain_torch():
        parts.check()
        least, most = (int(x) for x in tags.aminmax()) if len(tags) else (0, 0)
    size = parts.root.shape[-1]
    if least < 0 or most >= size:
        raise StructureError(
            f"tags must lie in 0 .. {size - 1} (root has {size} weights), actual range {least} .. {most}"
        )


class _KernelSum(torch.autograd.Function):
    """log Z by the kernel, whose counts are the gradient. They come from the same pass, so backward is nearly free."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        need = ctx.needs_input_grad
        found = kernel_pass(DependencyParts(*inputs[:4]), inputs[4], inputs[5], want=any(need), parts_too=need[3])
        ctx.counts = found.counts
        return found.log_z.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        parts, (tags, lengths) = DependencyParts(*ctx.saved_tensors[:4]), ctx.saved_tensors[4:]
        need = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(parts, tags, lengths)
            wanted = [w for w, asked in zip(parts.tables(), need, strict=False) if asked]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if asked else None for asked in need[:4]), None, None
        counts, factor = ctx.counts, float(grad[0]) if grad.numel() else 1.0
        if grad.numel() and not bool((grad == grad[0]).all()):
            counts, factor = kernel_pass(parts, tags, lengths, grad).counts, 1.0
        result = [counts.root, counts.attach, counts.stop]
        scaled = result if factor == 1 else [c * factor for c in result]
        if need[3]:
            weigh = grad.double().repeat_interleave(arc_lengths(lengths))
            scaled.append((ctx.counts.arcs * weigh).to(parts.arcs.dtype))
        return *(c if asked else None for c, asked in zip([*scaled, None][:4], need, strict=False)), None, None


def kernel_pass(
    parts: DependencyParts,
    tags: Tensor,
    lengths: Tensor,
    scale: Tensor | None = None,
    want: bool = True,
    parts_too: bool = False,
) -> DependencySums:
    """log Z and expected counts, each sentence weighed by its scale; posteriors of arcs and decisions if asked for."""
    from ..kernels.dependency import dependency_pass

    weigh = None if scale is None else scale.double().contiguous().numpy()
    where = (kernel_tags(tags).numpy(), lengths.contiguous().numpy())
    return dependency_pass(parts.kernel_weights(), *where, weigh, want, parts_too)


def kernel_tags(tags: Tensor) -> Tensor:
    """Tags as the kernels want them."""
    return tags.long().contiguous()


def cells(
    table: Tensor, rank: int, owner: Tensor, *index: Tensor
) -> Tensor:  # (*batch, *rows), (m,) -> (*lead, m, *rest)
    """One cell for each item; from the table of its own sentence, where every sentence has one.

    :param rank: axes of the table that are no batch.
    """
    batch = table.dim() - rank
    where: tuple[Any, ...] = index
    if batch and table.shape[batch - 1] > 1:
        batch, where = batch - 1, (owner, *index)
    elif batch:
        table, batch = table.squeeze(batch - 1), batch - 1
    return table[(slice(None),) * batch + where]
