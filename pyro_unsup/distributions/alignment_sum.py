"""Summing over alignments, where every word chooses alone: the readable definition, and the compiled one behind it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .alignment_grid import Grid
from .semiring import LOG, Sum

if TYPE_CHECKING:
    from ..kernels.alignment import Real, Totals


@dataclass
class AlignmentParts:
    """Log-weights of one direction.

    :param translation: (*batch, C) the table.
    :param null: (*batch, B) of choosing the null word, by pair.
    :param word: (*batch, B) of choosing any other word.
    """

    translation: Tensor
    null: Tensor
    word: Tensor

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.translation, self.null, self.word

    @property
    def batch_shape(self) -> Size:
        shapes = [x.shape[:-1] for x in self.tables()]
        return Size(torch.broadcast_shapes(*shapes)) if any(shapes) else Size()

    def squeezed(self) -> AlignmentParts:
        """Without batch axes of size 1."""
        return AlignmentParts(*(x.reshape(-1) for x in self.tables()))

    def check(self) -> None:
        """Raise unless every log-weight is a number below +inf, or -inf, and all are of one dtype."""
        for name, table in zip(("translation", "null", "word"), self.tables(), strict=True):
            if table.dtype != self.translation.dtype or not table.is_floating_point():
                raise StructureError(
                    f"the weights of an alignment must have one floating dtype: translation has "
                    f"{self.translation.dtype}, {name} has {table.dtype}"
                )
            if table.numel() and not float(table.detach().max()) < torch.inf:
                raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")

    def real(self) -> Real:
        from ..kernels.alignment import Real

        return Real.of(*(x.detach().numpy() for x in self.tables()))


@dataclass
class Choices:
    """The cells that one direction uses, word by word.

    :param cell: (n,) which cell of the grids, sorted by the word that chooses.
    :param chooser: (n,) that word, numbered as they come.
    :param owner: (choosers,) the pair of each.
    :param pair: (n,) the pair of each cell.
    :param null: (n,) whether choosing it is choosing the null word.
    """

    cell: Tensor
    chooser: Tensor
    owner: Tensor
    pair: Tensor
    null: Tensor

    @staticmethod
    def of(grid: Grid, turned: bool) -> Choices:
        row, column = grid.parts()
        down, pair = grid.place[row], grid.pair[row]
        cell = ((down if turned else column) > 0).nonzero()[:, 0]
        row, column, down, pair = row[cell], column[cell], down[cell], pair[cell]
        choosers = row if turned else grid.targets[pair] + column - 1
        # The null word first, then the others as they stand in their sentence, wherever their rows are.
        other = column if turned else down
        order = torch.argsort(choosers * (int(other.max()) + 1 if len(other) else 1) + other)
        _, chooser = torch.unique_consecutive(choosers[order], return_inverse=True)
        pair, cell = pair[order], cell[order]
        first = torch.ones_like(chooser, dtype=torch.bool)
        first[1:] = chooser[1:] != chooser[:-1]
        return Choices(cell, chooser, pair[first], pair, other[order] == 0)

    def scores(self, parts: AlignmentParts, value: Tensor) -> Tensor:  # (cells,) -> (*batch, n)
        """The log-weight of each choice."""
        choice = torch.where(self.null, parts.null[..., self.pair], parts.word[..., self.pair])
        return parts.translation[..., value[self.cell].long()] + choice

    def by_pair(self, each: Tensor, pairs: int) -> Tensor:  # (*batch, choosers) -> (*batch, B)
        return each.new_zeros(*each.shape[:-1], pairs).index_add(-1, self.owner, each)


def choice_sum(scores: Tensor, chooser: Tensor, sum_: Sum = LOG) -> Tensor:  # (*batch, n), (n,) -> (*batch, choosers)
    """The meaning of an alignment: every word sums over its own choices, in any semiring."""
    sizes = torch.bincount(chooser)
    n, width = len(sizes), int(sizes.max()) if len(sizes) else 1
    place = torch.arange(len(chooser)) - (sizes.cumsum(0) - sizes)[chooser] + chooser * width
    empty = scores.new_full((*scores.shape[:-1], n * width), -torch.inf)
    return sum_(empty.index_copy(-1, place, scores).unflatten(-1, (n, width)), -1)


def reference_log_partition(
    parts: AlignmentParts, value: Tensor, grid: Grid, turned: bool, sum_: Sum = LOG
) -> Tensor:  # (cells,) -> (*batch, B)
    """:func:`choice_sum` of all words, pair by pair: any batch of weights, any order of gradient."""
    choices = Choices.of(grid, turned)
    return choices.by_pair(choice_sum(choices.scores(parts, value), choices.chooser, sum_), len(grid))


def check_cells(parts: AlignmentParts, value: Tensor, grid: Grid, turned: bool) -> None:
    """Raise unless weights are weights, and every cell that this direction uses is in its table."""
    from ..kernels.alignment_sweeps import cells_within

    with plain_torch():
        parts.check()
    size, rows = parts.translation.shape[-1], grid.rows
    known = grid.fitting.get(turned)
    if known is not None and known[0]() is value and known[1:] == (value._version, size):
        return
    if not cells_within(value.numpy(), rows.starts, rows.null, size, turned):
        used = value[Choices.of(grid, turned).cell]
        raise StructureError(
            f"cells must lie in 0 .. {size - 1} (the table has {size}), actual range {int(used.min())} .. "
            f"{int(used.max())}"
        )
    grid.fitting[turned] = (weakref.ref(value), value._version, size)


def log_partition(parts: AlignmentParts, value: Tensor, grid: Grid, turned: bool) -> Tensor:
    """log Z under one set of weights, (cells,) -> (B,), by the kernel."""
    with plain_torch():
        total: Tensor = _KernelSum.apply(*parts.tables(), value, grid, turned)
    return total


class _KernelSum(torch.autograd.Function):
    """log Z by one sweep of the kernel; backward is another, that counts."""

    @staticmethod
    def forward(
        ctx: Any, translation: Tensor, null: Tensor, word: Tensor, value: Tensor, grid: Grid, turned: bool
    ) -> Tensor:
        ctx.save_for_backward(translation, null, word, value)
        ctx.grid, ctx.turned = grid, turned
        *ctx.swept, log_z = sweep(AlignmentParts(translation, null, word), value, grid, turned)
        ctx.possible = log_z > -torch.inf
        return log_z.to(translation.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *weights, value = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            total = reference_log_partition(AlignmentParts(*weights), value, ctx.grid, ctx.turned)
            wanted = [w for w, need in zip(weights, needs, strict=True) if need]
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True, materialize_grads=True))
            return *(next(found) if need else None for need in needs), None, None, None
        scale = torch.where(ctx.possible, grad.double(), 0.0)
        with plain_torch():
            parts = AlignmentParts(*weights)
            swept = ctx.swept or sweep(parts, value, ctx.grid, ctx.turned)
            ctx.swept = None  # large, and seldom asked for twice
            result = expected_counts(parts, value, ctx.grid, ctx.turned, swept[:2], scale, needs[1:])
        return *(c if need else None for c, need in zip(result, needs, strict=True)), None, None, None


def sweep(parts: AlignmentParts, value: Tensor, grid: Grid, turned: bool) -> tuple[Real, Totals, Tensor]:
    """Weights in real space, totals by the kernel, and log Z (B,) in float64, out of range or not."""
    from ..kernels.alignment import totals

    real = parts.real()
    found = totals(real, value.numpy(), grid.rows, turned)
    log_z = torch.from_numpy(found.log_z)
    if found.trouble.any():
        again, small, cells = hard_pairs(found.trouble, grid)
        log_z[again] = reference_log_partition(of_pairs(parts, again), value[cells], small, turned).detach()
    return real, found, log_z


def hard_pairs(trouble: np.ndarray[Any, Any], grid: Grid) -> tuple[Tensor, Grid, Tensor]:  # (B,)
    """The pairs whose sums go out of range, their grid, and its cells."""
    again = torch.from_numpy(trouble).nonzero()[:, 0]
    return again, *grid.select(again)


def expected_counts(
    parts: AlignmentParts,
    value: Tensor,
    grid: Grid,
    turned: bool,
    swept: tuple[Real, Totals],
    scale: Tensor,  # (B,) float64
    wanted: tuple[bool, ...] = (True, True),
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # (C,), (B,), (B,)
    """How often each weight is used, each pair weighed by a scale; by pair only where it is wanted."""
    from ..kernels.alignment import counts

    real, found = swept
    table = torch.from_numpy(counts(real, value.numpy(), grid.rows, turned, found, scale.numpy()))
    if found.trouble.any():
        again, small, cells = hard_pairs(found.trouble, grid)
        table += posteriors(of_pairs(parts, again), value[cells], small, turned).count(scale[again], len(table))
    dtype = parts.translation.dtype
    if not any(wanted):
        return table.to(dtype), None, None
    null = posteriors(parts, value, grid, turned).null_counts() * scale
    choosers = grid.source_lengths if turned else grid.target_lengths
    return table.to(dtype), null.to(dtype), (choosers * scale - null).to(dtype)


@dataclass
class Posteriors:
    """The probability of each choice, word by word.

    :param p: (n,) float64, 0 throughout a pair that has no alignment at all.
    """

    choices: Choices
    value: Tensor
    p: Tensor
    pairs: int

    def spread(self) -> Tensor:  # (cells,)
        """The same over all cells, 0 for those that this direction does not use."""
        return self.p.new_zeros(len(self.value)).index_copy(0, self.choices.cell, self.p)

    def count(self, scale: Tensor, size: int) -> Tensor:  # (B,) -> (C,)
        choices = self.choices
        used = self.value[choices.cell].long()
        return torch.zeros(size, dtype=torch.float64).index_add(0, used, self.p * scale[choices.pair])

    def null_counts(self) -> Tensor:  # (B,)
        each = torch.where(self.choices.null, self.p, 0.0)
        return torch.zeros(self.pairs, dtype=torch.float64).index_add(0, self.choices.pair, each)


def posteriors(parts: AlignmentParts, value: Tensor, grid: Grid, turned: bool) -> Posteriors:
    """The probability of each choice, in logs until the end."""
    choices = Choices.of(grid, turned)
    scores = choices.scores(AlignmentParts(*(x.detach().double() for x in parts.tables())), value)
    each = choice_sum(scores, choices.chooser)
    dead = choices.by_pair((each == -torch.inf).double(), len(grid)) > 0
    safe = torch.where(each == -torch.inf, 0.0, each)
    p = torch.where(dead[choices.pair], 0.0, (scores - safe[choices.chooser]).exp())
    return Posteriors(choices, value, p, len(grid))


def of_pairs(parts: AlignmentParts, pairs: Tensor) -> AlignmentParts:
    """The same weights for some of the pairs, in float64."""
    translation, null, word = (x.detach().double() for x in parts.tables())
    return AlignmentParts(translation, null[pairs], word[pairs])
