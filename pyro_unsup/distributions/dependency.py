"""Dependencies: sentences of tags under a hidden dependency tree, in which every word but one has a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.running import Place
from .cells import ArcCells, by_first, by_last
from .dependency_priors import harmonic_arcs, uniform_arcs
from .parts import Arcs
from .ragged import check_lengths, offsets_of
from .semiring import Sum
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure

#: Directions, adjacencies and decisions, in the order of the axes of ``stop``.
LEFT, RIGHT = 0, 1
ADJACENT, BEYOND = 0, 1
STOP, CONTINUE = 0, 1


class Dependency(Structure):
    """Sentences of tags under a hidden dependency tree, the tree summed out (the dependency model with valence).

    The story: the root draws one tag r from ``root``. Each head h, to the left and, apart from that, to the right: it
    decides by ``stop`` whether to stop or to continue, given the direction, and whether no child is there yet
    (adjacent) or some are (beyond). To continue is to draw a child from ``attach`` given head and direction, which goes
    through the same story, outside all that came before it. Weights are logs of anything: the weight of a tree is their
    product, and p(x) the sum over all projective trees with one root. Each of n words is attached once (the root
    included), stops twice, and all together continue n - 1 times.

    Heads are split into their left and right halves, so the sum takes O(n^3). On CPU a compiled kernel does the work.

    A value is the tags of all sentences, end to end. A structure is the head of each word: 0 for the root, k for the
    k-th word of its sentence, as in a corpus. Its parts are arcs, (cells,): sentence by sentence a matrix (n, n + 1),
    by child and head, the root being the first head (:func:`.arcs_of`).

    :param root: (*batch, K).
    :param attach: (*batch, K, 2, K) axes (head, direction, child); directions are left, right. With ``valence=2``
        (*batch, K, 2, 2, K): axes (head, direction, adjacency, child).
    :param stop: (*batch, K, 2, 2, 2) axes (head, direction, adjacency, decision); adjacencies are adjacent, beyond;
        decisions are stop, continue.
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.
    :param valence: 2 if the child that a head draws first on a side, the nearest, is drawn from weights of its own.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import Dependency
        >>> lengths = torch.tensor([1, 2, 3, 4, 5])
        >>> trees = Dependency(torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2), lengths)
        >>> trees.log_prob(torch.zeros(15, dtype=torch.long)).exp().round()
        tensor([  1.,   2.,   7.,  30., 143.])

    **References:**

    [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of dependency and
        constituency".
    [2] J. Eisner and G. Satta (1999) "Efficient parsing for bilexical context-free grammars and head automaton
        grammars" (split heads).
    """

    axes = {"root": "K", "attach": "K 2 K", "stop": "K 2 2 2"}  # noqa: RUF012
    #: 2 if the first child of a head on a side has weights of its own, 1 if all children are alike.
    valence = 1
    part = "arcs"
    kernel = "pyro_unsup.kernels.dependency"
    what = "tags"

    def __init__(
        self,
        root: Tensor,
        attach: Tensor,
        stop: Tensor,
        lengths: Tensor,
        valence: int = 1,
        validate_args: bool | None = None,
    ) -> None:
        if valence not in (1, 2):
            raise StructureError(f"valence should be 1 or 2, actual {valence!r:.40}")
        lengths, self.valence = check_sentences(lengths), valence
        weights = {"root": root, "attach": attach, "stop": stop}
        axes = {**self.axes, "attach": "K 2 2 K"} if valence > 1 else None
        super().__init__(weights, lengths, Size([int(lengths.sum())]), axes=axes, validate_args=validate_args)

    @property
    def arc_cells(self) -> ArcCells:
        """Where arcs lie."""
        return self.rows.known(ArcCells)

    def owner(self, group: str) -> Tensor:
        return self.arc_cells.owner if group in ("arcs", "valences") else self.rows.owner

    def potentials(self, value: Tensor) -> Potentials:
        """Arcs, and the decisions of each word, (*draws, tokens, 2, 2, 2). With two valences, the weights of ``attach``
        are those of arcs by adjacency, (*draws, cells, 2), and arcs have only the root's."""
        device = value.device
        cells, tags = self.arc_cells, value.long()
        owner, head, child = (x.to(device) for x in (cells.owner, cells.head, cells.child))
        h, c = tags[cells.head_word.to(device)], tags[cells.child_word.to(device)]
        attach, direction = self.table("attach"), (head < child).long()
        if self.valence > 1:  # (*draws, cells, 2)
            attach = torch.stack([self.look_up(attach[..., v, :], owner, h, direction, c) for v in range(2)], -1)
        else:
            attach = self.look_up(attach, owner, h, direction, c)
        root = self.look_up(self.table("root"), owner, c)
        found = {"decisions": self.look_up(self.table("stop"), self.rows.owner, tags)}
        if self.valence > 1:
            found["valences"] = torch.where((head > 0).unsqueeze(-1), attach, 0.0)
            attach = torch.zeros_like(root)
        arcs = torch.where(head > 0, attach, root)
        return {"arcs": arcs.masked_fill(head == child, -torch.inf), **found}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """Heads are split: the words to the left of a head and those to the right of it are generated apart. A half of
        i .. j is a head i with its children on one side and all below them; the last word is j. It is open if the head
        goes on to one more child, and sealed if it stops. One with an arc ends in the child attached last, of which
        only the half that faces the head is there yet. To the right::

            sealed[i, i] = stop[i, adjacent]               open[i, i] = continue[i, adjacent]
            arced[i, j]  = arc[i -> j] + sum_{i <= k < j}  open[i, k] + left_sealed[k + 1, j]
            whole[i, j]  = sum_{i < k <= j}  arced[i, k] + sealed[k, j]
            sealed[i, j] = whole[i, j] + stop[i, beyond]   open[i, j] = whole[i, j] + continue[i, beyond]
            total        = sum_r  root[r] + left_sealed[0, r] + sealed[r, n - 1]

        To the left it is the same with words counted from the end. So both directions are one axis of all tensors. With
        two valences, an arc of the first child (k = i) has another weight than one of a later child.
        """
        arcs, decisions = self.charts(potentials)
        by_valence = potentials.get("valences")  # (*draws, cells, 2)
        N = arcs.shape[-2]
        arc = torch.stack([arcs[..., 1:].flip(-2, -1), arcs[..., 1:]], -3)  # (*batch, 2, child, head)
        valences = None  # (*batch, 2, child, head, 2)
        if by_valence is not None:
            by_valence = self.chart(by_valence, by_valence.dim() - 2)[..., 1:, :]
            valences = torch.stack([by_valence.flip(-3, -2), by_valence], -4)
        decide = torch.stack([decisions[..., LEFT, :, :].flip(-3), decisions[..., RIGHT, :, :]], -4)

        # Halves of width w = j - i are (*batch, 2, N - w) by first word; charts have one more axis, of widths.
        sealed, opened = decide[..., ADJACENT, STOP], decide[..., ADJACENT, CONTINUE]
        sealed_from, sealed_to = by_first(None, sealed, N), by_last(None, sealed, N)
        open_from = by_first(None, opened, N)
        arced_from: Tensor | None = None
        for w in range(1, N):
            i, j = slice(0, N - w), slice(w, N)
            facing = sealed_from.flip(-3, -2, -1)  # halves of the other direction, wide ones first
            ways = open_from[..., i, :] + facing[..., j, :]
            if valences is not None:
                first, later = valences.diagonal(-w, -3, -2).unbind(-2)
                ways = ways + torch.stack([first, *[later] * (w - 1)], -1)
            arced = arc.diagonal(-w, -2, -1) + sum_(ways, -1)
            arced_from = by_first(arced_from, arced, N)
            whole = sum_(arced_from[..., i, :] + sealed_to[..., j, :], -1)
            sealed, opened = whole + decide[..., i, BEYOND, STOP], whole + decide[..., i, BEYOND, CONTINUE]
            sealed_from, sealed_to = by_first(sealed_from, sealed, N), by_last(sealed_to, sealed, N)
            open_from = by_first(open_from, opened, N)
        left = sealed_to[..., LEFT, N - 1, :].flip(-1)  # (*batch, N) from the first word to r
        width = (self.rows.lengths.unsqueeze(-1) - 1 - torch.arange(N)).to(arcs.device)  # (B, N) from r to the end
        right = sealed_from[..., RIGHT, :, :]
        right = right.gather(-1, width.clamp(min=0).expand(right.shape[:-1]).unsqueeze(-1)).squeeze(-1)
        return sum_(arcs[..., 0] + left + right.masked_fill(width < 0, -torch.inf), -1)

    def charts(self, potentials: Potentials) -> tuple[Tensor, Tensor]:  # (*draws, B, N, N + 1), (*draws, B, N, 2, 2, 2)
        """Arcs by child and head, and decisions by word, of sentences side by side."""
        arcs, decisions = potentials["arcs"], potentials["decisions"]
        return self.chart(arcs, arcs.dim() - 1), self.rows.pad(decisions, decisions.dim() - 4)

    def chart(self, cells: Tensor, dim: int) -> Tensor:  # (*draws, cells, ...) -> (*draws, B, N, N + 1, ...)
        """Arcs by child and head, of sentences side by side.

        :param dim: the axis of cells.
        """
        B, N = len(self.rows), self.rows.longest
        shape = (*cells.shape[:dim], B * N * (N + 1), *cells.shape[dim + 1 :])
        found = cells.new_full(shape, -torch.inf)
        found = found.index_copy(dim, self.arc_cells.place.to(cells.device), cells)
        chart: Tensor = found.unflatten(dim, (B, N, N + 1))
        return chart

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, cells) -> (*draws, tokens)
        head, child = self.arc_cells.head.to(parts.device), self.arc_cells.child_word.to(parts.device)
        none = torch.zeros(*parts.shape[:-1], self.rows.size, dtype=torch.long, device=parts.device)
        return none.index_add(-1, child, parts.long() * head)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, tokens) -> (*draws, cells)
        head, child = self.arc_cells.head.to(structure.device), self.arc_cells.child_word.to(structure.device)
        return structure[..., child] == head

    def check_value(self, value: Tensor) -> None:
        self.check_integers(value, self.sizes["K"])

    def check_structure(self, structure: Tensor) -> None:
        check_heads(structure, self.rows.lengths)

    def parts(self, value: Tensor) -> Arcs:
        return Arcs(value, self.rows.lengths)

    def references(self) -> dict[str, Potentials]:
        """``"uniform"``: all trees alike; ``"harmonic"``: as the product of 1 / (length + 1) over their arcs."""
        lengths, like = self.rows.lengths, self.weights["root"]
        known = {"uniform": uniform_arcs(lengths), "harmonic": harmonic_arcs(lengths, 1.0)}
        return {name: {"arcs": arcs.to(like)} for name, arcs in known.items()}

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        lengths = self.rows.lengths
        work = float((lengths * lengths * (lengths + 10)).sum()) / 100
        whole = places.keys() == {"root", "attach", "stop"} and all(place.whole for place in places.values())
        if not whole or is_large(work, len(lengths), batch_size):
            return None
        data = (value.long().contiguous().numpy(), self.rows.offsets.numpy(), self.valence)
        return CompiledStretch("dependency_stepwise", ("root", "attach", "stop"), data)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw tags of the given lengths, from the weights restricted to those lengths."""
        if self.extra:
            raise StructureError("the added potentials belong to given sentences: draw new sentences without them")
        if self.draws or not self.one_set:
            return self.draw_by_draw(lambda one: one.sample(sample_shape), len(Size(sample_shape)))
        from ..kernels.dependency_draw import draw_sentences  # numba loads when it is first needed

        lengths = self.rows.lengths.repeat(Size(sample_shape).numel())
        uniforms = torch.rand(int(lengths.sum()), 2, dtype=torch.float64)
        weights = {
            name: w.reshape(w.shape[w.dim() - len(self.table_axes[name]) :]).cpu() for name, w in self.weights.items()
        }
        return draw_sentences(weights, lengths.numpy(), uniforms.numpy()).reshape(*sample_shape, -1)


def check_sentences(lengths: Tensor) -> Tensor:  # (B,)
    """Lengths of sentences that lie end to end."""
    lengths = check_lengths(torch.as_tensor(lengths))
    if lengths.dim() != 1:
        raise StructureError(f"lengths should have shape (B,), actual shape {tuple(lengths.shape)}")
    return lengths


def check_heads(structure: Tensor, lengths: Tensor) -> Tensor:  # (tokens,), (B,) -> (tokens,) long
    """The structure itself, if it is one projective tree with one root for each sentence."""
    from ..kernels.dependency import first_bad_tree

    tokens = int(lengths.sum())
    if structure.shape != (tokens,) or structure.is_floating_point():
        raise StructureError(
            f"a tree has one head, an integer, for each of the {tokens} words, actual shape {tuple(structure.shape)} "
            f"of {structure.dtype}"
        )
    heads = structure.long()
    bad = first_bad_tree(heads.cpu().contiguous().numpy(), lengths.cpu().numpy())
    if bad >= 0:
        start = offsets_of(lengths)
        found = heads[int(start[bad]) : int(start[bad + 1])].tolist()
        raise StructureError(
            f"sentence {bad} has no projective tree with one root: expected one head 0, and 1 .. {len(found)} without "
            f"cycles or crossing arcs for all others, actual {found!s:.200}"
        )
    return heads
