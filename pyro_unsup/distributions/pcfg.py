"""The probabilistic context-free grammar in Chomsky normal form, with labelled trees."""

from __future__ import annotations

import torch
from torch import Tensor

from .cells import by_first, by_last
from .grammar import Grammar
from .semiring import Sum
from .structure import Potentials


class PCFG(Grammar):
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
    shared_groups = ("rules",)
    kernel = "pyro_unsup.kernels.pcfg"

    def __init__(
        self, root: Tensor, rules: Tensor, emission: Tensor, lengths: Tensor, validate_args: bool | None = None
    ) -> None:
        super().__init__(lengths, {"root": root, "emission": emission, "rules": rules}, validate_args)

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The sum over the trees of a span goes over its rules and its splits. Wider spans have nonterminals only::

        inside[i, i + 1, p] = label[i, i + 1, p]
        pair[i, j, b, c]    = sum_{i < k < j}  inside[i, k, b] + inside[k, j, c]
        inside[i, j, a]     = label[i, j, a] + sum_{b, c}  rule[a, b, c] + pair[i, j, b, c]
        total               = sum_a  inside[0, n, a]
        """
        chart = self.chart(potentials["labels"])
        rules = potentials["rules"].unsqueeze(-4)  # (*draws, 1 or B, 1, N, M, M)
        T, N = self.rows.longest, self.sizes["N"]
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
        return self.of_whole(sum_(torch.stack(whole, -2), -1))


def _pairs(left: Tensor, right: Tensor) -> Tensor:  # (..., b), (..., c) -> (..., b, c)
    return left.unsqueeze(-1) + right.unsqueeze(-2)
