"""Tables as log-linear functions of shared weights: all feature matrices of some tables, built once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...tables import Declaration, Layout
from .blocks import Factored, Sparse
from .feature_names import Family, FeatureNames
from .plans import plans_of
from .template import Template

if TYPE_CHECKING:
    import pandas


class Features:
    """Each row of a table is a softmax of feature weights: log theta = (F w) - log-sum-exp over the row.

    :param declarations: of the tables, by name (``model.declarations()``, or :func:`pyro_unsup.handlers.declared`).
    :param templates: a table that none of them is for gets a feature for each of its cells (``basic``).
    :param max_gib: most memory that the matrices and training with them may need; by default half of what is free.

    Structural zeros are zeros whatever the features say: they are no features but the base measure.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> tables = pu.models.Tagger(2, ["dog", "dogs", "cats"]).declarations()
        >>> endings = pu.Template("emission", "ending", tag=pu.same, word=lambda word: word[-1])
        >>> features = pu.Features(tables, [endings])
        >>> len(features)  # start 2, transition 4, emission 2 x (g, s)
        10
        >>> features.log_weights(torch.zeros(10))["emission"].exp()
        tensor([[0.3333, 0.3333, 0.3333],
                [0.3333, 0.3333, 0.3333]], dtype=torch.float64)
    """

    def __init__(
        self,
        declarations: Mapping[str, Declaration],
        templates: Sequence[Template] = (),
        max_gib: float | None = None,
    ) -> None:
        built = [plan.build() for plan in plans_of(declarations, templates, max_gib)]
        families, size = _placed([family for _, family in built])
        self.names = FeatureNames(families, size)
        self._layouts = {name: declaration.layout for name, declaration in declarations.items()}
        self._rows = {name: _row_starts(layout) for name, layout in self._layouts.items()}
        self._zeros = {
            name: np.flatnonzero(~layout.support.reshape(-1).numpy())
            for name, layout in self._layouts.items()
            if layout.support is not None
        }
        self._blocks: dict[str, list[tuple[Factored | Sparse, Family]]] = {name: [] for name in declarations}
        for (block, _), family in zip(built, families, strict=True):
            self._blocks[family.table].append((block, family))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def tables(self) -> list[str]:
        """The tables that they are of."""
        return list(self._layouts)

    def log_weights(self, w: Tensor) -> dict[str, Tensor]:  # (F,)
        """The tables that these weights stand for."""
        from ...kernels.features import normalise

        found = {}
        for name, layout in self._layouts.items():
            logits = self._logits(name, _array(w))
            normalise(logits, self._rows[name])
            found[name] = torch.from_numpy(logits).reshape(layout.shape)
        return found

    def expected(self, w: Array, counts: Mapping[str, Array]) -> tuple[float, Array]:  # (F,) -> (), (F,)
        """Counts times log-weights, of all tables together, and its gradient: observed minus expected features."""
        from ...kernels.features import expected

        total, gradient = 0.0, np.zeros(len(self))
        for name in self._layouts:
            value, residuals = expected(self._logits(name, w), self._rows[name], counts[name])
            total += value
            self._add_back(name, residuals, gradient)
        return total, gradient

    def gradient(self, log_weights: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> Array:  # (F,)
        """The gradient of :meth:`expected`, of tables that have been made already."""
        from ...kernels.features import expected

        gradient = np.zeros(len(self))
        for name in self._layouts:
            logs, rows = _array(log_weights[name].reshape(-1)).copy(), self._rows[name]
            self._add_back(name, expected(logs, rows, _array(counts[name].reshape(-1)))[1], gradient)
        return gradient

    def totals(self, cells: Mapping[str, Array]) -> Array:  # (F,)
        """What each feature gets of quantities by cell: the transposed product alone."""
        found = np.zeros(len(self))
        for name, one in cells.items():
            self._add_back(name, one, found)
        return found

    def table(self, name: str, w: Tensor) -> Tensor:  # (*batch, F) -> (*batch, *shape)
        """One of the tables, as a differentiable function of the weights."""
        layout = self._layouts[name]
        logits: Tensor = _Product.apply(w, self, name, False)
        shaped = logits.reshape(*w.shape[:-1], *layout.shape)
        return layout.normalise(shaped) if layout.row_lengths is None or w.dim() == 1 else _by_one(layout, shaped)

    def top(self, weights: Tensor, table: str, n: int = 20, **values: Any) -> pandas.DataFrame:
        """The features of a table with the largest weights; see :meth:`.FeatureNames.top`."""
        return self.names.top(weights, table, n, **values)

    def product(self, name: str, w: Array) -> Array:  # (F,) -> (cells,)
        """F w of one table."""
        logits = np.zeros(self._layouts[name].shape.numel())
        for block, family in self._blocks[name]:
            block.add(_part(w, family), logits)
        return logits

    def _logits(self, name: str, w: Array) -> Array:
        logits = self.product(name, w)
        if name in self._zeros:
            logits[self._zeros[name]] = -np.inf
        return logits

    def _add_back(self, name: str, cells: Array, out: Array) -> None:  # (cells,), (F,)
        for block, family in self._blocks[name]:
            if isinstance(family.places, int):
                block.add_back(cells, out[family.places : family.places + block.size])
            else:
                part = np.zeros(block.size)
                block.add_back(cells, part)
                out[family.places] += part


class _Product(torch.autograd.Function):
    """F w, or F' x: linear, so that each is the other's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, features: Features, name: str, back: bool) -> Tensor:
        ctx.features, ctx.name, ctx.back = features, name, back
        rows = [
            features.totals({name: one}) if back else features.product(name, one)
            for one in _array(x).reshape(-1, x.shape[-1])
        ]
        found = torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, len(features))
        return found.reshape(*x.shape[:-1], found.shape[-1]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _Product.apply(grad, ctx.features, ctx.name, not ctx.back), None, None, None


def _placed(families: Sequence[Family]) -> tuple[list[Family], int]:
    """Families with places for their weights. Those of one name share the weights of the same values."""
    owners: dict[str, list[int]] = {}
    for i, family in enumerate(families):
        owners.setdefault(family.template, []).append(i)
    placed, size = list(families), 0
    for same_name in owners.values():
        if len(same_name) == 1:
            family = families[same_name[0]]
            placed[same_name[0]] = replace(family, places=size)
            size += family.size
            continue
        known: dict[Any, int] = {}
        for i in same_name:
            keys = (tuple((type(v), v) for v in families[i].values(number)) for number in range(families[i].size))
            places = np.array([known.setdefault(key, size + len(known)) for key in keys], np.int64)
            placed[i] = replace(families[i], places=places)
        size += len(known)
    return placed, size


def _row_starts(layout: Layout) -> Array:  # (R + 1,)
    if layout.row_lengths is None:
        return np.arange(layout.rows.numel() + 1) * layout.shape[-1]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(layout.row_lengths.numpy())])


def _part(w: Array, family: Family) -> Array:
    part: Array = w[family.places : family.places + family.size] if isinstance(family.places, int) else w[family.places]
    return part


def _array(x: Tensor) -> Array:
    found: Array = np.ascontiguousarray(x.detach().double().numpy())
    return found


def _by_one(layout: Layout, logits: Tensor) -> Tensor:  # (*batch, cells)
    flat = [layout.normalise(one) for one in logits.reshape(-1, logits.shape[-1])]
    return torch.stack(flat).reshape(logits.shape)
