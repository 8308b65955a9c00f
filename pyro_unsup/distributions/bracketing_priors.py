"""Two ways to draw a binary tree over n words: all trees alike, or split after split.

Either is a prior for :class:`.Bracketing` (log-weights of a tree or of its nodes), and says in closed form how probable
each span is before any words are seen.

**References:** D. Klein and C. D. Manning (2002) "A generative constituent-context model for improved grammar
induction" (random splits).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .cells import spans_of


def log_catalan(n: Tensor) -> Tensor:
    """log of the number of binary trees over n + 1 words: (2n)! / (n! (n + 1)!).

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing_priors import log_catalan
    >>> log_catalan(torch.arange(6)).exp().round().int().tolist()
    [1, 1, 2, 5, 14, 42]
    """
    n = n.double()
    return torch.lgamma(2 * n + 1) - torch.lgamma(n + 1) - torch.lgamma(n + 2)


def uniform_tree(longest: int) -> Tensor:  # (longest + 1,)
    """Log-weights by length that make all trees over n words equally probable: 1 / Catalan(n - 1)."""
    return torch.cat([torch.zeros(1, dtype=torch.float64), -log_catalan(torch.arange(longest))])


def split_node(longest: int) -> Tensor:  # (longest + 1,)
    """Log-weights by width of random splits: a node over w words splits at each of its w - 1 places alike."""
    return -torch.arange(longest + 1).sub(1).clamp(min=1).double().log()


def uniform_marginals(lengths: Tensor) -> Tensor:  # (B,) -> (spans,)
    """How probable each span is if all trees are alike: Catalan(w - 1) Catalan(n - w) / Catalan(n - 1).

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing_priors import uniform_marginals
    >>> round(uniform_marginals(torch.tensor([4]))[5].item(), 12)  # span (1, 3) of four words
    0.4
    """
    owner, start, end = spans_of(lengths)
    n, w = lengths[owner], end - start
    probability = (log_catalan(w - 1) + log_catalan(n - w) - log_catalan(n - 1)).exp()
    return torch.where((w == 1) | (w == n), 1.0, probability)


def split_marginals(lengths: Tensor) -> Tensor:  # (B,) -> (spans,)
    """How probable each span is under random splits: 1 / w at one edge of the sentence, 2 / (w (w + 1)) inside it.

    >>> import torch
    >>> from pyro_unsup.distributions.bracketing_priors import split_marginals
    >>> round(split_marginals(torch.tensor([4]))[5].item(), 12)  # span (1, 3) of four words
    0.333333333333
    """
    owner, start, end = spans_of(lengths)
    n, w = lengths[owner], (end - start).double()
    at_edge = (start == 0) | (end == n)
    return torch.where((w == 1) | (w == n), 1.0, torch.where(at_edge, 1 / w, 2 / (w * (w + 1))))
