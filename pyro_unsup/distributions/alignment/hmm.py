"""The alignment by jumps: every word of a sentence chooses a word of its translation, near the one chosen before."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...errors import StructureError
from ..ragged import Rows, offsets_of
from ..semiring import Sum
from ..structure import Potentials
from .grid import Grid, ranges
from .jumps import direction_of, directions, evenly, inner_of, jumps_to_the_end, jumps_within, reach_of, rooms
from .model1 import Alignment


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
    (:mod:`.jumps`). O(T S W). The sum and its gradient are exact. On CPU a compiled kernel does the work.

    Jumps may depend on the word that they leave, by its class, and on the direction of the jump before (``order=2``;
    four directions: back, to the same word, to the next, further ahead; O(4 T S W)). There is a kind of jumps from link
    to link for each of these: all classes after a jump back, all classes after a jump to the same word, and so on.

    Values and structures are those of :class:`.Alignment`, and so is the other direction (``turned``).

    :param translation: (*batch, C) log-weights of target words given source words (turned: the other way).
    :param grid: how the words of the pairs lie.
    :param jump: (*batch, kinds, 2 W + 1) log-weights of jumps, by kind (to the first link, from link to link, one or
        more kinds, and to the end) and by offset, from -W (or less) to W (or more).
    :param room: (*batch, rooms) log-weights of room, zeros if not given; :func:`.again` makes jumps add up to one.
    :param share: (*batch, most) log-weights of jumping to one of n places, for n from 1 to the longest sentence and one
        more; if not given they share evenly, 1 / n.
    :param null: (B,) or (*draws, 1, B), log n of each pair; zeros if not given.
    :param word: (B,) or (*draws, 1, B), log a of each pair; zeros if not given.
    :param classes: (words that may be chosen,) the class of each, pair by pair; all of one class if not given.
    :param order: 2 if jumps depend on the direction of the jump before.

    Example, all weights 1, so that p counts alignments::

        >>> import torch
        >>> from pyro_unsup.distributions import AlignmentHMM
        >>> from pyro_unsup.distributions.alignment.grid import Grid
        >>> grid = Grid(torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2]))
        >>> value = torch.zeros(grid.cells, dtype=torch.int32)
        >>> AlignmentHMM(torch.zeros(1), grid, torch.zeros(3, 11)).log_prob(value).exp().round()
        tensor([ 4.,  9., 16.])

    **References:** [1] S. Vogel, H. Ney and C. Tillmann (1996) "HMM-based word alignment in statistical translation";
    [2] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    """

    shared_groups = ("jump", "room", "share")
    kernel = "pyro_unsup.kernels.alignment.hmm"

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
        classes: Tensor | None = None,
        order: int = 1,
        validate_args: bool | None = None,
    ) -> None:
        self.directions, self.classes = directions(order), classes
        self._known: dict[str, Tensor] = {}  # made from the classes when first asked for; copies share it
        share = evenly(grid.widest(turned) + 1, translation) if share is None else share
        weights = {"translation": translation, "jump": jump, "room": room, "share": share, "null": null, "word": word}
        self._make(weights, grid, turned, validate_args)
        self._check_classes()

    def _axes(self) -> dict[str, str]:
        return {**super()._axes(), "jump": "K J", "room": "R", "share": "M"}

    def _measure(self) -> None:
        self.reach, self.inner = reach_of(self.weights["jump"]), inner_of(self.weights["jump"])
        if self.inner % self.directions:
            raise StructureError(
                f"jumps that depend on the direction of the jump before should have {self.directions} kinds from link "
                f"to link for each class, actual {self.inner} such kinds"
            )
        # The size of the room goes with that of the jumps.
        self.all_axes = {**self.all_axes, "room": str(rooms(self.reach, self.inner))}
        super()._measure()
        most = self.grid.widest(self.turned) + 1
        if self.sizes["M"] < most:
            raise StructureError(
                f"there are sentences of {most - 1} words, so share should have {most} log-weights at least, actual "
                f"shape {tuple(self.weights['share'].shape)}"
            )

    def _check_classes(self) -> None:
        many, words = self.inner // self.directions, int(self.grid.chosen(self.turned).sum())
        if self.classes is None and many == 1:
            return
        found = torch.empty(0) if self.classes is None else self.classes
        if self.classes is None or found.shape != (words,) or found.is_floating_point():
            raise StructureError(
                f"jumps of {many} classes of words need the class of each of the {words} words that may be chosen, "
                f"actual {'none' if self.classes is None else f'{tuple(found.shape)} {found.dtype}'}"
            )
        if words and not 0 <= int(found.min()) <= int(found.max()) < many:
            raise StructureError(
                f"classes must lie in 0 .. {many - 1} (there are jumps of {many}), actual range {int(found.min())} .. "
                f"{int(found.max())}"
            )

    def potentials(self, value: Tensor) -> Potentials:
        """Of links as ever; and the weights of jumps as they are, for they are used all over a pair."""
        jump = self.table("jump")
        size = rooms(self.reach, self.inner)
        room = self.table("room") if "room" in self.weights else jump.new_zeros(*jump.shape[:-2], size)
        return {**super().potentials(value), "jump": jump, "room": room, "share": self.table("share")}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The message at t holds, for every place and every direction of the last jump, the sum over all ways to link
        the first t words, the last link being to that place, by such a jump::

            m_0[0, 0] = 1
            m_t[d, i] = m_{t-1}[d, i] null_t  +  link_t[i] sum_{e, h : h -> i goes in d} m_{t-1}[e, h] jump[e, h, i]
            total     = sum_{d, i} m_n[d, i] end[i]
        """
        links = potentials["links"]
        each = self.rows.pad(self.by_word(links, -torch.inf), links.dim() - 1)  # (*draws, B, T, S + 1)
        jump, end = self._jumps(potentials)  # (*draws, B, D, S + 1, S), (*draws, B, S + 1)
        goes = self._goes(end.shape[-1] - 1).to(links.device)  # (D, S + 1, S)
        lengths = self.rows.lengths.to(links.device)[:, None, None]
        batch = torch.broadcast_shapes(each.shape[:-2], end.shape[:-1])
        start = pad(end.new_zeros(1, 1), (0, end.shape[-1] - 1, 0, self.directions - 1), value=-torch.inf)
        message = start.expand(*batch, *start.shape)
        for t in range(each.shape[-2]):
            stay = message + each[..., t, :1].unsqueeze(-2)
            moved = message.unsqueeze(-1) + jump  # (*draws, B, D, S + 1, S)
            if self.directions == 1:
                arrived = sum_(moved.squeeze(-3), -2).unsqueeze(-2)
            else:
                ways = torch.where(goes.unsqueeze(-3), moved.unsqueeze(-4), -torch.inf)
                arrived = sum_(ways.flatten(-3, -2), -2)  # (*draws, B, D, S)
            arrived = each[..., t, 1:].unsqueeze(-2) + arrived
            linked = sum_(torch.stack([stay[..., 1:], arrived], -1), -1)
            message = torch.where(t < lengths, torch.cat([stay[..., :1], linked], -1), message)
        return sum_((message + end.unsqueeze(-2)).flatten(-2), -1)

    def _goes(self, most: int) -> Tensor:  # (D, S + 1, S) bool
        """Which jumps from a place (0 is before the sentence) to a word go in which direction."""
        offset = torch.arange(1, most + 1) - torch.arange(most + 1)[:, None]
        found = direction_of(self.reach)[offset.clamp(-self.reach, self.reach) + self.reach]
        return found == torch.arange(self.directions)[:, None, None]

    def _jumps(self, potentials: Potentials) -> tuple[Tensor, Tensor]:
        """From each place (0 is before the sentence), after each direction, to each word; and from each place to the
        end."""
        sizes, most = self.grid.chosen(self.turned), self.grid.widest(self.turned)
        weights = [potentials[name] for name in self.shared_groups]
        if self.inner > 1 and "kinds" not in self._known:
            self._known["kinds"] = self._kinds()
        within = jumps_within(sizes, self.reach, most, self._known.get("kinds"), self.inner)
        return within.logs(*weights), jumps_to_the_end(sizes, self.reach, most, self.inner).logs(*weights)

    def _kinds(self) -> Tensor:  # (B, D, S + 1)
        """The inner kind of jumps from each place, after each direction."""
        sizes, most = self.grid.chosen(self.turned), self.grid.widest(self.turned)
        by_place, words = torch.zeros(len(sizes), most + 1, dtype=torch.long), Rows(sizes)
        if self.classes is not None:
            by_place[words.owner, words.position + 1] = self.classes.cpu().long()
        many = self.inner // self.directions
        return by_place.unsqueeze(-2) + many * torch.arange(self.directions).unsqueeze(-1)

    def of_pairs(self, grid: Grid, cells: Tensor, pairs: Tensor) -> Self:
        new = super().of_pairs(grid, cells, pairs)
        new._known = {}
        if self.classes is not None:
            sizes = self.grid.chosen(self.turned)
            new.classes = self.classes[ranges(offsets_of(sizes)[:-1][pairs], sizes[pairs])]
        return new
