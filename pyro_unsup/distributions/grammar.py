"""Grammars: what structures of labelled binary trees have in common, whatever their rules are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor
from torch.nn.functional import one_hot

from ..errors import StructureError
from ..kernels.running import Place
from .cells import SpanCells
from .dependency import check_sentences
from .parts import Constituents
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch, Structure


class Grammar(Structure):
    """Sentences under a hidden binary tree with a label at every node: N nonterminals, then P preterminals.

    A subclass says what rules weigh: in tables of its own, which are its ``shared_groups`` too, and in ``total``.

    A structure is a vector over all spans, in the order of :func:`.spans_of`: the label of each constituent, -1 for a
    span that is none. Its parts are labels, (spans, N + P).

    :param lengths: (B,) words in each sentence.
    :param weights: ``root`` (*batch, N), ``emission`` (*batch, P, V), and the tables of rules.
    """

    part = "labels"

    def __init__(self, lengths: Tensor, weights: dict[str, Tensor], validate_args: bool | None = None) -> None:
        lengths = check_sentences(lengths)
        super().__init__(weights, lengths, Size([int(lengths.sum())]), validate_args=validate_args)

    @property
    def span_cells(self) -> SpanCells:
        """Where spans lie."""
        return self.rows.known(SpanCells)

    def owner(self, group: str) -> Tensor:
        return self.span_cells.owner if group in ("labels", "structure") else self.rows.owner

    def potentials(self, value: Tensor) -> Potentials:
        """Labels of spans: words below preterminals, the root above the whole, (*draws, spans, N + P); and rules."""
        cells, device, N, P = self.span_cells, value.device, self.sizes["N"], self.sizes["P"]
        owner, width = cells.owner.to(device), cells.width.to(device).unsqueeze(-1)
        word = (self.rows.offsets[cells.owner] + cells.start).to(device)  # the first one of each span
        emitted = self.look_up(self.table("emission").mT, owner, value.long()[word])  # (*draws, spans, P)
        preterminal = emitted.masked_fill(width > 1, -torch.inf)
        whole = (width == self.rows.lengths[cells.owner].to(device).unsqueeze(-1)) & (width > 1)
        nonterminal = torch.where(whole, self.spread(self.table("root"), cells.owner), 0.0)  # (*draws, spans, N)
        nonterminal = nonterminal.masked_fill(width == 1, -torch.inf)
        draws = torch.broadcast_shapes(preterminal.shape[:-1], nonterminal.shape[:-1])
        labels = torch.cat([nonterminal.expand(*draws, N), preterminal.expand(*draws, P)], -1)
        return {"labels": labels, **{name: self.table(name) for name in self.shared_groups}}

    def chart(self, labels: Tensor) -> Tensor:  # (*draws, spans, M) -> (*draws, B, T, T, M)
        """Potentials of labels by sentence, start and width - 1."""
        B, T, lead = len(self.rows), self.rows.longest, labels.dim() - 2
        chart = labels.new_full((*labels.shape[:-2], B * T * T, labels.shape[-1]), -torch.inf)
        chart = chart.index_copy(lead, self.span_cells.place.to(labels.device), labels)
        return chart.reshape(*chart.shape[:lead], B, T, T, chart.shape[-1])

    def of_whole(self, by_length: Tensor) -> Tensor:  # (*draws, B, T) -> (*draws, B)
        """What belongs to the length of each sentence."""
        last = (self.rows.lengths - 1).clamp(min=0).to(by_length.device).unsqueeze(-1)
        return by_length.gather(-1, last.expand(*by_length.shape[:-1], 1)).squeeze(-1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, spans, M) -> (*draws, spans)
        return torch.where(parts.sum(-1) > 0, parts.argmax(-1), -1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, spans) -> (*draws, spans, M)
        return one_hot(structure.long() + 1, self.sizes["N"] + self.sizes["P"] + 1)[..., 1:].bool()  # -1 has none

    def check_value(self, value: Tensor) -> None:
        self.check_integers(value, self.sizes["V"])

    def check_structure(self, structure: Tensor) -> None:
        from .bracketing import check_trees

        M = self.sizes["N"] + self.sizes["P"]
        check_trees((structure >= 0).long(), self.rows.lengths)
        if structure.numel() and int(structure.max()) >= M:
            raise StructureError(f"labels must lie in 0 .. {M - 1}, or be -1, actual largest = {int(structure.max())}")

    def parts(self, value: Tensor) -> Constituents:
        return Constituents(value, self.rows.lengths, self.sizes["N"], self.sizes["P"])

    def references(self) -> dict[str, Potentials]:
        """``"split"``: a sentence is split at a random place, and so is each part; all labels alike."""
        width = self.span_cells.width.clamp(min=2)
        split = -(width - 1).to(self.weights["root"]).log()
        return {"split": {"labels": split.unsqueeze(-1).expand(-1, self.sizes["N"] + self.sizes["P"])}}

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        if self.kernel is None or places.keys() != self.weights.keys():
            return None
        n, N, P = self.rows.lengths.double(), self.sizes["N"], self.sizes["P"]
        choices = 1 if "left" in self.weights else N  # that the two parts of a node have together
        work = (n * n * N * (N + n) * choices + n * N * P * (2 * N + P)) / 1000
        columns = places["emission"].columns
        whole = all(place.whole for name, place in places.items() if name != "emission")
        if columns is None or not whole or is_large(float(work.sum()), len(n), batch_size):
            return None
        names = ("root", *self.shared_groups, "emission")
        data = (columns[value.long().numpy()], self.rows.offsets.numpy())
        return CompiledStretch(f"{self.kernel.rpartition('.')[2]}_stepwise", names, data)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw words of the given lengths, from the weights restricted to those lengths."""
        if self.extra:
            raise StructureError("the added potentials belong to given sentences: draw new sentences without them")
        if self.draws:
            return self.draw_by_draw(lambda one: one.sample(sample_shape), len(Size(sample_shape)))
        times, N = Size(sample_shape).numel(), self.sizes["N"]
        lengths = self.rows.lengths.repeat(times)
        tables = {name: self.table(name) for name in self.weights}
        tables = {name: x if len(x) == 1 else x.repeat(times, *(1,) * (x.dim() - 1)) for name, x in tables.items()}
        # First the tree over words that are not known yet, then a word for each preterminal.
        emission = tables.pop("emission")
        kind: Any = type(self)
        any_word = kind(**tables, emission=emission.logsumexp(-1, keepdim=True), lengths=lengths)
        nothing = torch.zeros(int(lengths.sum()), dtype=torch.long, device=emission.device)
        labels = any_word.posterior(nothing).sample()[any_word.span_cells.width.to(emission.device) == 1]
        if bool((labels < 0).any()):
            raise StructureError(
                f"these weights allow no sentence of some of these lengths: {lengths.unique().tolist()!s:.200}. A "
                "sentence has two words or more"
            )
        shares = emission.softmax(-1)
        row = labels - N if len(emission) == 1 else any_word.rows.owner.to(labels) * emission.shape[1] + labels - N
        words = _drawn(shares.flatten(0, 1), row)
        return words.reshape(*Size(sample_shape), -1)


def _drawn(shares: Tensor, row: Tensor) -> Tensor:  # (rows, V), (n,) -> (n,)
    """A number for each place, by the shares of its row."""
    found = torch.empty_like(row)
    for r in row.unique().tolist():
        here = (row == r).nonzero().squeeze(-1)
        found[here] = shares[r].multinomial(len(here), replacement=True)
    return found
