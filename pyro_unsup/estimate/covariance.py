"""Covariances of the outcomes of a table: checked, cut to the outcomes of each row, and inverted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import TableError
from ..tables import Declaration
from .table_rows import TableRows

Array = np.ndarray[Any, Any]

#: The most numbers that the inverses of a table may take, 1 GiB of them.
LARGEST = 2**27
#: The smallest eigenvalue of a covariance, relative to the largest, that can be told from zero.
FLAT = 1e-12


def families(
    labels: Sequence[Hashable], members: Mapping[Any, Hashable], variance: float = 1.0, within: float = 0.5
) -> Tensor:  # (labels, labels)
    """The covariance of outcomes that come in families: ``variance`` on the diagonal, ``within`` of it between members
    of one family, 0 elsewhere. Labels without a family stand alone.

    >>> families(["NN", "NNS", "VB"], {"NN": "noun", "NNS": "noun", "VB": "verb"})
    tensor([[1.0000, 0.5000, 0.0000],
            [0.5000, 1.0000, 0.0000],
            [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    if len(labels) ** 2 > LARGEST:
        raise TableError(f"{len(labels)} outcomes are too many for a covariance between them: use 'diagonal'")
    numbers: dict[Hashable, int] = {}
    keys = [(True, members[label]) if label in members else (False, label) for label in labels]
    family = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys])
    related = (family[:, None] == family[None, :]).double()
    return variance * (within * related + (1 - within) * torch.eye(len(labels), dtype=torch.float64))


def checked(declaration: Declaration, covariance: Tensor) -> Tensor:
    """The covariance itself, if it is one: () or (outcomes,) variances (a ragged table: one a cell), or (outcomes,
    outcomes), symmetric and positive definite.

    :raises TableError: naming the table and, if it is not positive definite, the smallest eigenvalue.
    """
    name, covariance, last = declaration.name, covariance.double(), declaration.layout.shape[-1]
    size = last
    if declaration.layout.row_lengths is not None and declaration.axes is not None:
        size = len(declaration.axes[-1].labels)
    if covariance.shape not in ((), (last,), (size, size)):
        raise TableError(
            f"table '{name}': a covariance has the shape {(last,)} (variances) or {(size, size)}, actual "
            f"{tuple(covariance.shape)}"
        )
    if covariance.dim() < 2:
        if not bool(((covariance > 0) & (covariance < torch.inf)).all()):
            raise TableError(f"table '{name}': variances must be positive and finite")
        return covariance
    if not bool(torch.isfinite(covariance).all()) or not torch.allclose(covariance, covariance.mT):
        raise TableError(f"table '{name}': a covariance must be finite and symmetric")
    eigenvalues = torch.linalg.eigvalsh(covariance)
    if not float(eigenvalues[0]) > FLAT * float(eigenvalues[-1]):
        raise TableError(
            f"table '{name}': the covariance is not positive definite, its smallest eigenvalue is "
            f"{float(eigenvalues[0]):.3g}: add to its diagonal, or lower what is off it"
        )
    return covariance


def inverses(
    declaration: Declaration,
    rows: TableRows,
    covariance: Tensor,  # (outcomes, outcomes)
) -> tuple[Array, Array, Array]:
    """The inverse covariance of the outcomes that each row has, as :class:`.NormalRows` wants it.

    :return: (some, N, N) inverses, (rows,) which of them a row has, (some,) their log determinants.
    """
    columns, which = rows.patterns(declaration)  # (some, N), -1 beyond the end
    if columns.shape[0] * columns.shape[1] ** 2 > LARGEST:
        raise TableError(
            f"table '{declaration.name}': {columns.shape[0]} covariances of {columns.shape[1]} outcomes do not fit: "
            "use covariance='diagonal' for this table"
        )
    there = columns >= 0
    at = columns.clamp(min=0)
    both = there[:, :, None] & there[:, None, :]
    parts = torch.where(both, covariance[at[:, :, None], at[:, None, :]], torch.eye(at.shape[1], dtype=torch.float64))
    factors = torch.linalg.cholesky(parts)
    log_det = -2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.cholesky_inverse(factors).contiguous().numpy(), which.numpy(), log_det.numpy()
