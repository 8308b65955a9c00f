"""The probabilistic context-free grammar in Chomsky normal form, with labelled trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor
from torch.nn.functional import one_hot

from ..errors import StructureError
from .cells import SpanCells, by_first, by_last
from .dependency import check_sentences
from .parts import Constituents
from .semiring import Sum
from .structure import Potentials, Structure


class PCFG(Structure):
    """Sentences under a hidden binary tree with a label at every node, the tree summed out.

    The story: the root draws the label of the whole sentence from ``root``, one of N nonterminals. A nonterminal draws
    a pair of labels from ``rules``, for its left part and its right part: nonterminals again, or some of P
    preterminals, which follow the nonterminals in one axis. A preterminal draws one word from ``emission``. Weights are
    logs of anything, and p(x) is the sum over all labelled trees. There are N^(n-1) P^n Catalan(n-1) of them over n > 1
    words, and none over one: the root is a nonterminal.

    O(n^3 N^2 + n^2 N (N + P)^2).

    A value is the words of all sentences, end to end. A structure is a vector over all spans, in the order of
    :func:`.spans_of`: the label of each constituent, -1 for a span that is none. Its parts are labels, (spans, N + P).

    :param root: (*batch, N).
    :param rules: (*batch, N, N + P, N + P) axes (parent, left, right).
    :param emission: (*batch, P, V).
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import PCFG
        >>> trees = PCFG(torch.zeros(2), torch.zeros(2, 5, 5), torch.zeros(3, 7), torch.tensor([2, 3, 4]))
        >>> trees.log_prob(torch.zeros(9, dtype=torch.long)).exp().round()
        tensor([  18.,  216., 3240.])

    **References:** [1] K. Lari and S. J. Young (1990) "The estimation of stochastic context-free grammars using the
    inside-outside algorithm".
    """

    axes = {"root": "N", "emission": "P V", "rules": "N N+P N+P"}  # noqa: RUF012
    part = "labels"
    shared_groups = ("rules",)
    kernel = "pyro_unsup.kernels.pcfg"

    def __init__(
        self, root: Tensor, rules: Tensor, emission: Tensor, lengths: Tensor, validate_args: bool | None = None
    ) -> None:
        lengths = check_sentences(lengths)
        weights = {"root": root, "emission": emission, "rules": rules}
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
        return {"labels": labels, "rules": self.table("rules")}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The sum over the trees of a span goes over its rules and its splits. Wider spans have nonterminals only::

        inside[i, i + 1, p] = label[i, i + 1, p]
        pair[i, j, b, c]    = sum_{i < k < j}  inside[i, k, b] + inside[k, j, c]
        inside[i, j, a]     = label[i, j, a] + sum_{b, c}  rule[a, b, c] + pair[i, j, b, c]
        total               = sum_a  inside[0, n, a]
        """
        flat, rules = potentials["labels"], potentials["rules"].unsqueeze(-4)  # (*draws, 1 or B, 1, N, M, M)
        B, T, N, lead = len(self.rows), self.rows.longest, self.sizes["N"], flat.dim() - 2
        chart = flat.new_full((*flat.shape[:-2], B * T * T, flat.shape[-1]), -torch.inf)
        chart = chart.index_copy(lead, self.span_cells.place.to(flat.device), flat).unflatten(lead, (B, T, T))
        words = chart[..., 0, N:]  # (*draws, B, T, P)
        both, left_word, right_word, neither = (
            rules[..., N:, N:],
            rules[..., N:, :N],
            rules[..., :N, N:],
            rules[..., :N, :N],
        )
        row = words  # of the last width, (*draws, B, T + 1 - width, N)
        starting, ending = None, None  # wider spans, (*draws, B, T, widths from 2 on, N)
        whole = [torch.full_like(chart[..., 0, 0, :N], -torch.inf)]
        for w in range(2, T + 1):
            S = T + 1 - w
            if w == 2:
                ways = [both + _pairs(words[..., :-1, :], words[..., 1:, :]).unsqueeze(-3)]
            else:  # a word and the rest of the span; or two wider parts
                ways = [
                    left_word + _pairs(words[..., :S, :], row[..., 1:, :]).unsqueeze(-3),
                    right_word + _pairs(row[..., :S, :], words[..., w - 1 :, :]).unsqueeze(-3),
                ]
            if starting is not None and ending is not None and w > 3:
                left = starting[..., :S, :-1, :]  # (*draws, B, S, splits, N)
                right = ending[..., w - 1 :, 1:, :]
                ways.append(neither + sum_(_pairs(left, right), -3).unsqueeze(-3))
            made = sum_(torch.cat([way.flatten(-2) for way in ways], -1), -1)  # (*draws, B, S, N)
            row = chart[..., :S, w - 1, :N] + made
            starting, ending = by_first(starting, row, T, -2), by_last(ending, row, T, -2)
            whole.append(row[..., 0, :])
        each = sum_(torch.stack(whole, -2), -1)  # (*draws, B, T) by length
        last = (self.rows.lengths - 1).clamp(min=0).to(flat.device).unsqueeze(-1)
        return each.gather(-1, last.expand(*each.shape[:-1], 1)).squeeze(-1)

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

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw words of the given lengths, from the weights restricted to those lengths."""
        if self.extra:
            raise StructureError("the added potentials belong to given sentences: draw new sentences without them")
        if self.draws or not self.one_set:
            return self.draw_by_draw(lambda one: one.sample(sample_shape), len(Size(sample_shape)))
        lengths = self.rows.lengths.repeat(Size(sample_shape).numel())
        root, rules, emission = (self.table(name).squeeze(0) for name in ("root", "rules", "emission"))
        # First the tree over words that are not known yet, then a word for each preterminal.
        any_word = PCFG(root, rules, emission.logsumexp(-1, keepdim=True), lengths)
        nothing = torch.zeros(int(lengths.sum()), dtype=torch.long, device=root.device)
        labels = any_word.posterior(nothing).sample()[any_word.span_cells.width.to(root.device) == 1]
        if bool((labels < 0).any()):
            raise StructureError(
                f"these weights allow no sentence of some of these lengths: {lengths.unique().tolist()!s:.200}. A "
                "sentence has two words or more"
            )
        words, shares = torch.empty_like(nothing), emission.softmax(-1)
        for p in range(len(shares)):
            here = (labels == len(root) + p).nonzero().squeeze(-1)
            if len(here):
                words[here] = shares[p].multinomial(len(here), replacement=True)
        return words.reshape(*Size(sample_shape), -1)


def _pairs(left: Tensor, right: Tensor) -> Tensor:  # (..., b), (..., c) -> (..., b, c)
    return left.unsqueeze(-1) + right.unsqueeze(-2)
