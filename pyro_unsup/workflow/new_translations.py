"""New translations, drawn by an aligner in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions.alignment.agreement import Agreement
from ..errors import UnsupError
from ..models import Aligner, HMMAligner
from ..models.pairs import Pairs
from .draws import Values
from .new_symbols import _generator
from .running import Program
from .table_draws import draw_outcomes

Array = np.ndarray[Any, Any]


class NewTranslations:
    """Both sides of a bitext, each drawn given the other one, as it was observed.

    ``target`` has sentences of the observed lengths. Links are drawn first, without a look at any target word; then
    every target word, from the row of the source word that it is linked to. ``source`` likewise, the other way round.

    :param program: the model, run on its data.
    """

    def __init__(self, model: Aligner, program: Program) -> None:
        self._model, self._program = model, program
        pairs: Pairs = model.index(program.args[0])
        grid, lexicon = pairs.grid, model.lexicon
        self._grid = grid
        sides = {}
        for name, turned in (("target", False), ("source", True)):
            null = grid.choices(turned)[:, 0]  # the cell with the null word tells which word it is
            sides[name] = pairs.cells[null].long() - len(lexicon)
        sizes = {"target": model.target_words, "source": model.source_words}
        for name, words in sides.items():
            if len(words) and not bool(((words >= 0) & (words < sizes[name])).all()):
                raise UnsupError(
                    f"there are {name} words that the model does not know, so their translations cannot be drawn: "
                    "leave posterior_predictive out, or give data of known words"
                )
        offsets = {"target": lexicon.offsets, "source": _offsets(lexicon.turned_sizes)}  # of rows by the other side
        axes: Any = {way: model.declarations()[f"translation_{way}"].axes for way in ("forward", "backward")}
        met = {way: own[1].cells for way, own in axes.items()}
        self._ways = [
            _Way("target", "forward", sides["source"], grid.source_lengths, offsets["target"], met["forward"], False),
            _Way("source", "backward", sides["target"], grid.target_lengths, offsets["source"], met["backward"], True),
        ]
        self.observed = {name: np.asarray(words) for name, words in sides.items()}
        self.owners = {
            name: np.repeat(np.arange(len(grid)), np.asarray(grid.choosers(turned)))
            for name, turned in (("target", False), ("source", True))
        }

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, words)
        """One data set a draw."""
        n = len(next(iter(values.values())))
        trace = self._program.trace(values, alone=n == 1)
        value = trace.nodes[self._program.structured[0]]["value"]
        return {way.name: self._drawn(way, self._fn(trace, way.way), value, values, n) for way in self._ways}

    def _fn(self, trace: Any, way: str) -> Any:
        if way in trace.nodes:
            return trace.nodes[way]["fn"]
        both: Agreement = trace.nodes["links"]["fn"]
        return both.forward if way == "forward" else both.backward

    def _drawn(self, way: _Way, fn: Any, value: Tensor, values: Values, n: int) -> Tensor:
        # With all translations alike, what is left is the distribution of links before any word is seen.
        blank = fn.with_weights({"translation": torch.zeros_like(fn.weights["translation"])})
        nowhere = torch.where(self._grid.used(way.turned), 0, value)  # words that never met may be drawn, too
        links = blank.posterior(nowhere).sample(generator=_generator())
        links = links.reshape(n, -1) if links.dim() < 2 else links
        place = fn.by_word(links.double(), 0.0).argmax(-1)  # (n, words): 0 is the null word
        given = way.starts[fn.rows.owner] + (place - 1).clamp(min=0)  # the word of the other side
        row = way.given[given.clamp(max=max(len(way.given) - 1, 0))] if len(way.given) else torch.zeros_like(given)
        table = values[f"translation_{way.way}"].double()
        shared = len(self._model.lexicon)
        if isinstance(self._model, HMMAligner) and self._model.null_words == "uniform":
            table = torch.cat([table[:, :shared], torch.ones_like(table[:, shared:])], -1)
        null = place == 0
        first = torch.where(null, shared, way.offsets[row])
        last = torch.where(null, table.shape[1], way.offsets[row + 1])
        return way.met[draw_outcomes(table, first, last)]


class _Way:
    """One direction.

    :param name: the side that is drawn.
    :param way: the name of the direction in the model.
    :param given: (words,) of the other side.
    :param lengths: (B,) of the other side.
    :param offsets: where the row of each word of the other side begins in the table.
    :param met: the word that each cell of the table stands for.
    """

    def __init__(
        self, name: str, way: str, given: Tensor, lengths: Tensor, offsets: Tensor, met: Any, turned: bool
    ) -> None:
        self.name, self.way, self.given, self.turned = name, way, given, turned
        self.offsets, self.met = offsets.long(), torch.as_tensor(met).long()
        self.starts = _offsets(lengths)[:-1]


def _offsets(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).long()
