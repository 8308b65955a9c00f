"""The counts of every mini-batch, as incremental EM remembers them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import FitError
from ..tables import Declaration, LazyTable
from .statistics import BatchCounts

#: Bytes that a tensor takes besides its numbers.
TENSOR = 512


class CountsByBatch:
    """By mini-batch, its counts of what it touches, and what its posterior adds to the bound besides.

    The bound of one mini-batch is ``rest + counts . log-weights``, whatever the weights are by now.
    """

    def __init__(self) -> None:
        self._parts: dict[int, BatchCounts] = {}
        self._rest: dict[int, float] = {}

    def copy(self) -> CountsByBatch:
        """The same counts; those of a mini-batch can then be replaced in one of the two."""
        new = CountsByBatch()
        new._parts, new._rest = dict(self._parts), dict(self._rest)
        return new

    @staticmethod
    def size(declaration: Declaration, dtype: torch.dtype) -> int:
        """Bytes that the counts of a mini-batch take if it declares the table like this."""
        touched, layout = declaration.touched, declaration.layout
        columns = layout.shape[-1] if touched is None else len(touched)
        rows = layout.rows.numel() if layout.row_lengths is None else 1
        counts = TENSOR + rows * columns * dtype.itemsize
        return counts if touched is None else counts + TENSOR + touched.nbytes

    def __len__(self) -> int:
        return len(self._parts)

    def fits(self, batches: int) -> bool:
        """Whether there may be so many mini-batches."""
        return max(self._parts, default=-1) < batches

    def put(
        self, batch: int, log_marginal: float, parts: BatchCounts, weights: Mapping[str, Tensor | LazyTable]
    ) -> None:
        """Keep the counts that a mini-batch has under these weights."""
        self._rest[batch] = log_marginal - product(parts, weights)
        self._parts[batch] = {name: (touched, counts.contiguous()) for name, (touched, counts) in parts.items()}

    def parts(self, batch: int) -> BatchCounts:
        """The counts of a mini-batch; none if it has not been seen."""
        return self._parts.get(batch, {})

    def rest(self) -> float:
        """What all mini-batches add to the bound that does not depend on the weights."""
        return math.fsum(self._rest.values())

    def bound(self, weights: Mapping[str, Tensor | LazyTable]) -> float:
        """The bound under any weights."""
        return self.rest() + math.fsum(product(parts, weights) for parts in self._parts.values())

    def totals(self, declarations: Mapping[str, Declaration], dtype: torch.dtype) -> dict[str, Tensor]:
        """Counts of all mini-batches together."""
        found = {name: torch.zeros(d.layout.shape, dtype=dtype) for name, d in declarations.items()}
        for batch in sorted(self._parts):
            for name, (touched, counts) in self._parts[batch].items():
                if touched is None:
                    found[name] += counts
                else:
                    found[name].index_add_(-1, touched, counts)
        return found

    def tensors(self) -> dict[str, Tensor]:
        """All of it, end to end."""
        order = sorted(self._parts)
        found = {
            "store.batches": torch.tensor(order, dtype=torch.long),
            "store.rest": torch.tensor([self._rest[i] for i in order], dtype=torch.float64),
        }
        for name in self._parts[order[0]] if order else ():
            touched = [self._parts[i][name][0] for i in order]
            found[f"store.{name}.sizes"] = torch.tensor([-1 if at is None else len(at) for at in touched])
            found[f"store.{name}.touched"] = torch.cat([torch.zeros(0).long() if at is None else at for at in touched])
            found[f"store.{name}.counts"] = torch.cat([self._parts[i][name][1].reshape(-1) for i in order])
        return found

    def restore(self, state: Mapping[str, Tensor], declarations: Mapping[str, Declaration]) -> None:
        """Go on from :meth:`tensors`."""
        try:
            order = state["store.batches"].tolist()
            rest = state["store.rest"].tolist()
            parts: list[dict[str, tuple[Tensor | None, Tensor]]] = [{} for _ in order]
            for name, declaration in declarations.items() if order else ():
                layout = declaration.layout
                sizes = state[f"store.{name}.sizes"].tolist()
                touched = state[f"store.{name}.touched"].split([max(n, 0) for n in sizes])
                rows = () if layout.row_lengths is not None else tuple(layout.rows)
                shapes = [(*rows, layout.shape[-1] if n < 0 else n) for n in sizes]
                counts = state[f"store.{name}.counts"].split([math.prod(shape) for shape in shapes])
                for i, n in enumerate(sizes):
                    if n >= 0:
                        check_columns(touched[i], layout.shape[-1])
                    parts[i][name] = (None if n < 0 else touched[i].clone(), counts[i].reshape(shapes[i]).clone())
            if not all(isinstance(i, int) and i >= 0 for i in order) or len({*order}) != len(order):
                raise ValueError("the numbers of the mini-batches")
            self._parts, self._rest = dict(zip(order, parts, strict=True)), dict(zip(order, rest, strict=True))
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise FitError(f"the fit to go on from does not hold the counts of its mini-batches: {said:.200}") from None


def check_columns(touched: Tensor, columns: int) -> None:
    """Raise unless these are columns of a table that has so many."""
    if touched.dtype not in (torch.int32, torch.long) or (
        len(touched) and not 0 <= int(touched.min()) <= int(touched.max()) < columns
    ):
        raise ValueError(f"expected columns from 0 to {columns - 1}")


def product(parts: BatchCounts, weights: Mapping[str, Tensor | LazyTable]) -> float:
    """Counts times log-weights. A weight without counts may be -inf."""
    total = 0.0
    for name, (touched, counts) in parts.items():
        table = weights[name]
        if isinstance(table, LazyTable):
            logs = table.log_weights(touched)
        else:
            logs = table if touched is None else table[..., touched]
        total += float(torch.where(counts > 0, counts * logs, 0.0).sum())
    return total
