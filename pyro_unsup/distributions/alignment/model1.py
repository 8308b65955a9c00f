"""The alignment: every word of a sentence chooses a word of its translation, or none, and each chooses alone."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Size, Tensor

from ...array import Array
from ...errors import StructureError
from ...kernels.running import Place
from ..parts import Links
from ..ragged import Rows, offsets_of
from ..semiring import Sum
from ..stretch import CompiledStretch, is_large
from ..structure import Potentials, Stretch, Structure
from .grid import Grid

Self = TypeVar("Self", bound="Alignment")


class Alignment(Structure):
    """Sentences with their translations, the hidden links between their words summed out (IBM Model 1).

    The story, for a source sentence of I words and a target sentence of J: every target word on its own draws a source
    word that it translates, or the null word, and then itself from that word's translations. Weights are logs of
    anything, and

    .. math:: \\log p(f \\mid e) = \\sum_{j=1}^{J} \\log \\Bigl( n \\, t(f_j \\mid \\mathrm{null})
              + a \\sum_{i=1}^{I} t(f_j \\mid e_i) \\Bigr),

    where n and a may differ from pair to pair: they go with the length of the source sentence. O(I J). The sum and its
    gradient are exact. On CPU a compiled kernel does the work.

    A value holds, for every cell of the :class:`.Grid`, the cell of the translation table that weighs this target word
    given this source word. A structure is a vector over the same cells, 1 where a target word chose the source word.
    The grids have a column for the null word of the other direction, in which source words choose target words: with
    ``turned`` that direction is summed, over the same grids. Each direction disregards the other's null words.

    :param translation: (*batch, C) log-weights of target words given source words (turned: source words given target
        words), in whatever order the value numbers them.
    :param grid: how the words of the pairs lie.
    :param null: (B,) or (*draws, 1, B), log n of each pair; zeros if not given.
    :param word: (B,) or (*draws, 1, B), log a of each pair; zeros if not given.

    Example, all weights 1, so that p counts alignments::

        >>> import torch
        >>> from pyro_unsup.distributions import Alignment
        >>> from pyro_unsup.distributions.alignment.grid import Grid
        >>> grid = Grid(torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2]))
        >>> value = torch.zeros(grid.cells, dtype=torch.int32)
        >>> Alignment(torch.zeros(1), grid).log_prob(value).exp().round()
        tensor([ 4.,  9., 16.])
        >>> Alignment(torch.zeros(1), grid, turned=True).log_prob(value).exp().round()
        tensor([ 3.,  9., 27.])

    **References:** [1] P. F. Brown, S. A. Della Pietra, V. J. Della Pietra and R. L. Mercer (1993) "The mathematics of
    statistical machine translation: parameter estimation", section 4.1.
    """

    part = "links"
    kernel: ClassVar[str | None] = "pyro_unsup.kernels.alignment.model1"
    what = "cells"

    def __init__(
        self,
        translation: Tensor,
        grid: Grid,
        null: Tensor | None = None,
        word: Tensor | None = None,
        turned: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        self._make({"translation": translation, "null": null, "word": word}, grid, turned, validate_args)

    def _make(self, weights: Mapping[str, Tensor | None], grid: Grid, turned: bool, validate_args: bool | None) -> None:
        self.grid, self.turned = grid, turned
        # The words that choose are the rows that the base class knows of. A pair without them has nothing to sum over.
        super().__init__(weights, grid.choosers(turned), Size([grid.cells]), self._axes(), validate_args)

    def _axes(self) -> dict[str, str]:
        return {"translation": "C", "null": str(len(self.grid)), "word": str(len(self.grid))}

    def _measure(self) -> None:
        # Weights by pair have an axis of pairs. Of many sets of weights, (*draws, B) will do for (*draws, 1, B).
        for name in self.weights.keys() & {"null", "word"}:
            w = self.weights[name]
            if w.dim() > 1 and w.shape[-2] != 1:
                self.weights[name] = w.unsqueeze(-2)
        super()._measure()

    # -- the structure

    def potentials(self, value: Tensor) -> Potentials:
        """Of links: the translation and the choice; -inf for cells that this direction does not use."""
        links = self.translations(value)
        for name, cells in (("null", self._null), ("word", ~self._null)):
            if name in self.weights:
                each = self.table(name).squeeze(-2).index_select(-1, self.grid.owner.to(links.device))
                links = links + each.masked_fill(~cells.to(links.device), 0.0)
        return {"links": links}

    def translations(self, value: Tensor) -> Tensor:  # (cells,) -> (*draws, cells)
        """The log-weight of the translation at every cell, -inf for those that this direction does not use."""
        table = self.table("translation")
        index = value.long().clamp(0, table.shape[-1] - 1)  # what is not used may hold anything
        if table.shape[-2] == 1:
            links = table.squeeze(-2).index_select(-1, index)
        else:
            links = self.look_up(table, self.grid.owner.to(index.device), index)
        return links.masked_fill(~self.grid.used(self.turned).to(links.device), -torch.inf)

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """Every word sums over its own choices::

        total = prod_j sum_i link[i, j]
        """
        choices = self.by_word(potentials["links"], -torch.inf)
        return self.rows.sum(sum_(choices, -1), choices.dim() - 2)

    def by_word(self, cells: Tensor, fill: float) -> Tensor:  # (*draws, cells) -> (*draws, words that choose, choices)
        """What is known of the cells, by the word that chooses; ``fill`` where there is no choice."""
        choices = self.grid.choices(self.turned)
        padded = torch.cat([cells, cells.new_full((*cells.shape[:-1], 1), fill)], -1)
        found: Tensor = padded.index_select(-1, choices.flatten().to(cells.device)).unflatten(-1, choices.shape)
        return found

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, cells) -> (*draws, cells) int8
        return (parts > 0.5).to(torch.int8)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, cells) -> (*draws, cells) bool
        return structure == 1

    def best_parts(self, gain: Tensor) -> Tensor:  # (*draws, cells) -> (*draws, cells) int8
        # Every word takes its best choice: of equals the null word, then the first word.
        best = self.by_word(gain, -torch.inf).argmax(-1, keepdim=True)  # (*draws, words, 1)
        choices = self.grid.choices(self.turned).to(gain.device)
        chosen = choices.expand(*best.shape[:-1], -1).gather(-1, best).squeeze(-1)
        return gain.new_zeros(gain.shape, dtype=torch.int8).scatter(-1, chosen, 1)

    def owner(self, group: str) -> Tensor:  # (cells,)
        return self.grid.owner

    def parts(self, value: Tensor) -> Links:
        return Links(self.grid, torch.tensor(self.turned))

    @property
    def _null(self) -> Tensor:  # (cells,) bool
        return self.grid.null(self.turned)

    def with_potentials(self: Self, **more: Tensor) -> Self:
        new = super().with_potentials(**more)
        check_links(new.extra, (self.grid.cells,))
        return new

    # -- data

    def check_value(self, value: Tensor) -> None:
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"{self.what} must be integers, actual dtype {value.dtype}")
        size, known = self.sizes["C"], self.grid.fitting.get(self.turned)
        if known is not None and known[0]() is value and known[1:] == (value._version, size):
            return
        if not self._fits(value, size):
            used = value[self.grid.used(self.turned).to(value.device)]
            raise StructureError(
                f"cells must lie in 0 .. {size - 1} (the table has {size}), actual range {int(used.min())} .. "
                f"{int(used.max())}"
            )
        self.grid.fitting[self.turned] = (weakref.ref(value), value._version, size)

    def _fits(self, value: Tensor, size: int) -> bool:
        if value.device.type == "cpu":
            from ...kernels.alignment.model1 import within

            return within(self.grid, value, size, self.turned)
        return bool(((value >= 0) & (value < size) | ~self.grid.used(self.turned).to(value.device)).all())

    def check_structure(self, structure: Tensor) -> None:  # (*draws, cells)
        if structure.shape[-1:] != self.event_shape:
            raise StructureError(
                f"an alignment has one number for each of the {self.event_shape[0]} cells, actual shape "
                f"{tuple(structure.shape)}"
            )
        times = self.by_word((structure == 1).long(), 0).sum(-1)  # (*draws, words that choose)
        wrong = (times != 1).nonzero()
        if len(wrong) or int((structure != 0).sum()) != int(times.sum()):
            word = int(wrong[0, -1]) if len(wrong) else 0
            actual = int(times[tuple(wrong[0])]) if len(wrong) else "one where nobody chooses"
            where = f" for word {int(self.rows.position[word])} of pair {int(self.rows.owner[word])}"
            raise StructureError(
                f"every word chooses one word or the null word: expected one 1 among the choices of each, actual "
                f"{actual}{where if len(wrong) else ''}"
            )

    def select(self: Self, value: Tensor, examples: Tensor) -> tuple[Self, Tensor]:
        grid, cells = self.grid.select(examples)
        return self.of_pairs(grid, cells, examples), value.index_select(0, cells.to(value.device))

    def of_pairs(self: Self, grid: Grid, cells: Tensor, pairs: Tensor) -> Self:
        """The distribution of some pairs.

        :param grid: theirs.
        :param cells: (cells,) where their cells lie in the grid of this one.
        :param pairs: (n,) their numbers.
        """
        new = copy(self)
        new.grid, new.lengths = grid, grid.choosers(self.turned)
        new.rows = Rows(new.lengths)
        new.weights = {name: self._own_weights(name, pairs) for name in self.weights}
        by_pair = {name: str(len(grid)) for name in ("null", "word")}
        new.all_axes = {**self.all_axes, **by_pair}
        new.table_axes = {name: tuple(new.all_axes[name].split()) for name in new.weights}
        new.extra = {name: self._own_extra(x, cells) if name == "links" else x for name, x in self.extra.items()}
        new._batch_shape, new._event_shape = new._weights_batch(), Size([grid.cells])
        return new

    def _own_weights(self, name: str, examples: Tensor) -> Tensor:
        if name in ("null", "word"):
            return self.weights[name].index_select(-1, examples.to(self.weights[name].device))
        return super()._own_weights(name, examples)

    def _own_extra(self, x: Tensor, cells: Tensor) -> Tensor:
        return x.index_select(-1, cells.to(x.device)) if x.shape[-1:] == self.event_shape else x

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        if type(self) is not Alignment or places.keys() != {"translation"}:
            return None
        if is_large(self.grid.cells / 16, len(self.grid), batch_size):
            return None
        data = (where_grids_lie(self.grid), one_way(self, value, places["translation"]))
        return CompiledStretch("alignment.model1_stepwise", ("translation",), data)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "an alignment cannot draw words: a value says which cells of the table weigh the words of a pair, and a "
            "drawn word would need cells of its own. Draw links for given pairs with posterior(value).sample()"
        )


def check_links(extra: Potentials, shape: tuple[int, ...]) -> None:
    """Raise unless added potentials fit links of this shape."""
    found = extra["links"].shape if "links" in extra else shape
    own = found[max(len(found) - len(shape), 0) :]
    if any(n not in (1, size) for n, size in zip(reversed(own), reversed(shape), strict=False)):
        raise StructureError(f"there are links of shape {shape}, which do not fit potentials of shape {tuple(found)}")


def where_grids_lie(grid: Grid) -> tuple[Array, ...]:
    """The words of each pair, (B,) both, and where its cells begin if they lie pair by pair, (B + 1,)."""
    heights, widths = grid.source_lengths, grid.target_lengths
    return heights.numpy(), widths.numpy(), offsets_of((heights + 1) * (widths + 1)).numpy()


def one_way(dist: Alignment, value: Tensor, place: Place) -> tuple[Any, ...]:
    """The cells of the table that grids use, pair by pair; the rows of these, and where those of each pair begin; how
    likely a choice is in each pair; and who chooses."""
    from ...kernels.alignment.stepwise import by_pairs  # numba loads when it is first needed

    grid, index = dist.grid, value.long().clamp(0, len(place.cells) - 1).numpy()  # what is not used may hold anything
    begins = offsets_of((grid.target_lengths if dist.turned else grid.source_lengths) + 1).numpy()
    cells, lines = np.empty(len(index), np.int32), np.zeros(begins[-1], np.int64)
    by_pairs(*grid.trellises.places, dist.turned, place.cells[index], place.rows[index], cells, lines)
    zeros = torch.zeros(len(grid), dtype=torch.float64)
    null, word = (dist.weights.get(name, zeros).double().reshape(-1).contiguous().numpy() for name in ("null", "word"))
    return cells, lines, begins, null, word, dist.turned
