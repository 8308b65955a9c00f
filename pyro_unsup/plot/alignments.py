"""Two sentences as a grid: which words are linked by gold, and which by prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data import Bitext, Links
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.28  # inches a cell, enough for a word at its side
SURE, POSSIBLE, FOUND = "C1", "0.6", "C0"


def alignment_grid(bitext: Bitext, predicted: Any = None, pair: int = 0, ax: Axes | None = None) -> Axes:
    """The links of one pair of sentences, source words down and target words across.

    Gold links are squares, sure ones strong and possible ones faint; predicted links are dots, on a shade of how
    probable the two directions hold them (their mean).

    :param bitext: the pairs, with gold links or without.
    :param predicted: what decoding found (``links``, and if it has them probabilities ``forward`` and ``backward``); or
        only links; or None.
    :param pair: which pair to draw.
    :param ax: where to draw; by default a new figure, sized to the sentences.
    """
    if not 0 <= pair < len(bitext):
        raise UnsupError(f"pair {pair} does not exist, expected 0 to {len(bitext) - 1}")
    found = getattr(predicted, "links", predicted)
    if found is not None and (not isinstance(found, Links) or len(found) != len(bitext)):
        raise UnsupError(f"predicted should be the links of these {len(bitext)} pairs, actual {predicted!r:.80}")
    source, target = bitext.source.sentence(pair), bitext.target.sentence(pair)
    shade = _probabilities(bitext, predicted, pair)
    if ax is None:
        import matplotlib.pyplot as plt

        size = (1.6 + CELL * len(target), 1.4 + CELL * len(source))
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    from matplotlib.patches import Rectangle

    ax.imshow(shade, cmap="Blues", vmin=0, vmax=1.5, aspect="equal")  # dots stay visible on the darkest shade
    for sure, colour in ((False, POSSIBLE), (True, SURE)):
        for i, j in [] if bitext.links is None else _places(bitext.links, pair, sure):
            ax.add_patch(Rectangle((j - 0.45, i - 0.45), 0.9, 0.9, fill=False, edgecolor=colour, linewidth=1.6))
    if found is not None:
        places = [*_places(found, pair, True), *_places(found, pair, False)]
        ax.plot([j for _, j in places], [i for i, _ in places], "o", color=FOUND, markersize=5, linestyle="none")
    ax.set_yticks(range(len(source)), source, parse_math=False, fontsize="small")
    ax.set_xticks(range(len(target)), target, parse_math=False, fontsize="small", rotation=90)
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(len(target) - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(len(source) - 1) + 0.5, minor=True)
    ax.grid(which="minor", color="0.9", linewidth=0.6)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_color("0.8")
    return ax


def _places(links: Links, pair: int, sure: bool) -> list[tuple[int, int]]:
    mine = links.rows[(links.rows[:, 0] == pair) & (links.sure == sure)]
    return [(int(i), int(j)) for _, i, j in mine]


def _probabilities(bitext: Bitext, predicted: Any, pair: int) -> NDArray[np.float64]:  # (I, J)
    """The mean probability of each link; zeros if there are none."""
    sizes = bitext.source_lengths * bitext.target_lengths
    shape = (int(bitext.source_lengths[pair]), int(bitext.target_lengths[pair]))
    if getattr(predicted, "forward", None) is None:
        return np.zeros(shape)
    at = int(sizes[:pair].sum())
    both = [to_numpy(x)[at : at + int(sizes[pair])] for x in (predicted.forward, predicted.backward)]
    return np.mean(both, 0, dtype=np.float64).reshape(shape)
