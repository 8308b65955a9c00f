"""The segmentation: sentences without spaces, cut into segments from a lexicon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.running import Place
from .dependency import check_sentences
from .parts import Pieces
from .ragged import offsets_of
from .semiring import Sum
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure


class Segmentation(Structure):
    """Sentences of symbols that are segments end to end, the cuts between them summed out.

    The story: toss a coin whether to go on; if so, draw a segment from the lexicon, of at most L symbols, write it down
    and toss again; else stop. Weights are logs of anything, and with one more weight by the length of a segment (a
    penalty, say), the sum goes over all ways y to cut the sentence up:

    .. math:: \\log p(x) = \\log \\sum_y \\mathrm{stop} \\prod_{s \\in y} \\mathrm{go} \\; \\theta_s \\; v(|s|).

    With :math:`A(t)` the sum over the ways to cut up the first t symbols, :math:`A(0) = 1` and
    :math:`A(t) = \\sum_{w \\le L} A(t - w) \\, \\mathrm{go} \\, \\theta_{t - w, t} \\, v(w)`, this is
    :math:`p(x) = A(n) \\, \\mathrm{stop}`. O(n L). On CPU a compiled kernel does the work.

    A value is a table of numbers, a row for each symbol of all sentences end to end and a column for each length: which
    type of segment ends at this symbol and has this length, w in column w - 1. What reaches back beyond the start of
    the sentence, and what cannot be a segment, is -1. A structure is a vector over the symbols, 1 where a segment ends
    and 0 inside one. Its parts are pieces, (symbols, L), by the end of a segment and its length.

    :param segments: (*batch, S) log-weights of the types of segments.
    :param length: (*batch, L + 1) log-weights of a segment of w symbols, by w from 0 to L.
    :param stop: (*batch, 2) log-weights of going on with another segment, and of stopping.
    :param lengths: (B,) symbols in each sentence. A sentence of length 0 is skipped: probability 1, no counts.

    Example, all weights 1, so that p(x) counts segmentations, into segments of at most two symbols::

        >>> import torch
        >>> from pyro_unsup.distributions import Segmentation
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> cells = torch.zeros(15, 2, dtype=torch.long)
        >>> cells[[0, 1, 3, 6, 10], 1] = -1  # two symbols cannot end at the first
        >>> Segmentation(torch.zeros(1), torch.zeros(3), torch.zeros(2), lengths).log_prob(cells).exp().round()
        tensor([1., 2., 3., 5., 8.])

    **References:**

    [1] P. Liang and D. Klein (2009) "Online EM for unsupervised models", 3.3.
    [2] T. Berg-Kirkpatrick et al. (2010) "Painless unsupervised learning with features", 6.
    """

    axes = {"segments": "S", "length": "L+1", "stop": "2"}  # noqa: RUF012
    part = "pieces"
    kernel = "pyro_unsup.kernels.segmentation"
    what = "segments"

    def __init__(
        self, segments: Tensor, length: Tensor, stop: Tensor, lengths: Tensor, validate_args: bool | None = None
    ) -> None:
        lengths = check_sentences(lengths)
        weights = {"segments": segments, "length": length, "stop": stop}
        most = length.shape[-1] - 1 if len(length.shape) else 0
        super().__init__(weights, lengths, Size([int(lengths.sum()), most]), validate_args=validate_args)

    def owner(self, group: str) -> Tensor:
        return torch.arange(len(self.rows)) if group == "ends" else self.rows.owner

    def potentials(self, value: Tensor) -> Potentials:
        """Segments, going on included, (*draws, symbols, L); and the end of each sentence, (*draws, B)."""
        device, L = value.device, self.sizes["L"]
        owner = self.rows.owner.to(device).unsqueeze(-1).expand(-1, L)
        go, stop = self.table("stop").unbind(-1)  # (*draws, 1 or B)
        length = self.table("length")[..., 1:] + go.unsqueeze(-1)  # (*draws, 1 or B, L)
        known = self.look_up(self.table("segments"), owner, value.long().clamp(min=0))
        pieces = known + self.spread(length, self.rows.owner)
        ends = stop.expand(*stop.shape[:-1], len(self.rows))
        return {"pieces": pieces.masked_fill(value < 0, -torch.inf), "ends": ends}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The sum over the ways to cut up the first t symbols goes over the length of the last segment::

        ahead[0] = 0
        ahead[t] = sum_{w <= L}  ahead[t - w] + piece[t, w]
        total    = ahead[n] + end
        """
        flat = potentials["pieces"]
        pieces = self.rows.pad(flat, flat.dim() - 2, -torch.inf)  # (*draws, B, T, L)
        recent = torch.full_like(pieces[..., 0, :], -torch.inf)  # (*draws, B, L) ahead[t - 1], ahead[t - 2], ...
        recent = torch.cat([torch.zeros_like(recent[..., :1]), recent[..., 1:]], -1)
        ahead = []
        for t in range(pieces.shape[-2]):
            ahead.append(sum_(recent + pieces[..., t, :], -1))
            recent = torch.cat([ahead[-1].unsqueeze(-1), recent[..., :-1]], -1)
        whole = torch.stack(ahead, -1)  # (*draws, B, T)
        last = (self.rows.lengths - 1).clamp(min=0).to(whole.device).unsqueeze(-1)
        return potentials["ends"] + whole.gather(-1, last.expand(*whole.shape[:-1], 1)).squeeze(-1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, symbols, L) -> (*draws, symbols)
        return parts.sum(-1).long()

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, symbols) -> (*draws, symbols, L)
        number = torch.arange(1, structure.shape[-1] + 1, device=structure.device)
        latest = torch.where(structure == 1, number, 0).cummax(-1).values  # sentences end in the end of a segment
        before = torch.cat([torch.zeros_like(latest[..., :1]), latest[..., :-1]], -1)
        width = torch.arange(1, self.sizes["L"] + 1, device=structure.device)
        return (structure == 1).unsqueeze(-1) & ((number - before).unsqueeze(-1) == width)

    def check_value(self, value: Tensor) -> None:
        self.check_integers(value, self.sizes["S"], -1)

    def check_structure(self, structure: Tensor) -> None:
        _, size, owner = segments_of(structure, self.rows.lengths)
        most = self.sizes["L"]
        if bool((size > most).any()):
            where = int((size > most).nonzero()[0])
            raise StructureError(
                f"sentence {int(owner[where])} has a segment of {int(size[where])} symbols, expected at most {most}"
            )

    def parts(self, value: Tensor) -> Pieces:
        return Pieces(value, self.rows.lengths)

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        if places.keys() != {"segments", "stop"} or is_large(len(value) / 16, len(self.rows), batch_size):
            return None
        columns, stop = places["segments"].columns, places["stop"].columns
        if columns is None or stop is None or stop.tolist() != [0, 1]:
            return None
        cells = np.where(value.numpy() < 0, -1, columns[value.numpy()]).astype(np.int32)
        length = self.weights["length"].double().reshape(-1).numpy()
        return CompiledStretch(
            "segmentation_stepwise", ("segments", "stop"), (cells, length, self.rows.offsets.numpy())
        )

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "a segmentation cannot draw sentences: it knows segments by number, not what symbols they are made of, so "
            "not which others overlap them. Draw segmentations of given sentences with posterior(value).sample()"
        )


def segments_of(structure: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (symbols,), (B,)
    """The segments of a segmentation from left to right: the last symbol, the length and the sentence of each.

    >>> import torch
    >>> from pyro_unsup.distributions.segmentation import segments_of
    >>> [x.tolist() for x in segments_of(torch.tensor([1, 0, 1, 0, 1]), torch.tensor([3, 2]))]
    [[0, 2, 4], [1, 2, 2], [0, 0, 1]]
    """
    symbols = int(lengths.sum())
    if structure.shape != (symbols,):
        raise StructureError(
            f"a segmentation has one number for each of the {symbols} symbols, actual shape {tuple(structure.shape)}"
        )
    if bool(((structure != 0) & (structure != 1)).any()):
        raise StructureError("a segmentation is made of 1 (a segment ends) and 0 (inside one), found another number")
    ends = offsets_of(lengths)[1:]
    closed = (lengths == 0) | (structure[(ends - 1).clamp(min=0)] == 1) if symbols else lengths == 0
    if not bool(closed.all()):
        raise StructureError(
            f"sentence {int((~closed).nonzero()[0])} does not end in the end of a segment: its last symbol should be 1"
        )
    last = structure.nonzero()[:, 0]
    size = torch.diff(last, prepend=last.new_tensor([-1]))
    return last, size, torch.searchsorted(ends, last, right=True)
