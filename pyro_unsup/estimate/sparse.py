"""Tables with few outcomes in a row: a smooth count of what is not zero, as a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import TableError
from ..registry import PlainSettings
from ..tables import Declaration
from .base import normalise_rows
from .settings import is_number
from .table_rows import TableRows


@dataclass(frozen=True)
class SparseL0(PlainSettings):
    """Rows that are likely and have few outcomes: a penalty that nearly counts what is not zero [1].

    The M step maximises, for every row, ``sum counts log theta - strength sum (1 - exp(-theta / width))``. An outcome
    costs nothing while it is impossible, about ``strength`` nats once its probability is well above ``width``, and
    something in between otherwise. So mass moves from many unlikely outcomes to few likely ones, and moves the more the
    fewer counts there are. Rows with many counts hardly change. (The paper writes ``+ strength sum exp(-theta /
    width)``, which is the same but for a constant.)

    The penalty is not convex, and a row may have several tops. Each row climbs from its relative frequencies, and from
    certainty of its likeliest outcome; where the old row is worth more than both tops, from the old row. Every step
    goes to the top of a concave function below the true one (the paper has projected gradients), so that no step goes
    down, and EM never lowers the log-likelihood less the penalties.

    :param strength: nats that an outcome costs, not negative; the paper has 10.
    :param width: up to about which probability an outcome is cheap, positive; the paper has 0.05.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> table = pu.tables.Declaration("t", pu.tables.Layout.dense(4), torch.tensor(1.0))
        >>> counts = torch.tensor([5.0, 1.0, 1.0, 0.5], dtype=torch.float64)
        >>> pu.SparseL0(strength=2.0).weights(table, counts, old=table.layout.uniform()).exp()
        tensor([0.8914, 0.0473, 0.0473, 0.0139], dtype=torch.float64)

    **References:** [1] A. Vaswani, L. Huang and D. Chiang (2012) "Smaller alignment models for better translations:
    unsupervised word alignment with the l0-norm".
    """

    strength: float = 10.0
    width: float = 0.05

    def __post_init__(self) -> None:
        if not (is_number(self.strength) and 0 <= self.strength < float("inf")):
            raise TableError(
                f"SparseL0: the strength must be a number, finite and not negative, actual {self.strength!r:.80}"
            )
        if not (is_number(self.width) and 0 < self.width < float("inf")):
            raise TableError(f"SparseL0: the width must be a number, positive and finite, actual {self.width!r:.80}")

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        from ..kernels.sparse_rows import sparse_rows

        shares = normalise_rows(declaration, counts, old)
        rows = TableRows.of(declaration.layout)
        found, before = (torch.from_numpy(rows.gather(x)).exp_().numpy() for x in (shares, old))
        if len(found):
            sparse_rows(rows.gather(counts), rows.offsets, found, before, float(self.strength), float(self.width))
        return rows.scatter(torch.from_numpy(found).log_()).to(counts)

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> Tensor:
        allowed = declaration.layout.allowed()
        costs = -torch.expm1(-log_weights.double().contiguous().exp() / self.width)
        return -self.strength * costs.where(allowed, 0.0).sum()
