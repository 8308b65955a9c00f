"""The factored context-free grammar: the labels of the two parts of a node do not depend on each other."""

from __future__ import annotations

import torch
from torch import Tensor

from .cells import by_first, by_last
from .grammar import Grammar
from .semiring import Sum
from .structure import Potentials


class SimplePCFG(Grammar):
    """A :class:`PCFG` whose rules are products, p(A -> B C) = left(A, B) right(A, C), the trees summed out.

    The story: the root draws the label of the whole sentence from ``root``, one of N nonterminals. A nonterminal draws
    the label of its left part from ``left`` and, no matter which, that of its right part from ``right``: nonterminals
    again, or some of P preterminals, which follow the nonterminals in one axis. A preterminal draws one word from
    ``emission``. Weights are logs of anything, and p(x) is the sum over all labelled trees, as many as a PCFG has.

    O(n^2 N (N + P) + n^3 N), most of it in products of matrices: hundreds of nonterminals are no burden.

    A value is the words of all sentences, end to end. A structure is a vector over all spans, in the order of
    :func:`.spans_of`: the label of each constituent, -1 for a span that is none. Its parts are labels, (spans, N + P).

    :param root: (*batch, N).
    :param left: (*batch, N, N + P) axes (parent, left part).
    :param right: (*batch, N, N + P) axes (parent, right part).
    :param emission: (*batch, P, V).
    :param lengths: (B,) words in each sentence. A sentence of length 0 is skipped: probability 1, no counts.

    Example, all weights 1, so that p(x) counts trees::

        >>> import torch
        >>> from pyro_unsup.distributions import SimplePCFG
        >>> sides, lengths = torch.zeros(2, 5), torch.tensor([2, 3, 4])
        >>> trees = SimplePCFG(torch.zeros(2), sides, sides, torch.zeros(3, 7), lengths)
        >>> trees.log_prob(torch.zeros(9, dtype=torch.long)).exp().round()
        tensor([  18.,  216., 3240.])

    **References:** [1] W. Liu, S. Yang, Y. Kim and K. Tu (2023) "Simple hardware-efficient PCFGs with independent left
    and right productions".
    """

    axes = {"root": "N", "emission": "P V", "left": "N N+P", "right": "N N+P"}  # noqa: RUF012
    shared_groups = ("left", "right")
    kernel = "pyro_unsup.kernels.simple_pcfg"

    def __init__(
        self,
        root: Tensor,
        left: Tensor,
        right: Tensor,
        emission: Tensor,
        lengths: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        weights = {"root": root, "emission": emission, "left": left, "right": right}
        super().__init__(lengths, weights, validate_args)

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """Each span is summed over its labels once as a left part and once as a right part, by the label above it::

        inside[i, i + 1, p] = label[i, i + 1, p]
        as_left[i, j, a]    = sum_b  left[a, b] + inside[i, j, b]
        as_right[i, j, a]   = sum_c  right[a, c] + inside[i, j, c]
        inside[i, j, a]     = label[i, j, a] + sum_{i < k < j}  as_left[i, k, a] + as_right[k, j, a]
        total               = sum_a  inside[0, n, a]
        """
        chart = self.chart(potentials["labels"])
        left, right = (potentials[name].unsqueeze(-3) for name in ("left", "right"))  # (*draws, 1 or B, 1, N, M)
        T, N = self.rows.longest, self.sizes["N"]
        row, labels = chart[..., 0, N:], slice(N, None)  # of the last width, (*draws, B, T + 1 - width, P or N)
        starting, ending = None, None  # narrower spans as parts, (*draws, B, T, widths, N)
        whole = [torch.full_like(chart[..., 0, 0, :N], -torch.inf)]
        for w in range(2, T + 1):
            S = T + 1 - w
            starting = by_first(starting, sum_(left[..., labels] + row.unsqueeze(-2), -1), T, -2)
            ending = by_last(ending, sum_(right[..., labels] + row.unsqueeze(-2), -1), T, -2)
            splits = starting[..., :S, :, :] + ending[..., w - 1 :, :, :]  # (*draws, B, S, splits, N)
            row, labels = chart[..., :S, w - 1, :N] + sum_(splits, -2), slice(N)
            whole.append(row[..., 0, :])
        return self.of_whole(sum_(torch.stack(whole, -2), -1))
