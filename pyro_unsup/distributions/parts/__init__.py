"""What structures are made of, one by one, for those who say which parts they want: arcs, brackets, states, segments,
links, clusters.

A structure's parts lie as its posterior's marginals do, and what is known of them are tensors that broadcast to that
shape: ``parts.head``, ``parts.width``. All are made when they are first asked for.
"""

from .base import Labels, Parts, Test
from .choices import Clusters, Links
from .sequences import Pieces, States, Stretches
from .trees import Arcs, Brackets, Constituents

__all__ = [
    "Arcs",
    "Brackets",
    "Clusters",
    "Constituents",
    "Labels",
    "Links",
    "Parts",
    "Pieces",
    "States",
    "Stretches",
    "Test",
]
