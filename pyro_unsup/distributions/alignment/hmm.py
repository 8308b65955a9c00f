"""The alignment by jumps: every word of a sentence chooses a word of its translation, near the one chosen before."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import StructureError
from ..semiring import Sum
from ..structure import Potentials
from .grid import Grid
from .jumps import evenly, jumps_to_the_end, jumps_within, reach_of, rooms
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

    Values and structures are those of :class:`.Alignment`, and so is the other direction (``turned``).

    :param translation: (*batch, C) log-weights of target words given source words (turned: the other way).
    :param grid: how the words of the pairs lie.
    :param jump: (*batch, 3, 2 W + 1) log-weights of jumps, by kind (to the first link, from link to link, to the end)
        and by offset, from -W (or less) to W (or more).
    :param room: (*batch, (W + 1)^2 + 2 W) log-weights of room, zeros if not given; :func:`.again` makes jumps add up
        to one.
    :param share: (*batch, most) log-weights of jumping to one of n places, for n from 1 to the longest sentence and one
        more; if not given they share evenly, 1 / n.
    :param null: (B,) or (*draws, 1, B), log n of each pair; zeros if not given.
    :param word: (B,) or (*draws, 1, B), log a of each pair; zeros if not given.

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
        validate_args: bool | None = None,
    ) -> None:
        share = evenly(grid.widest(turned) + 1, translation) if share is None else share
        weights = {"translation": translation, "jump": jump, "room": room, "share": share, "null": null, "word": word}
        self._make(weights, grid, turned, validate_args)

    def _axes(self) -> dict[str, str]:
        return {**super()._axes(), "jump": "3 J", "room": "R", "share": "M"}

    def _measure(self) -> None:
        self.reach = reach_of(self.weights["jump"])
        self.all_axes = {**self.all_axes, "room": str(rooms(self.reach))}  # its size goes with that of the jumps
        super()._measure()
        most = self.grid.widest(self.turned) + 1
        if self.sizes["M"] < most:
            raise StructureError(
                f"there are sentences of {most - 1} words, so share should have {most} log-weights at least, actual "
                f"shape {tuple(self.weights['share'].shape)}"
            )

    def potentials(self, value: Tensor) -> Potentials:
        """Of links as ever; and the weights of jumps as they are, for they are used all over a pair."""
        jump = self.table("jump")
        room = self.table("room") if "room" in self.weights else jump.new_zeros(*jump.shape[:-2], rooms(self.reach))
        return {**super().potentials(value), "jump": jump, "room": room, "share": self.table("share")}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The message at t holds, for every place, the sum over all ways to link the first t words, the last link being
        to that place::

            m_0[0]   = 1
            m_t[i]   = m_{t-1}[i] null_t  +  link_t[i] sum_h m_{t-1}[h] jump[h, i]
            total    = sum_i m_n[i] end[i]
        """
        links = potentials["links"]
        each = self.rows.pad(self.by_word(links, -torch.inf), links.dim() - 1)  # (*draws, B, T, S + 1)
        jump, end = self._jumps(potentials)  # (*draws, B, S + 1, S), (*draws, B, S + 1)
        lengths = self.rows.lengths.to(links.device).unsqueeze(-1)
        batch = torch.broadcast_shapes(each.shape[:-2], end.shape[:-1])
        start = torch.cat([end.new_zeros(1), end.new_full((end.shape[-1] - 1,), -torch.inf)])
        message = start.expand(*batch, -1)
        for t in range(each.shape[-2]):
            stay = message + each[..., t, :1]
            arrived = each[..., t, 1:] + sum_(message.unsqueeze(-1) + jump, -2)
            linked = sum_(torch.stack([stay[..., 1:], arrived], -1), -1)
            message = torch.where(t < lengths, torch.cat([stay[..., :1], linked], -1), message)
        return sum_(message + end, -1)

    def _jumps(self, potentials: Potentials) -> tuple[Tensor, Tensor]:
        """From each place (0 is before the sentence) to each word, and from each place to the end."""
        sizes, most = self.grid.chosen(self.turned), self.grid.widest(self.turned)
        weights = [potentials[name] for name in self.shared_groups]
        within, out = jumps_within(sizes, self.reach, most), jumps_to_the_end(sizes, self.reach, most)
        return within.logs(*weights), out.logs(*weights)
