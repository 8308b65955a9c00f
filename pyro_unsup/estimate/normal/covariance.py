"""Covariances of the outcomes of a table: checked, cut to the outcomes of each row, and inverted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...errors import TableError
from ...tables import Declaration
from ..settings import is_number, to_tensor
from ..table_rows import TableRows

#: How a user says a covariance.
Given: TypeAlias = Literal["diagonal", "full"] | Tensor | Mapping[Any, Hashable]

#: The most numbers that the inverses of a table may take, 1 GiB of them.
LARGEST = 2**27
#: The smallest eigenvalue of a covariance, relative to the largest, that can be told from zero.
FLAT = 1e-12


def families(
    labels: Sequence[Hashable], members: Mapping[Any, Hashable], variance: float = 1.0, within: float = 0.5
) -> Tensor:  # (labels, labels)
    """The covariance of outcomes that come in families: ``variance`` on the diagonal, ``within`` of it between members
    of one family, 0 elsewhere. Labels without a family stand alone.

    :param labels: of the outcomes, in their order.
    :param members: by label, the name of its family.

    >>> from pyro_unsup.estimate import families
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


def understood(who: str, given: Any) -> Given:
    """A covariance as a user gave it, arrays and nested lists as tensors.

    :param who: was given it, for errors.
    :raises TableError: if it is none of the kinds that there are.
    """
    if isinstance(given, Mapping) or (isinstance(given, str) and given in ("diagonal", "full")):
        return cast(Given, given)
    if is_number(given) or (isinstance(given, np.ndarray) and not given.shape):
        raise TableError(f"{who}: covariance={given} is a number: say variance={given} for a diagonal of them")
    found = to_tensor(given)
    if found is None:
        raise TableError(
            f"{who}: covariance is 'diagonal', 'full', a tensor or a mapping from labels to families, actual "
            f"{given!r:.80}"
        )
    return found


def covariance_of(declaration: Declaration, given: Given, variance: float, within: float) -> Tensor:
    """The covariance of a table as it is given: () or (outcomes,) variances, or (outcomes, outcomes).

    :param variance: on the diagonal, if the covariance is no tensor.
    :param within: the correlation within a family. A table none of whose outcomes has one is left diagonal.
    """
    if isinstance(given, Tensor):
        return checked(declaration, given)
    if isinstance(given, Mapping) and declaration.axes is not None:
        labels = declaration.axes[-1].labels
        if any(label in given for label in labels):
            return families(labels, given, float(variance), within)
    return torch.tensor(float(variance), dtype=torch.float64)


def know_some_label(who: str, given: Given, declarations: Mapping[str, Declaration]) -> None:
    """Families that no table has heard of are a mistake."""
    if not isinstance(given, Mapping):
        return
    axes = [axis for d in declarations.values() for axis in d.axes or ()]
    if not any(label in given for axis in axes for label in axis.labels):
        some = sorted({str(label) for axis in axes for label in islice(axis.labels, 3)})[:6]
        raise TableError(
            f"{who}: none of the labels in the families is a label of {sorted(declarations)}, whose labels are such as "
            f"{some}: use the labels of the tables' axes"
        )


def brief(x: object) -> str:
    """A setting in a few words."""
    if isinstance(x, Tensor):
        return f"tensor of shape {tuple(x.shape)}"
    return f"families of {len(x)} labels" if isinstance(x, Mapping) else repr(x)


def shapes(declaration: Declaration) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the variances of a table's outcomes (a ragged table: one a cell), and of their covariance."""
    last = size = declaration.layout.shape[-1]
    if declaration.layout.row_lengths is not None and declaration.axes is not None:
        size = len(declaration.axes[-1].labels)
    return (last,), (size, size)


def checked(declaration: Declaration, covariance: Tensor) -> Tensor:
    """The covariance itself, if it is one: (outcomes,) variances (a ragged table: one a cell), or (outcomes, outcomes),
    symmetric and positive definite.

    :raises TableError: naming the table and, if it is not positive definite, the smallest eigenvalue.
    """
    name, covariance = declaration.name, covariance.double()
    if covariance.shape not in shapes(declaration):
        flat, square = shapes(declaration)
        raise TableError(
            f"table '{name}': a covariance has the shape {flat} (variances) or {square}, actual "
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


def cut(
    declaration: Declaration,
    rows: TableRows,
    covariance: Tensor,  # (outcomes, outcomes)
) -> tuple[Tensor, Tensor]:
    """The covariance of the outcomes that each row has.

    :return: (some, N, N), each in the upper left corner of a block that is the identity beyond it, and (rows,) which of
        them a row has.
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
    eye = torch.eye(at.shape[1], dtype=torch.float64)
    return torch.where(both, covariance[at[:, :, None], at[:, None, :]], eye), which


def inverses(
    declaration: Declaration,
    rows: TableRows,
    covariance: Tensor,  # (outcomes, outcomes)
) -> tuple[Array, Array, Array]:
    """The inverse covariance of the outcomes that each row has, as :class:`.NormalRows` wants it.

    :return: (some, N, N) inverses, (rows,) which of them a row has, (some,) their log determinants.
    """
    parts, which = cut(declaration, rows, covariance)
    factors = torch.linalg.cholesky(parts)
    log_det = -2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.cholesky_inverse(factors).contiguous().numpy(), which.numpy(), log_det.numpy()
