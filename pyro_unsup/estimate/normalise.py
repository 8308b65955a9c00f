"""Maximum likelihood: relative frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..registry import PlainSettings
from ..tables import Declaration
from .base import normalise_rows


@dataclass(frozen=True)
class Normalise(PlainSettings):
    """Relative frequencies of the expected counts; with batch counts this is plain EM.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> table = pu.tables.Declaration("t", pu.tables.Layout.dense(2, 2), torch.tensor(1.0))
    >>> counts = torch.tensor([[1.0, 3.0], [2.0, 2.0]])
    >>> pu.Normalise().weights(table, counts, old=table.layout.uniform()).exp()
    tensor([[0.2500, 0.7500],
            [0.5000, 0.5000]])
    """

    @property
    def link(self) -> Callable[[Tensor], Tensor]:
        return torch.log

    def pseudo_counts(self, declaration: Declaration) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        return normalise_rows(declaration, counts, old)

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> float:
        return 0.0
