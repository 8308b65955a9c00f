"""The alignment: every word of a sentence chooses a word of its translation, or none, and each chooses alone."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .alignment_grid import Grid
from .alignment_posterior import AlignmentPosterior
from .alignment_sum import (
    AlignmentParts,
    Choices,
    check_cells,
    log_partition,
    reference_log_partition,
)
from .parts import Links
from .structured import Structure, one_set
from .weighed import as_mask


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
    :param null: (*batch, B) log n of each pair; zeros if not given.
    :param word: (*batch, B) log a of each pair; zeros if not given.

    Example, all weights 1, so that p counts alignments::

        >>> import torch
        >>> from pyro_unsup.distributions import Alignment
        >>> from pyro_unsup.distributions.alignment_grid import Grid
        >>> grid = Grid(torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2]))
        >>> value = torch.zeros(grid.cells, dtype=torch.int32)
        >>> Alignment(torch.zeros(1), grid).log_prob(value).exp().round()
        tensor([ 4.,  9., 16.])
        >>> Alignment(torch.zeros(1), grid, turned=True).log_prob(value).exp().round()
        tensor([ 3.,  9., 27.])

    **References:** [1] P. F. Brown, S. A. Della Pietra, V. J. Della Pietra and R. L. Mercer (1993) "The mathematics of
    statistical machine translation: parameter estimation", section 4.1.
    """

    def __init__(
        self,
        translation: Tensor,
        grid: Grid,
        null: Tensor | None = None,
        word: Tensor | None = None,
        turned: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        self.translation, self.grid, self.null, self.word, self.turned = translation, grid, null, word, turned
        self._parts = self._check()
        super().__init__(Size([*self._parts.batch_shape, len(grid)]), Size([grid.cells]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> AlignmentParts:
        if self.translation.dim() < 1 or self.translation.shape[-1] < 1:
            raise StructureError(f"translation should have shape (cells,), actual {tuple(self.translation.shape)}")
        pairs = len(self.grid)
        for name, each in (("null", self.null), ("word", self.word)):
            if each is not None and (each.dim() < 1 or each.shape[-1] != pairs):
                raise StructureError(
                    f"{name} should have {pairs} log-weights, one a pair of sentences, actual shape {tuple(each.shape)}"
                )
        none = self.translation.new_zeros(pairs)
        lead = self.translation.shape[:-1]
        if lead and lead[-1] != 1:
            raise StructureError(
                f"all pairs share one table, so the last batch axis of translation should be 1, actual {tuple(lead)}"
            )
        table = self.translation.squeeze(-2) if lead else self.translation
        return AlignmentParts(table, none if self.null is None else self.null, none if self.word is None else self.word)

    @property
    def weights(self) -> dict[str, Tensor]:
        given = {"translation": self.translation, "null": self.null, "word": self.word}
        return {name: w for name, w in given.items() if w is not None}

    def with_weights(self, weights: dict[str, Tensor]) -> Alignment:
        new = copy(self)
        for name, w in weights.items():
            setattr(new, name, w)
        new._parts = new._check()
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> Alignment:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.integer_interval(-1, self.translation.shape[-1] - 1), 1)

    def log_prob(self, value: Tensor) -> Tensor:  # (cells,) -> batch_shape
        value = self._data(value)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), value, self.grid, self.turned)
        else:
            total = reference_log_partition(self._parts, value, self.grid, self.turned)
        return total.expand(torch.broadcast_shapes(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (cells,), (cells,) -> (*batch, B)
        value = self._data(value)
        choices = Choices.of(self.grid, self.turned)
        scores, chosen = choices.scores(self._parts, value), self._chosen(structure, choices)
        each = torch.where(chosen, scores, torch.zeros_like(scores))
        return each.new_zeros(*each.shape[:-1], len(self.grid)).index_add(-1, choices.pair, each)

    def posterior(self, value: Tensor) -> AlignmentPosterior:
        one_set(self._parts.batch_shape)
        names = {name: w.detach() for name, w in self.weights.items()}
        return AlignmentPosterior(names, self._parts.squeezed(), self._data(value), self.grid, self.turned)

    def parts(self, value: Tensor) -> Links:
        return Links(self.grid, torch.tensor(self.turned))

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Alignment, Tensor]:
        if (allowed := as_mask(factors)) is not None:
            return self.without(self._data(value), ~allowed, self.translation.shape[-1])
        return self.with_weights({"translation": self.cell_weights(value, factors)}), self.grid.numbers

    def without(self, value: Tensor, forbidden: Tensor, cell: int) -> tuple[Alignment, Tensor]:
        """The same, some cells of the grids being one cell of the table, beyond all others, that has no weight.

        :param value: the cells of the table, (cells,).
        :param forbidden: which of the grids' cells those are, (cells,).
        :param cell: the number of the one without weight.
        """
        size = cell + 1 - self.translation.shape[-1]
        table = torch.nn.functional.pad(self.translation, (0, size), value=-torch.inf)
        return self.with_weights({"translation": table}), value.masked_fill(forbidden, cell)

    def cell_weights(self, value: Tensor, factors: Tensor) -> Tensor:  # (cells,), (cells,) -> (*batch, cells)
        """What each cell of the grids weighs, times a factor; those that this direction does not use weigh nothing."""
        columns = self._data(value).long().clamp(0, self.translation.shape[-1] - 1)
        own = self.translation.index_select(-1, columns) + factors
        return own.masked_fill(~self.grid.used(self.turned), -torch.inf)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "an alignment cannot draw words: a value says which cells of the table weigh the words of a pair, and a "
            "drawn word would need cells of its own. Draw links for given pairs with posterior(value).sample()"
        )

    def _data(self, value: Tensor) -> Tensor:
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected a cell for every pair of words, shape {tuple(self.event_shape)}, actual {tuple(value.shape)}"
            )
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"cells must be integers, actual dtype = {value.dtype}")
        check_cells(self._parts, value, self.grid, self.turned)
        return value

    def _chosen(self, structure: Tensor, choices: Choices) -> Tensor:  # (cells,) -> (n,) bool
        """The structure word by word, if every word chooses once."""
        if structure.shape != self.event_shape:
            raise StructureError(
                f"an alignment has one number for each of the {self.event_shape[0]} cells, actual shape "
                f"{tuple(structure.shape)}"
            )
        chosen = structure[choices.cell] == 1
        times = torch.zeros(len(choices.owner), dtype=torch.long).index_add(0, choices.chooser, chosen.long())
        if bool((times != 1).any()) or int((structure != 0).sum()) != int(chosen.sum()):
            word = int((times != 1).nonzero()[0]) if bool((times != 1).any()) else 0
            raise StructureError(
                f"every word chooses one word or the null word: expected one 1 among the choices of each, actual "
                f"{int(times[word]) if len(times) else 0} for word {word} of pair "
                f"{int(choices.owner[word]) if len(times) else 0}"
            )
        return chosen
