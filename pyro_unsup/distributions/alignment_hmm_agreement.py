"""Two directions of alignment by jumps that learn from where they agree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .agreement import Agreement
from .alignment_hmm import AlignmentHMM
from .alignment_hmm_sum import HMMParts, others, same, swept


class HMMAgreement(Agreement):
    """:class:`.Agreement` of two :class:`.AlignmentHMM`.

    A link counts for the tables of translations as often as both directions expect it, one expectation times the other.
    Everything else counts as it does in its own direction: words without a link, jumps, and how often there is a link
    at all.

    >>> import torch
    >>> from pyro_unsup.distributions import AlignmentHMM, HMMAgreement
    >>> from pyro_unsup.distributions.alignment_grid import Grid
    >>> grid, jump = Grid(torch.tensor([2]), torch.tensor([2])), torch.zeros(3, 11)
    >>> value = torch.tensor([1, 1, 1, 1, 0, 0, 1, 0, 0])  # a null row, then null column and two cells of each word
    >>> forward, backward = (AlignmentHMM(torch.zeros(2), grid, jump, turned=turned) for turned in (False, True))
    >>> HMMAgreement(forward, backward, shared=1).posterior(value).counts["forward.translation"]
    tensor([0.4444, 0.6667])

    **References:** [1] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    """

    forward: AlignmentHMM
    backward: AlignmentHMM

    def __init__(self, forward: AlignmentHMM, backward: AlignmentHMM, shared: int) -> None:
        super().__init__(forward, backward, shared)

    def log_prob(self, value: Tensor) -> Tensor:  # (cells,) -> batch_shape
        weights: list[Tensor] = []
        for one in (self.forward, self.backward):
            one._data(value)
            if one._all.batch_shape.numel() != 1:
                raise StructureError(f"agreement wants one set of weights, actual {tuple(one._all.batch_shape)}")
            weights += one._all.squeezed().tables()
        self._check_null(value)
        with plain_torch():
            total: Tensor = _Agreed.apply(*weights, value, self)
        return total.expand(torch.broadcast_shapes(total.shape, self._batch_shape))


class _Agreed(torch.autograd.Function):
    """Both log-likelihoods forward, merged counts backward."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *weights, value, dist = inputs
        ctx.save_for_backward(*weights, value)
        ctx.dist = dist
        total, ctx.counts = _sweep(weights, value, dist, any(ctx.needs_input_grad), None)
        ctx.possible = total > -torch.inf
        return total.to(weights[0].dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *weights, value = ctx.saved_tensors
        with plain_torch():
            if same(grad):
                result = [c * grad[0] for c in ctx.counts] if len(grad) and grad[0] != 1 else ctx.counts
            else:
                result = _sweep(weights, value, ctx.dist, True, torch.where(ctx.possible, grad.double(), 0.0))[1]
        needs = ctx.needs_input_grad[: len(weights)]
        return *(c if need else None for c, need in zip(result, needs, strict=True)), None, None


def _sweep(
    weights: list[Tensor], value: Tensor, dist: HMMAgreement, want: bool, scale: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """The sum of both log-likelihoods (B,), and the counts of all weights, pairs weighed by a scale."""
    from ..kernels.alignment_hmm import agreed_counts

    grid, half, dtype = dist.forward.grid, len(weights) // 2, weights[0].dtype
    found = [
        swept(HMMParts(*weights[way * half : (way + 1) * half]), value, grid, way == 1, want, scale) for way in (0, 1)
    ]
    total = torch.from_numpy(found[0].log_z + found[1].log_z)
    if not want:
        return total, []
    possible = total > -torch.inf
    if scale is None and not bool(possible.all()):  # what is impossible one way does not count the other way either
        return _sweep(weights, value, dist, want, possible.double())
    scale = torch.ones(len(grid), dtype=torch.float64) if scale is None else scale
    sizes = (len(weights[0]), len(weights[half]))
    posteriors = (found[0].posterior, found[1].posterior)
    tables = agreed_counts(posteriors, value.numpy(), grid.rows, dist.shared, scale.numpy(), sizes)
    counts: list[Tensor] = []
    for way, (one, table) in enumerate(zip(found, tables, strict=True)):
        counts += [torch.from_numpy(table).to(dtype), *others(one, dtype, grid, way == 1, scale)]
    return total, counts
