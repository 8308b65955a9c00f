"""The alignment by jumps: every word of a sentence chooses a word of its translation, near the one chosen before."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from ..errors import StructureError
from .alignment import Alignment
from .alignment_grid import Grid
from .alignment_hmm_jumps import evenly, reach_of, rooms
from .alignment_hmm_posterior import AlignmentHMMPosterior
from .alignment_hmm_sum import HMMParts, Padded, log_partition, reference_log_partition
from .alignment_sum import AlignmentParts
from .structured import one_set


class AlignmentHMM(Alignment):
    """Sentences with their translations, the hidden links between their words summed out (a hidden Markov model).

    The story, for a source sentence of S words and a target sentence of T: the target words come one after the other.
    Each has no link (it is drawn from the translations of the null word), or it jumps from the place of the last link
    to another, or the same, and is drawn from the translations of the word there. Words without a link do not change
    the place. All starts before the first word, and when all words are done there is a last jump, to the end. Weights
    are logs of anything, and

    .. math:: \\log p(f \\mid e) = \\log \\sum_a \\Bigl( \\prod_{a_t = 0} n \\, t(f_t \\mid \\mathrm{null}) \\Bigr)
              \\Bigl( \\prod_{a_t > 0} a \\, w(a_{t'}, a_t) \\, t(f_t \\mid e_{a_t}) \\Bigr) w(a_{T'}, S + 1),

    with t' the word before t that has a link. A jump's weight goes with its kind and its offset; times that of the room
    around the place it starts from, times that of being one of so many places of the same far offset
    (:mod:`.alignment_hmm_jumps`). O(T S W). The sum and its gradient are exact. On CPU a compiled kernel does the work.

    Values and structures are those of :class:`.Alignment`, and so is the other direction (``turned``).

    :param translation: (*batch, C) log-weights of target words given source words (turned: the other way).
    :param grid: how the words of the pairs lie.
    :param jump: (*batch, 3, 2 W + 1) log-weights of jumps, by kind (to the first link, from link to link, to the end)
        and by offset, from -W (or less) to W (or more). If pairs are in a plate of tables, (*batch, 1, 3, 2 W + 1).
    :param room: (*batch, (W + 1)^2 + 2 W) log-weights of room, zeros if not given; :func:`.again` makes jumps add up
        to one.
    :param share: (*batch, most) log-weights of jumping to one of n places, for n from 1 to the longest sentence and one
        more; if not given they share evenly, 1 / n.
    :param null: (*batch, B) log n of each pair; zeros if not given.
    :param word: (*batch, B) log a of each pair; zeros if not given.

    Example, all weights 1, so that p counts alignments::

        >>> import torch
        >>> from pyro_unsup.distributions import AlignmentHMM
        >>> from pyro_unsup.distributions.alignment_grid import Grid
        >>> grid = Grid(torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2]))
        >>> value = torch.zeros(grid.cells, dtype=torch.int32)
        >>> AlignmentHMM(torch.zeros(1), grid, torch.zeros(3, 11)).log_prob(value).exp().round()
        tensor([ 4.,  9., 16.])

    **References:** [1] S. Vogel, H. Ney and C. Tillmann (1996) "HMM-based word alignment in statistical translation";
    [2] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    """

    def __init__(
        self,
        translation: Tensor,
        grid: Grid,
        jump: Tensor,
        room: Tensor | None = None,
        share: Tensor | None = None,
        null: Tensor | None = None,
        word: Tensor | None = None,
        turned: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        longest = grid.target_lengths if turned else grid.source_lengths
        most = int(longest.max()) + 1 if len(longest) else 1
        self.jump, self.room = jump, room
        self.share = evenly(most, translation.dtype) if share is None else share
        super().__init__(translation, grid, null, word, turned, validate_args)
        self._batch_shape = Size([*self._all.batch_shape, len(grid)])

    def _check(self) -> AlignmentParts:
        lexical = super()._check()
        lengths = self.grid.target_lengths if self.turned else self.grid.source_lengths
        most = int(lengths.max()) + 1 if len(lengths) else 1
        needed = rooms(reach_of(self.jump))
        if self.room is not None and (self.room.dim() < 1 or self.room.shape[-1] != needed):
            raise StructureError(
                f"jump has {self.jump.shape[-1]} offsets, so room should have {needed} log-weights, actual shape "
                f"{tuple(self.room.shape)}"
            )
        if self.share.dim() < 1 or self.share.shape[-1] < most:
            raise StructureError(
                f"there are sentences of {most - 1} words, so share should have {most} log-weights at least, actual "
                f"shape {tuple(self.share.shape)}"
            )
        given = {"jump": self.jump, "room": self.room, "share": self.share}
        jumps = {name: self._checked(name, w, 2 if name == "jump" else 1) for name, w in given.items() if w is not None}
        self._all = HMMParts(*lexical.tables(), **{"room": self.jump.new_zeros(needed), **jumps})
        return lexical

    def _checked(self, name: str, table: Tensor, own: int) -> Tensor:
        """A table that all pairs share, without the axis that would be theirs."""
        if table.dim() > own and table.shape[-own - 1] != 1:
            raise StructureError(
                f"all pairs share one table, so the last batch axis of {name} should be 1, actual "
                f"{tuple(table.shape[:-own])}"
            )
        if table.dtype != self.translation.dtype:
            raise StructureError(
                f"the weights of an alignment must have one floating dtype: translation has "
                f"{self.translation.dtype}, {name} has {table.dtype}"
            )
        if not float(table.detach().max()) < torch.inf:
            raise StructureError(f"{name} holds NaN or +inf; log-weights are numbers below +inf, or -inf")
        return table.squeeze(-own - 1) if table.dim() > own else table

    @property
    def weights(self) -> dict[str, Tensor]:
        found = super().weights
        room = {} if self.room is None else {"room": self.room}
        return {"translation": found.pop("translation"), "jump": self.jump, **room, "share": self.share, **found}

    def log_prob(self, value: Tensor) -> Tensor:  # (cells,) -> batch_shape
        value = self._data(value)
        if self._all.batch_shape.numel() == 1:
            total = log_partition(self._all.squeezed(), value, self.grid, self.turned)
        else:
            total = reference_log_partition(self._all, value, self.grid, self.turned)
        return total.expand(torch.broadcast_shapes(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (cells,), (cells,) -> (*batch, B)
        value = self._data(value)
        padded = Padded.of(self.grid, self.turned)
        chosen = self._chosen_places(structure, padded)  # (B, T)
        link, null = padded.weights(self._all, value)
        inner, end = padded.jumps(self._all)
        B, T, S = padded.shape
        there = torch.arange(T) < padded.lengths[:, None]
        # The place of the last link, before each word and after all: what was chosen last and is not 0.
        when = torch.where(chosen > 0, torch.arange(1, T + 1), 0).cummax(1).values if T else chosen
        when = torch.cat([when.new_zeros(B, 1), when], 1)
        place = torch.cat([chosen.new_zeros(B, 1), chosen], 1).gather(1, when)  # (B, T + 1)
        pair, t = torch.arange(B)[:, None], torch.arange(T)
        to = (chosen - 1).clamp(min=0)
        linked = there & (chosen > 0)
        if S == 1:
            each = torch.where(there, null, 0.0)
        else:
            jumped = link[..., pair, t, to] + inner[..., pair, place[:, :-1], to]
            each = torch.where(linked, jumped, torch.where(there, null, 0.0))
        last = end[..., torch.arange(B), place[:, -1]]
        return each.sum(-1) + torch.where(padded.lengths > 0, last, 0.0)

    def posterior(self, value: Tensor) -> AlignmentHMMPosterior:  # type: ignore[override]
        one_set(self._all.batch_shape)
        names = {name: w.detach() for name, w in self.weights.items()}
        return AlignmentHMMPosterior(names, self._all.squeezed(), self._data(value), self.grid, self.turned)

    def _chosen_places(self, structure: Tensor, padded: Padded) -> Tensor:  # (cells,) -> (B, T)
        """What each word chooses, 0 for no link, if every word chooses once."""
        if structure.shape != self.event_shape:
            raise StructureError(
                f"an alignment has one number for each of the {self.event_shape[0]} cells, actual shape "
                f"{tuple(structure.shape)}"
            )
        B, T, S = padded.shape
        ones = torch.zeros(B * T * S, dtype=torch.long).index_copy(0, padded.at, (structure[padded.cell] == 1).long())
        times = ones.reshape(B, T, S).sum(-1)
        wrong = ((times != 1) & (torch.arange(T) < padded.lengths[:, None])).nonzero()
        if len(wrong) or int((structure != 0).sum()) != int(ones.sum()):
            b, t = wrong[0].tolist() if len(wrong) else (0, 0)
            raise StructureError(
                f"every word chooses one word or the null word: expected one 1 among the choices of each, actual "
                f"{int(times[b, t]) if times.numel() else 0} for word {t} of pair {b}"
            )
        return ones.reshape(B, T, S).argmax(-1)
