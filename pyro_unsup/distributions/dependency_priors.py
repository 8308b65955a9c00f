"""Distributions over dependency trees that see no tags: all trees alike, or those with short arcs preferred.

Either is a choice of potentials for the arcs of :class:`.Dependency`, in the order of :func:`.arcs_of`. Every tree has
one arc from the root, so that is where the normalising factor of a sentence goes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .cells import arcs_of


def log_trees(lengths: Tensor) -> Tensor:  # (B,) -> (B,)
    """log of the number of projective trees with one root over n words: (3n - 2)! / (n! (2n - 1)!).

    >>> import torch
    >>> from pyro_unsup.distributions.dependency_priors import log_trees
    >>> log_trees(torch.arange(1, 8)).exp().round().int().tolist()
    [1, 2, 7, 30, 143, 728, 3876]
    """
    n = lengths.double().clamp(min=1)
    return torch.lgamma(3 * n - 1) - torch.lgamma(n + 1) - torch.lgamma(2 * n)


def uniform_arcs(lengths: Tensor) -> Tensor:  # (B,) -> (cells,)
    """Log-weights that make all trees over n words equally probable."""
    owner, head, _ = arcs_of(lengths)
    return torch.where(head == 0, -log_trees(lengths)[owner], 0.0)


def harmonic_weights(lengths: Tensor, distance: float) -> Tensor:  # (B,) -> (cells,)
    """Log-weights of arcs, 1 / (length + distance), and of the root, 1."""
    _, head, child = arcs_of(lengths)
    return torch.where(head > 0, -((head - child).abs() + distance).double().log(), 0.0)


def harmonic_arcs(lengths: Tensor, distance: float) -> Tensor:  # (B,) -> (cells,)
    """The same, as a distribution over trees."""
    sizes, which = torch.unique(lengths, return_inverse=True)  # all sentences of one length are alike
    from .dependency import Dependency

    none = torch.zeros(int(sizes.sum()), dtype=torch.long)
    root, attach, stop = (torch.zeros(shape, dtype=torch.float64) for shape in ((1,), (1, 2, 1), (1, 2, 2, 2)))
    trees = Dependency(root, attach, stop, sizes).with_potentials(arcs=harmonic_weights(sizes, distance))
    total = trees.log_prob(none)
    owner, head, _ = arcs_of(lengths)
    return torch.where(head == 0, -total[which][owner], harmonic_weights(lengths, distance))
