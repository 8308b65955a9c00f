"""Time series as models see them: numbers or vectors, one or several series, with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions.ragged import Rows, check_lengths, offsets_of
from ..errors import StructureError


@dataclass(frozen=True, eq=False)
class Series:
    """Series of observations, end to end.

    :param values: (N,) or (N, D). NaN is a missing value.
    :param lengths: (B,) observations of each series.

    >>> import numpy as np
    >>> from pyro_unsup.models import Series
    >>> both = Series.of([[1.0, 2.0, np.nan], [4.0, 5.0]])
    >>> both.values, both.lengths.tolist(), len(both)
    (tensor([1., 2., nan, 4., 5.], dtype=torch.float64), [3, 2], 2)
    """

    values: Tensor
    lengths: Tensor

    @staticmethod
    def of(data: Any, lengths: Any = None) -> Series:
        """Series from an array, a pandas column or table, or a list of such, one a series.

        :param data: (N,) or (N, D) of one series, or of several end to end if ``lengths`` are given; or a list of
            series.
        :param lengths: observations of each series.
        """
        if isinstance(data, Series):
            return data
        if lengths is None and isinstance(data, Sequence) and len(data) and _is_series(data[0]):
            pieces = [_numbers(one) for one in data]
            if len({piece.shape[1:] for piece in pieces}) > 1:
                shapes = sorted({tuple(piece.shape[1:]) for piece in pieces})
                raise StructureError(f"all series need observations of one shape, actual {shapes}")
            return Series(torch.cat(pieces), torch.tensor([len(piece) for piece in pieces]))
        values = _numbers(data)
        sizes = torch.tensor([len(values)]) if lengths is None else check_lengths(torch.as_tensor(lengths))
        if sizes.dim() != 1 or int(sizes.sum()) != len(values):
            raise StructureError(
                f"lengths should add up to the {len(values)} observations, actual sum {int(sizes.sum())}"
            )
        return Series(values, sizes)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """How many observations there are."""
        return len(self.values)

    @cached_property
    def observed(self) -> Tensor:  # (N,) bool
        """Observations of which at least a part is there."""
        seen = ~self.values.isnan()
        return seen if seen.dim() == 1 else seen.any(-1)

    @cached_property
    def offsets(self) -> Tensor:  # (B + 1,)
        """Where each series begins, and where the last one ends."""
        return offsets_of(self.lengths)

    def select(self, indices: Any) -> Series:
        """The series at these places, in this order."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        return Series(self.values[Rows(self.lengths).select(chosen)], self.lengths[chosen])

    def without(self, hidden: Tensor) -> Series:  # (N,) bool
        """The same series, with these observations missing."""
        values = self.values.clone()
        values[hidden] = torch.nan
        return Series(values, self.lengths)


def _is_series(one: Any) -> bool:
    return hasattr(one, "__len__") and not isinstance(one, str | bytes) and (np.ndim(one) > 0)


def _numbers(data: Any) -> Tensor:
    if isinstance(data, Tensor):
        values = data.detach()
    else:
        if getattr(data, "dtype", None) is not None and np.dtype(data.dtype).kind in "mM":
            raise StructureError(
                "expected numbers, (N,) or (N, D), actual dates or times: take the column of measurements"
            )
        try:
            values = torch.as_tensor(np.array(data, dtype=np.float64))  # a copy: a column may be read-only
        except (TypeError, ValueError) as error:
            raise StructureError(f"expected numbers, (N,) or (N, D), actual {type(data).__name__}: {error}") from None
    if values.dim() not in (1, 2) or not len(values):
        raise StructureError(
            f"a series is (N,) numbers or (N, D) vectors, at least one; actual shape {tuple(values.shape)}"
        )
    values = values.double()
    if bool(values.isinf().any()):
        place = values.isinf().nonzero()[0].tolist()
        raise StructureError(
            f"observation {place[0]} is infinite: expected numbers, or NaN for what is missing. "
            f"{int(values.isinf().sum())} of {values.numel()} numbers are infinite"
        )
    return values
