"""``table``: how a model declares a table of weights.

By default the table is a Dirichlet :func:`pyro.sample` site, so NUTS, SVI with autoguides, ``Predictive`` and
``poutine.trace`` see an ordinary Pyro model. A handler may answer with another table (see :mod:`pyro_unsup.handlers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from pyro.poutine.runtime import effectful, get_plates
from torch import Tensor

from ..distributions.row_dirichlet import RowDirichlet
from ..errors import TableError
from .axes import Axis, Labels, as_axes, check_axes
from .layout import Layout


@dataclass(frozen=True, eq=False)
class Declaration:
    """What a model said about one of its tables.

    :param name: of the table, and of its sample site.
    :param layout: which cells it has, and which of them share a row.
    :param prior: Dirichlet concentration, a number or a tensor that broadcasts to the layout's shape.
    :param unvisited: what an estimator does with a row that no data reach: refuse (``"error"``), or leave it as it
        was (``"keep"``), for tables such as trigram contexts of which a corpus visits only some.
    :param touched: (n,) the only columns (dense) or cells (ragged) this call needs; None means all of them.
    :param axes: what rows and outcomes are called (:class:`.Axis`), for features that look at them.

    >>> import torch
    >>> from pyro_unsup.tables import Declaration, Layout
    >>> emission = Declaration("emission", Layout.dense(2, 3), prior=torch.tensor(0.5))
    >>> emission.layout.shape, emission.concentration(torch.float64).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """

    name: str
    layout: Layout
    prior: Tensor
    unvisited: Literal["error", "keep"] = "error"
    touched: Tensor | None = None
    axes: tuple[Axis, ...] | None = None

    def __post_init__(self) -> None:
        try:
            self.prior.expand(self.layout.shape)
        except RuntimeError:
            raise TableError(
                f"table '{self.name}': the prior must broadcast to the shape {tuple(self.layout.shape)}, "
                f"actual shape {tuple(self.prior.shape)}"
            ) from None
        if not bool((self.prior > 0).all()):
            raise TableError(
                f"table '{self.name}': the Dirichlet prior must be positive, actual smallest = {self.prior.min():g}"
            )
        if self.axes is not None:
            check_axes(self.name, self.layout, self.axes)

    def concentration(self, dtype: torch.dtype) -> Tensor:  # layout.shape
        """The prior, spelled out for every cell."""
        return self.prior.to(dtype).expand(self.layout.shape)

    def touching(self, touched: Tensor | None) -> Declaration:  # (n,)
        """The same table, of which a call needs these columns (or cells) only; None for all of them.

        >>> import torch
        >>> from pyro_unsup.tables import Declaration, Layout
        >>> emission = Declaration("emission", Layout.dense(2, 3), prior=torch.tensor(0.5))
        >>> emission.touching(torch.tensor([0, 2])).touched
        tensor([0, 2])
        """
        new = copy(self)  # what the table is has been checked before
        object.__setattr__(new, "touched", touched)
        return new

    def whole(self, part: Tensor) -> Tensor:  # layout.shape
        """Counts of the touched part, put in their places in the whole table."""
        if self.touched is None:
            return part
        return part.new_zeros(self.layout.shape).index_add_(-1, self.touched, part)


def table(
    name: str,
    *shape: int,
    support: Tensor | None = None,  # (*shape) bool
    row_lengths: Tensor | Sequence[int] | None = None,  # (rows,)
    prior: float | Tensor = 1.0,
    unvisited: Literal["error", "keep"] = "error",
    touched: Tensor | None = None,  # (n,) long
    axes: Mapping[str, Labels] | Sequence[Axis] | None = None,
) -> Tensor:
    """Declare a table of multinomials and get its log-weights.

    :param shape: ``(*rows, outcomes)`` of a dense table; leave it out and give ``row_lengths`` for a ragged one.
    :param support: which cells may have weight (a tag dictionary, say). The others are -inf, and stay so.
    :param prior: Dirichlet concentration, a number or a tensor that broadcasts to the table's shape.
    :param unvisited: what an estimator does with a row that no data reach: refuse, or leave it as it was.
    :param touched: ask for these columns (dense) or flat cells (ragged) only, so that the cost of a mini-batch follows
        what it touches and not the size of the table.
    :param axes: what rows and outcomes are called, ``{"tag": 45, "word": words}``: labels by the name of each
        dimension, the outcomes last. Needed for features (:class:`pyro_unsup.Template`). Those of a ragged table are a
        list of :class:`.Axis`.
    :return: log-weights, ``shape`` (or ``(cells,)``; or the touched part). Rows need not sum to one under a handler.

    >>> import pyro
    >>> import pyro_unsup as pu
    >>> pyro.set_rng_seed(0)
    >>> pu.table("emission", 3, 5).exp().sum(-1)
    tensor([1.0000, 1.0000, 1.0000])
    >>> pu.table("translation", row_lengths=[2, 4]).shape
    torch.Size([6])
    """
    if not isinstance(prior, Tensor):
        prior = torch.as_tensor(prior, dtype=torch.float64)  # keeps its digits, whatever the default dtype
    if bool(shape) == (row_lengths is not None):
        raise TableError(f"table '{name}': give either a shape (dense) or row_lengths (ragged)")
    if row_lengths is not None and support is not None:
        raise TableError(f"table '{name}': a ragged table has no support; leave forbidden cells out of its rows")
    try:
        layout = Layout.dense(*shape, support=support) if row_lengths is None else Layout.ragged(row_lengths)
    except TableError as error:
        raise TableError(f"table '{name}': {error}") from None
    return declare(Declaration(name, layout, prior, unvisited, touched, as_axes(axes)))


def declare(declaration: Declaration) -> Tensor:
    """Declare a table whose layout has been made before, as a model that is called often will want to.

    >>> import pyro
    >>> import torch
    >>> from pyro_unsup.tables import Declaration, Layout, declare
    >>> pyro.set_rng_seed(0)
    >>> declare(Declaration("share", Layout.dense(4), torch.tensor(1.0))).shape
    torch.Size([4])
    """
    # Pyro's effectful takes the keyword `name` for the message and does not hand it on.
    weights: Tensor = _table(declaration, name=declaration.name)
    return weights


@effectful(type="table")
def _table(declaration: Declaration) -> Tensor:
    layout, dtype = declaration.layout, torch.get_default_dtype()
    alpha = declaration.concentration(dtype)
    if layout.row_lengths is not None:
        weights = _log(sample_for_plates(declaration.name, RowDirichlet(alpha, layout.row_lengths)))
    elif layout.support is not None:
        flat = RowDirichlet(alpha[layout.support], layout.support.sum(-1).reshape(-1))
        value = _log(sample_for_plates(declaration.name, flat))  # (*batch, allowed cells)
        empty = value.new_full((*value.shape[:-1], *layout.shape), -torch.inf)
        cells = layout.support.flatten().nonzero().squeeze(-1)
        weights = empty.flatten(-len(layout.shape)).index_copy(-1, cells, value).reshape(empty.shape)
    else:
        weights = _log(sample_for_plates(declaration.name, dist.Dirichlet(alpha).to_event(alpha.dim() - 1)))
    return take(weights, declaration.touched)


def sample_for_plates(name: str, rows: TorchDistribution) -> Tensor:  # (*batch, *event)
    """A sample of rows, with an axis for every plate around it.

    ``Predictive(parallel=True)`` gives all draws at once, as (draws, *event), inside a plate that lies to the left of
    those of the model. The axes of the model's own plates are missing then. Without them, draws would be taken for
    examples.
    """
    value: Tensor = pyro.sample(name, rows)
    batch = value.dim() - rows.event_dim
    depth = max((-plate.dim for plate in get_plates() if plate.vectorized), default=0)
    if not 0 < batch < depth:
        return value
    return value.reshape(*value.shape[:batch], *(1,) * (depth - batch), *value.shape[batch:])


def take(log_weights: Tensor, touched: Tensor | None) -> Tensor:  # (..., outcomes), (n,) -> (..., n)
    """The touched columns (or flat cells) of a table; all of it for None.

    >>> import torch
    >>> from pyro_unsup.tables import take
    >>> take(torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), torch.tensor([0, 2]))
    tensor([[0.1000, 0.3000],
            [0.4000, 0.6000]])
    """
    return log_weights if touched is None else log_weights.index_select(-1, touched)


def _log(theta: Tensor) -> Tensor:
    # A probability that underflowed is tiny, not a structural zero: a zero would make gradients NaN.
    return theta.clamp(min=torch.finfo(theta.dtype).tiny).log()
