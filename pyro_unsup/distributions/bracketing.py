"""The bracketing: binary trees over sentences, every span weighed as a constituent or as none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from .. import kernels
from ..array import Array
from ..errors import StructureError
from ..kernels.running import Place
from .cells import SpanCells, crossing, span_lengths, spans_of
from .dependency import check_sentences
from .parts import Brackets
from .ragged import offsets_of
from .semiring import Sum
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure


class Bracketing(Structure):
    """Sentences under a hidden binary tree, the tree summed out (the constituent-context model).

    The story, for a sentence of n words: draw a binary tree y over it. Each of its n (n + 1) / 2 spans of one word or
    more is a constituent (in the tree) or a distituent (not in it). Every span, on its own, draws its yield and its
    context given which of the two it is. Weights are logs of anything, and

    .. math:: \\log p(x) = \\log \\sum_y t(n) \\prod_{s \\in y, |s| > 1} v(|s|)
              \\prod_s \\psi(\\mathrm{yield}_s \\mid [s \\in y]) \\, \\chi(\\mathrm{context}_s \\mid [s \\in y]).

    The words of a sentence are drawn again and again, by every span over them: the model is deficient, and has no
    ``sample``. Single words and whole sentences are constituents of every tree, and count as such.

    With the ratio :math:`\\phi_s` of a span's weight as constituent to its weight as distituent, and K the product of
    all distituent weights, :math:`p(x) = K \\cdot I(0, n)`, where :math:`I(i, j) = \\phi_{ij} \\sum_k I(i, k) I(k, j)`.
    O(n^3). On CPU a compiled kernel does the work. A weight of -inf as a distituent means that the span must be in the
    tree, and that is what is computed.

    A value is a table with two columns, the yield and the context of each span: sentence by sentence, narrow spans
    first, from left to right among those of one width (:func:`.spans_of`). A structure is a vector over the same spans,
    1 for a constituent and 0 for a distituent. Its parts are constituents, (spans,).

    :param yields: (*batch, 2, Y) log-weights of yields, row 0 for distituents and row 1 for constituents.
    :param contexts: (*batch, 2, X), in the same way.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param node: (*batch, W + 1) log-weight of a constituent of w > 1 words, by w; zeros if not given.
    :param tree: (*batch, W + 1) log-weight of a sentence of n words, by n; zeros if not given. A prior over trees is a
        choice of ``node`` and ``tree``: see :mod:`.bracketing_priors`.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import Bracketing
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> spans = torch.zeros(35, 2, dtype=torch.long)
        >>> Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), lengths).log_prob(spans).exp().round()
        tensor([ 1.,  1.,  2.,  5., 14.])

    **References:**

    [1] D. Klein and C. D. Manning (2002) "A generative constituent-context model for improved grammar induction".
    [2] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language learning", 6.1.
    """

    axes = {"yields": "2 Y", "contexts": "2 X", "node": "W", "tree": "L"}  # noqa: RUF012
    part = "constituents"
    kernel = "pyro_unsup.kernels.bracketing"
    what = "yields and contexts"

    def __init__(
        self,
        yields: Tensor,
        contexts: Tensor,
        lengths: Tensor,
        node: Tensor | None = None,
        tree: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        lengths = check_sentences(lengths)
        weights = {"yields": yields, "contexts": contexts, "node": node, "tree": tree}
        super().__init__(weights, lengths, Size([int(span_lengths(lengths).sum()), 2]), validate_args=validate_args)

    def _measure(self) -> None:
        super()._measure()
        longest = self.rows.longest if self.rows.size else 0
        for name in ("node", "tree"):
            if name in self.weights and self.weights[name].shape[-1] <= longest:
                raise StructureError(
                    f"the longest sentence has {longest} words, so {name} should have {longest + 1} or more "
                    f"log-weights (0 to {longest}), actual shape {tuple(self.weights[name].shape)}"
                )

    @property
    def span_cells(self) -> SpanCells:
        """Where spans lie."""
        return self.rows.known(SpanCells)

    def owner(self, group: str) -> Tensor:
        return torch.arange(len(self.rows)) if group == "trees" else self.span_cells.owner

    def potentials(self, value: Tensor) -> Potentials:
        """Every span as a constituent and as a distituent, (*draws, spans), and each sentence, (*draws, B)."""
        cells, device = self.span_cells, value.device
        owner, width = cells.owner.to(device), cells.width.to(device)
        y, x = value[:, 0].long(), value[:, 1].long()
        outside, inside = (
            self.look_up(of_yield, owner, y) + self.look_up(of_context, owner, x)
            for of_yield, of_context in zip(
                self.table("yields").unbind(-2), self.table("contexts").unbind(-2), strict=True
            )
        )
        if "node" in self.weights:
            inside = inside + torch.where(width > 1, self.look_up(self.table("node"), owner, width), 0.0)
        lengths, sentence = self.rows.lengths.to(device), torch.arange(len(self.rows), device=device)
        trees = inside.new_zeros(*(1,) * len(self.draws), len(self.rows))
        if "tree" in self.weights:
            trees = self.look_up(self.table("tree"), sentence, lengths)
        outside = outside.masked_fill(cells.always.to(device), -torch.inf)
        return {"constituents": inside, "distituents": outside, "trees": trees}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The sum over the trees of a span goes over the places to split it::

            inside[i, i + 1] = weight[i, i + 1]
            inside[i, j]     = weight[i, j] + sum_{i < k < j}  inside[i, k] + inside[k, j]
            total            = inside[0, n]

        with the weights that constituents have beside what all trees share (:meth:`ratios`).
        """
        weights, shared = self.ratios(potentials)  # by width, (*draws, starts, B)
        # Charts of (*draws, places, widths, B): one by where spans start, narrow ones first; one by where they end,
        # wide ones first. No wider span starts at the last of these places, or ends at the first: those are left out.
        # Sentences are the last axis, so that a sum goes over whole rows of them.
        starting = ending = weights[0].unsqueeze(-2)
        for weight in weights[1:]:
            first, last = starting[..., :-1, :, :], ending[..., 1:, :, :]
            row = (weight + sum_(first + last, -2)).unsqueeze(-2)
            starting, ending = torch.cat([first, row], -2), torch.cat([row, last], -2)
        whole = starting[..., 0, :, :]  # (*draws, N, B) of the first w words
        n = (self.rows.lengths - 1).clamp(min=0).to(whole.device).expand(*whole.shape[:-2], 1, -1)
        return shared + whole.gather(-2, n).squeeze(-2)

    def ratios(self, potentials: Potentials, mirror: bool = False) -> tuple[list[Tensor], Tensor]:
        """What each constituent multiplies the weight of a tree by, and what all trees of a sentence share, in logs.

        First let every span be a distituent; a constituent then multiplies the weight by inside / outside. Spans that
        no tree of the sentence is without count as what they are. A span that cannot be a distituent must be in the
        tree, so nothing that crosses it may be: a tree without crossings of a span has that span, for the smallest
        constituent around it would otherwise split into one that crosses it.

        :param mirror: read sentences from right to left.
        :return: by width, from 1, tensors of (*draws, starts, B); and (*draws, B).
        """
        inside, outside = potentials["constituents"], potentials["distituents"]
        cells, B, N = self.span_cells, len(self.rows), self.rows.longest
        must = outside == -torch.inf
        outside = outside.masked_fill(must, 0.0)
        weight = inside - outside
        forced = must & ~cells.always.to(must.device)
        # On the CPU a look is cheap, and mostly saves all of this; elsewhere it would make the device wait.
        if forced.device.type != "cpu" or bool(forced.any()):
            weight = weight.masked_fill(self._crossed(forced), -torch.inf)
        place = (cells.mirrored if mirror else cells.by_width).to(weight.device)
        starts = list(range(N, 0, -1))
        chart = weight.new_zeros(*weight.shape[:-1], sum(starts) * B).index_copy(-1, place, weight)
        by_width = chart.split([size * B for size in starts], -1)
        lead = outside.dim() - 1
        return (
            [row.unflatten(-1, (size, B)) for row, size in zip(by_width, starts, strict=True)],
            potentials["trees"] + _sum_by(outside, cells.owner, B, lead),
        )

    def _crossed(self, some: Tensor) -> Tensor:  # (*draws, spans) bool -> the same
        """Which spans cross one of these."""
        cells, B, size = self.span_cells, len(self.rows), self.rows.longest + 1
        at = ((cells.owner * size + cells.start) * size + cells.end).to(some.device)
        chart = some.new_zeros(*some.shape[:-1], B * size * size).index_copy(-1, at, some)
        return crossing(chart.unflatten(-1, (B, size, size))).flatten(-3).index_select(-1, at)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, spans)
        return parts.long()

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, spans)
        return structure == 1

    def check_value(self, value: Tensor) -> None:
        if value.is_floating_point() or value.dtype == torch.bool:
            raise StructureError(f"yields and contexts must be integers, actual dtype = {value.dtype}")
        if not value.numel() or _within(value, self.sizes["Y"], self.sizes["X"]):
            return
        for name, letter, column in zip(("yields", "contexts"), "YX", value.unbind(1), strict=True):
            least, most = (int(x) for x in column.contiguous().aminmax())
            if least < 0 or most >= self.sizes[letter]:
                raise StructureError(
                    f"{name} must lie in 0 .. {self.sizes[letter] - 1} (the table has {self.sizes[letter]} columns), "
                    f"actual range {least} .. {most}"
                )

    def check_structure(self, structure: Tensor) -> None:
        check_trees(structure, self.rows.lengths)

    def parts(self, value: Tensor) -> Brackets:
        return Brackets(value, self.rows.lengths)

    def references(self) -> dict[str, Potentials]:
        """``"split"``: a sentence is split at a random place, and so is each part."""
        width = self.span_cells.width.clamp(min=2)
        return {"split": {"constituents": -(width - 1).to(self.weights["yields"]).log()}}

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        data = spans_to_learn(self, value, places)
        if places.keys() != {"yields", "contexts"} or data is None or is_large(len(value), len(self.rows), batch_size):
            return None
        return CompiledStretch("bracketing_stepwise", ("yields", "contexts"), data)

    def sample(self, sample_shape: object = ()) -> Tensor:
        raise StructureError(
            "a bracketing cannot draw sentences: every span draws its own yield and context, and those of overlapping "
            "spans need not agree on the words. Draw trees for given sentences with posterior(value).sample()"
        )


def spans_to_learn(dist: Structure, spans: Tensor, places: Mapping[str, Place]) -> tuple[Any, ...] | None:
    """What stepwise EM wants to know of spans; None if that does not say it all.

    The cells of each as a distituent, in which row that of its yield is, how far those of a constituent are from there;
    log-weights of trees; words and first span of each sentence.
    """
    if not {"yields", "contexts"} <= places.keys() or "node" in dist.weights:
        return None
    of_yields, of_contexts = _beside(places["yields"], spans[:, 0]), _beside(places["contexts"], spans[:, 1])
    if of_yields is None or of_contexts is None or len(of_contexts[1]):
        return None
    (yields, rows, yield_gaps), (contexts, _, context_gaps) = of_yields, of_contexts
    lengths = dist.rows.lengths
    tree = dist.weights["tree"].double() if "tree" in dist.weights else torch.zeros(dist.rows.longest + 1).double()
    cells, edges = np.stack([yields, contexts], 1).astype(np.int32), offsets_of(span_lengths(lengths)).numpy()
    return cells, rows, (*yield_gaps, *context_gaps), tree.reshape(-1).numpy(), lengths.numpy(), edges


def _beside(place: Place, columns: Tensor) -> tuple[Array, Array, tuple[int, int]] | None:  # (spans,)
    """For each span its cell as a distituent, and the row of that, unless it is the first one for all; and how far the
    cell and the row of the constituent are from those. None if they are not equally far."""
    cells, rows = place.cells.reshape(2, -1), place.rows.reshape(2, -1)
    gaps, row_gaps = cells[1] - cells[0], rows[1] - rows[0]
    if (cells < 0).any() or (gaps != gaps[0]).any() or (row_gaps != row_gaps[0]).any():
        return None
    own = rows[0][columns.numpy()].astype(np.int32) if rows[0].any() else np.empty(0, np.int32)
    return cells[0][columns.numpy()], own, (int(gaps[0]), int(row_gaps[0]))


def _within(spans: Tensor, yields: int, contexts: int) -> bool:  # (spans, 2)
    """Whether every span has a yield and a context below these numbers: by a kernel, where there is one."""
    if spans.device.type != "cpu" or not kernels.enabled():
        return False
    from ..kernels.bracketing import spans_within  # numba loads when it is first needed

    return spans_within(spans, yields, contexts)


def _sum_by(x: Tensor, owner: Tensor, size: int, lead: int) -> Tensor:  # (*lead, rows) -> (*lead, size)
    return x.new_zeros(*x.shape[:lead], size).index_add(lead, owner.to(x.device), x)


def constituents(structure: Tensor, lengths: Tensor) -> Tensor:  # (spans,), (B,) -> (m, 3)
    """The constituents of trees, as rows of sentence, start and end.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing import constituents
    >>> constituents(torch.tensor([1, 1, 1, 0, 1, 1]), torch.tensor([3])).tolist()
    [[0, 0, 1], [0, 1, 2], [0, 2, 3], [0, 1, 3], [0, 0, 3]]
    """
    return torch.stack(spans_of(lengths), 1)[structure == 1]


def check_trees(structure: Tensor, lengths: Tensor) -> Tensor:  # (spans,), (B,) -> (spans,) bool
    """The structure as truth values, if it is one binary tree a sentence."""
    owner, start, end = spans_of(lengths)
    if structure.shape != owner.shape:
        raise StructureError(
            f"a tree has one number for each of the {len(owner)} spans, actual shape {tuple(structure.shape)}"
        )
    if bool(((structure != 0) & (structure != 1)).any()):
        raise StructureError("a tree is made of 1 (constituent) and 0 (distituent), found another number")
    chosen = structure != 0
    size = torch.zeros_like(lengths).index_add(0, owner, chosen.long())
    always = (end - start == 1) | (end - start == lengths[owner])
    bad = (size != (2 * lengths - 1).clamp(min=0)).nonzero()[:, 0].tolist() + owner[always & ~chosen].tolist()
    if not bad:
        N = int(lengths.max()) if len(lengths) else 0
        chart = torch.zeros(len(lengths), N + 1, N + 1, dtype=torch.bool, device=structure.device)
        chart[owner, start, end] = chosen
        bad = (chart & crossing(chart)).flatten(1).any(1).nonzero()[:, 0].tolist()
    if bad:
        first = min(bad)
        found = [tuple(span[1:]) for span in constituents(structure, lengths).tolist() if span[0] == first]
        raise StructureError(
            f"sentence {first} has no binary tree: expected its {int(lengths[first])} words, the whole sentence, and "
            f"between them spans that do not cross, {2 * int(lengths[first]) - 1} in all, actual {found!s:.200}"
        )
    return chosen
