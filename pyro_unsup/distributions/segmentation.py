"""The segmentation: sentences without spaces, cut into segments from a lexicon."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .parts import Pieces
from .ragged import broadcast, check_lengths, offsets_of
from .segmentation_posterior import SegmentationPosterior
from .segmentation_sum import SegmentationParts, check_cells, log_partition, reference_log_partition
from .structured import Structure, one_set
from .weighed import as_mask


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
    the sentence, and what cannot be a segment, is -1. A segmentation is a vector over the symbols, 1 where a segment
    ends and 0 inside one.

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

    def __init__(
        self, segments: Tensor, length: Tensor, stop: Tensor, lengths: Tensor, validate_args: bool | None = None
    ) -> None:
        self.segments, self.length, self.stop = segments, length, stop
        self.lengths = check_lengths(torch.as_tensor(lengths))
        self._parts = self._check()
        batch = broadcast(self._parts.batch_shape, self.lengths.shape)
        super().__init__(batch, Size([int(self.lengths.sum()), length.shape[-1] - 1]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> SegmentationParts:
        if self.lengths.dim() != 1:
            raise StructureError(f"lengths should have shape (B,), actual shape {tuple(self.lengths.shape)}")
        for name, table, least, what in (
            ("segments", self.segments, 1, "(types,), at least one"),
            ("length", self.length, 2, "(longest segment + 1,), at least 2"),
            ("stop", self.stop, 2, "(2,): going on, then stopping"),
        ):
            if table.dim() < 1 or table.shape[-1] < least or (name == "stop" and table.shape[-1] != 2):
                raise StructureError(f"{name} should end in shape {what}; actual shape {tuple(table.shape)}")
        parts = SegmentationParts(self.segments, self.length, self.stop)
        if parts.batch_shape and parts.batch_shape[-1] not in (1, len(self.lengths)):
            raise StructureError(
                f"the last batch axis of the weights should be 1, or {len(self.lengths)} (one set a sentence), actual "
                f"batch of weights {tuple(parts.batch_shape)}"
            )
        return parts

    @property
    def weights(self) -> dict[str, Tensor]:
        return {"segments": self.segments, "length": self.length, "stop": self.stop}

    def with_weights(self, weights: dict[str, Tensor]) -> Segmentation:
        new = copy(self)  # in every tempered E step: lengths need no second look
        for name, w in weights.items():
            setattr(new, name, w)
        new._parts = new._check()
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> Segmentation:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=2)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.integer_interval(-1, self.segments.shape[-1] - 1), 2)

    def log_prob(self, value: Tensor) -> Tensor:  # (symbols, L) -> batch_shape
        cells = self._data(value)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), cells, self.lengths)
        else:  # weights differ in the batch
            total = reference_log_partition(self._parts, cells, self.lengths)
        return total.expand(broadcast(total.shape, self._batch_shape))

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (symbols, L), (symbols,) -> (*batch, B)
        cells = self._data(value)
        last, size, owner = segments_of(structure, self.lengths)
        most = self.event_shape[1]
        if bool((size > most).any()):
            where = int((size > most).nonzero()[0])
            raise StructureError(
                f"sentence {int(owner[where])} has a segment of {int(size[where])} symbols, expected at most {most}"
            )
        each = self._parts.scores(cells[last, size - 1], size, owner)
        stop = self._parts.stop[..., 1].expand(*each.shape[:-1], len(self.lengths))
        return torch.where(self.lengths > 0, stop, 0.0).index_add(-1, owner, each)

    def posterior(self, value: Tensor) -> SegmentationPosterior:
        one_set(self._parts.batch_shape)
        names = {name: w.detach() for name, w in self.weights.items()}
        parts = SegmentationParts(*(x.detach() for x in self._parts.squeezed().tables()))
        return SegmentationPosterior(names, parts, self._data(value), self.lengths)

    def parts(self, value: Tensor) -> Pieces:
        return Pieces(value, self.lengths)

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Segmentation, Tensor]:
        cells, table = self._data(value), self.segments
        if (allowed := as_mask(factors)) is not None:
            return self, cells.masked_fill(~allowed, -1)
        columns = cells.long().clamp(min=0).reshape(-1)
        if table.dim() > 1 and table.shape[-2] > 1:  # every sentence has weights of its own
            owner = torch.repeat_interleave(torch.arange(len(self.lengths)), self.lengths * cells.shape[1])
            own = table[..., owner, columns].unsqueeze(-2)
        else:
            own = table.index_select(-1, columns)
        impossible = cells < 0
        own = (own + factors.reshape(-1)).masked_fill(impossible.reshape(-1), -torch.inf)
        numbers = torch.arange(cells.numel(), dtype=torch.int32).reshape(cells.shape)
        return self.with_weights({"segments": own}), numbers.masked_fill(impossible, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise StructureError(
            "a segmentation cannot draw sentences: it knows segments by number, not what symbols they are made of, so "
            "not which others overlap them. Draw segmentations of given sentences with posterior(value).sample()"
        )

    def _data(self, value: Tensor) -> Tensor:
        if value.shape != self.event_shape:
            raise StructureError(
                f"expected the number of the segment that ends at each symbol, by its length, shape "
                f"{tuple(self.event_shape)}, actual {tuple(value.shape)}"
            )
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"segments must be numbered by integers, actual dtype = {value.dtype}")
        check_cells(self._parts, value)
        return value


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
