"""The networks that tables come from: embeddings of context and outcome, or a number for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...distributions.segments import row_index
from ...errors import TableError
from ...registry import PlainSettings
from ...tables import Axis, Declaration
from ..features.plans import axes_of
from .label_vectors import LabelVectors
from .pairs import dot_pairs


@dataclass(frozen=True)
class Embeddings(PlainSettings):
    """A network for a table: the score of an outcome in a row is a product of two vectors, plus a bias of the outcome.

        score[c, d] = g(vector of each label of c) . vector of d + bias of d,   theta[d given c] = softmax over d

    Each label of each axis has a vector of its own. A word also has vectors for its spelling: its endings, its shape,
    and whether it has a digit, a hyphen or an initial capital. All of them are added up, so that words with one ending
    share what is learned about it. ``g`` puts the vectors of a row's labels end to end, and sends them through
    hidden layers.

    :param size: length of the vectors.
    :param hidden: sizes of the hidden layers of ``g``; without any, ``g`` is linear. By default there is one, as
        long as the vectors, where rows have several labels, so that labels can act together, and none where rows have
        one. A network with one context axis, no hidden layer, and a size of at least the number of rows can be every
        table.
    :param dropout: share of the inputs of each layer that are set to zero in training. Tables are made without it.
    :param spelled: names of the axes whose labels are words, to look at their spelling. Only strings are
        spelled.
    :param longest: most characters in an ending.
    :param start: about the standard deviation of the scores of a new network. With 0 all rows would start uniform.

    Dense tables, tables with structural zeros and ragged tables have such networks; a ragged one must have axes.

        >>> import pyro_unsup as pu
        >>> table = pu.models.Tagger(tags=2, vocab=["dog", "dogs", "cats"]).declarations()["emission"]
        >>> network = pu.estimate.Embeddings(size=4, hidden=())(table)
        >>> network().shape  # scores, not yet normalised
        torch.Size([2, 3])
        >>> len(network.outcome.spelling)  # 8 endings; no digit, no hyphen, no capital; the shape x
        12
    """

    size: int = 64
    hidden: Sequence[int] | None = None
    dropout: float = 0.0
    spelled: Sequence[str] = ("word", "segment", "source", "target")
    longest: int = 3
    start: float = 1.0

    def __post_init__(self) -> None:
        for name in ("hidden", "spelled"):  # a saved description has lists
            given = getattr(self, name)
            if name == "hidden" and given is None:
                continue
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise TableError(f"Embeddings: {name} must be a list, actual {given!r:.80}")
            object.__setattr__(self, name, tuple(given))
        if not all(isinstance(name, str) for name in self.spelled):
            raise TableError(f"Embeddings: spelled must be a list of names of axes, actual {self.spelled!r:.80}")
        for name, sizes in (("size", (self.size,)), ("hidden", self.hidden or ()), ("longest", (self.longest,))):
            if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
                raise TableError(
                    f"Embeddings: {name} needs whole numbers, 1 or more, actual {getattr(self, name)!r:.80}"
                )
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise TableError(f"Embeddings: dropout must be at least 0 and below 1, actual {self.dropout!r:.80}")
        if not _is_number(self.start) or not 0 <= self.start < float("inf"):
            raise TableError(f"Embeddings: start must be finite and not negative, actual {self.start!r:.80}")

    def __call__(self, declaration: Declaration) -> nn.Module:
        """A new network for a table. Its numbers come from torch's global generator."""
        return _TableNetwork(declaration, self)


@dataclass(frozen=True)
class Cells(PlainSettings):
    """The plainest network: a score for each cell of the table. Its best weights are relative frequencies.

    :param start: standard deviation of the scores of a new network.

    >>> import pyro_unsup as pu
    >>> table = pu.models.Tagger(tags=2, vocab=3).declarations()["emission"]
    >>> pu.estimate.Cells()(table)().shape
    torch.Size([2, 3])
    """

    start: float = 0.01

    def __post_init__(self) -> None:
        if not _is_number(self.start) or not 0 <= self.start < float("inf"):
            raise TableError(f"Cells: start must be finite and not negative, actual {self.start!r:.80}")

    def __call__(self, declaration: Declaration) -> nn.Module:
        """A new network for a table. Its numbers come from torch's global generator."""
        return _CellScores(self.start * torch.randn(declaration.layout.shape))


class _CellScores(nn.Module):
    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self) -> Tensor:
        return self.scores * 1.0  # a tensor of its own, as all networks give


class _TableNetwork(nn.Module):
    """The network of one table. Called without arguments, it gives the scores of all cells, ``layout.shape``."""

    rows: Tensor  # (cells,) of a ragged table
    columns: Tensor  # (cells,)

    def __init__(self, declaration: Declaration, how: Embeddings) -> None:
        super().__init__()
        *context, outcome = _axes(declaration)
        layout = declaration.layout
        self.shape, self.ragged = layout.shape, layout.row_lengths is not None
        self.context = nn.ModuleList([LabelVectors(axis, how.size, how.spelled, how.longest) for axis in context])
        self.outcome = LabelVectors(outcome, how.size, how.spelled, how.longest)
        self.bias = nn.Parameter(torch.zeros(len(outcome.labels)))
        self.layers = _layers(how, len(context)) if context else None
        self.only_row = None if context else nn.Parameter(torch.randn(how.size))
        if layout.row_lengths is not None:
            assert outcome.cells is not None
            self.register_buffer("rows", row_index(layout.row_lengths), persistent=False)
            self.register_buffer("columns", outcome.cells.long(), persistent=False)
        self._scale(how.start)

    def forward(self) -> Tensor:  # layout.shape
        outcome: Tensor = self.outcome()  # (V, D)
        if self.layers is None:
            assert self.only_row is not None
            return outcome @ self.only_row + self.bias
        rows: Tensor
        if self.ragged:
            rows = self.layers(torch.cat([vectors() for vectors in self.context], -1))  # (R, D)
            return dot_pairs(rows, outcome, self.rows, self.columns) + self.bias[self.columns]
        rows = self.layers(self._grid([vectors() for vectors in self.context]))  # (*rows, D)
        return rows @ outcome.T + self.bias

    def _grid(self, vectors: Sequence[Tensor]) -> Tensor:  # (n, D) each -> (*rows, all D)
        rows, last = self.shape[:-1], len(vectors) - 1
        spread = [
            x.reshape(*(1,) * i, len(x), *(1,) * (last - i), x.shape[-1]).expand(*rows, x.shape[-1])
            for i, x in enumerate(vectors)
        ]
        return torch.cat(spread, -1)

    @torch.no_grad()
    def _scale(self, start: float) -> None:
        """Shrink the vectors of outcomes, so that the scores have the wanted spread."""
        self.eval()  # nothing is dropped
        spread = float(self().std()) if self.shape.numel() > 1 else 0.0
        if spread > 0:
            for weight in self.outcome.parameters():
                weight.mul_(start / spread)


def _layers(how: Embeddings, labels: int) -> nn.Sequential:
    """From the vectors of a row's labels, end to end, to one vector."""
    found: list[nn.Module] = []
    width, usual = how.size * labels, (how.size,) if labels > 1 else ()
    for size in usual if how.hidden is None else how.hidden:
        found += [nn.Dropout(how.dropout), nn.Linear(width, size), nn.ReLU()]
        width = size
    return nn.Sequential(*found, nn.Dropout(how.dropout), nn.Linear(width, how.size))


def _axes(declaration: Declaration) -> tuple[Axis, ...]:
    """The axes of a table. A dense one that was declared without them gets numbers for labels."""
    if declaration.axes is None and declaration.layout.row_lengths is not None:
        raise TableError(
            f"table '{declaration.name}' is ragged and has no axes, so a network cannot know which outcome each cell "
            "is: declare it with axes=[Axis('source', ...), Axis('target', ..., cells)], or use another estimator"
        )
    return axes_of(declaration)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)
