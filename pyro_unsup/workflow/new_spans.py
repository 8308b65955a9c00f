"""New spans, drawn by a constituent-context model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Bracketing
from ..models import CCM
from .draws import Values
from .new_symbols import _generator
from .table_draws import draw_outcomes

Array = np.ndarray[Any, Any]


class NewSpans:
    """What a :class:`.CCM` draws: a yield and a context for every span of sentences of given lengths.

    The model is deficient: each span draws its own yield and its own context, and those of one sentence need not fit
    together. So what is drawn are the spans, as the model says, and no sentence that has them all. They are columns of
    the tables, as in the observed data. The tree of each sentence is drawn first, all trees alike.

    :param data: as the model takes them.
    """

    def __init__(self, model: CCM, data: Any) -> None:
        spans = model.index(data)
        self._lengths = spans.lengths
        count = len(spans.cells)
        self._blank = Bracketing(torch.zeros(2, 1).double(), torch.zeros(2, 1).double(), spans.lengths)
        self._value = torch.zeros(count, 2, dtype=torch.long)
        cells = self._blank.span_cells
        width = cells.width.long()
        size = int(model._rows[-1])
        rows = torch.from_numpy(np.asarray(model._rows)).long()
        if model.variant == 2:
            at = torch.minimum(width, torch.tensor(len(rows) - 1))  # all that is wider than any yield has one row
            self._first, self._last = rows[at - 1], rows[at]
        else:
            self._first, self._last = torch.zeros_like(width), torch.full_like(width, size)
        self._size = size
        self.observed = {"spans": np.asarray(spans.cells)}
        self.owners = {"spans": np.asarray(cells.owner)}

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, spans, 2)
        """One data set a draw."""
        yields, contexts = (values[name].double() for name in ("yield", "context"))
        n, size = len(contexts), self._size
        wide = self._blank.with_weights({"yields": torch.zeros(n, 1, 2, 1).double()})
        inside = wide.posterior(self._value).sample(generator=_generator()).long()  # (n, spans)
        flat = yields.reshape(n, 2 * size)
        y = draw_outcomes(flat, inside * size + self._first, inside * size + self._last) - inside * size
        X = contexts.shape[-1]
        x = draw_outcomes(contexts.reshape(n, 2 * X), inside * X, (inside + 1) * X) - inside * X
        return {"spans": torch.stack([y, x], -1)}
