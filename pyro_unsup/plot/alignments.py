"""Two sentences as a grid: which words are linked by gold, and which by prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.data import Bitext, Links
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import to_numpy
from pyro_unsup.plot.svg import Svg, drawing, group, label, shape, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.28  # inches a cell, enough for a word at its side
SURE, POSSIBLE, FOUND = "C1", "0.6", "C0"
SIDE = 24  # pixels a cell
_COLOURS = {SURE: "#ff7f0e", POSSIBLE: "#999999", FOUND: "#1f77b4"}  # the same for SVG
_CLASSES = {SURE: "sure", POSSIBLE: "possible"}  # what a style sheet may call them
TOLD = 0.005  # the least probability that is told of a cell
REACHED = 0.2  # the least probability of a cell that a keyboard stops at


def alignment_grid(bitext: Bitext, predicted: Any = None, pair: int = 0, ax: Axes | None = None) -> Axes:
    """The links of one pair of sentences, source words down and target words across.

    Gold links are squares, sure ones strong and possible ones faint; predicted links are dots, on a shade of how
    probable the two directions hold them (their mean).

    :param bitext: the pairs, with gold links or without.
    :param predicted: what decoding found (``links``, and if it has them probabilities ``forward`` and ``backward``); or
        only links; or None.
    :param pair: which pair to draw.
    :param ax: where to draw; by default a new figure, sized to the sentences.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(1, seed=1)
    >>> ax = pu.plot.alignment_grid(pairs)
    >>> len(ax.get_xticklabels()), len(ax.get_yticklabels()), len(pairs.source.words), len(pairs.target.words)
    (6, 6, 6, 6)
    """
    source, target, found = _pair(bitext, predicted, pair)
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


def alignment_svg(bitext: Bitext, predicted: Any = None, pair: int = 0) -> Svg:
    """The same picture as :func:`alignment_grid` as SVG, which a notebook shows in the place of a figure.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(1, seed=1)
    >>> str(pu.plot.alignment_svg(pairs))[:4]
    '<svg'
    """
    source, target, found = _pair(bitext, predicted, pair)
    shade = _probabilities(bitext, predicted, pair)
    left, top = (12 + max(map(width_of, words), default=0.0) for words in (source, target))
    parts = []
    for i in range(len(source)):
        for j in range(len(target)):
            cell = {"x": f"{left + SIDE * j:.1f}", "y": f"{top + SIDE * i:.1f}", "width": SIDE, "height": SIDE}
            filled = {"fill": _COLOURS[FOUND], "fill_opacity": f"{0.6 * shade[i, j]:.3f}", "class_": "cell"}
            drawn = shape("rect", **cell, **filled, stroke="#cccccc", stroke_width=0.6)
            said = f"{source[i]} \N{EN DASH} {target[j]}: {100 * shade[i, j]:.0f} %"
            parts.append(group([drawn], said, bool(shade[i, j] >= REACHED)) if shade[i, j] >= TOLD else drawn)
    for sure, colour in ((False, POSSIBLE), (True, SURE)):
        for i, j in [] if bitext.links is None else _places(bitext.links, pair, sure):
            cell = {"x": f"{left + SIDE * j + 2:.1f}", "y": f"{top + SIDE * i + 2:.1f}"}
            size = {"width": SIDE - 4, "height": SIDE - 4}
            parts.append(
                shape(
                    "rect",
                    **cell,
                    **size,
                    fill="none",
                    stroke=_COLOURS[colour],
                    stroke_width=2,
                    class_=_CLASSES[colour],
                )
            )
    for i, j in [] if found is None else [*_places(found, pair, True), *_places(found, pair, False)]:
        centre = {"cx": f"{left + SIDE * (j + 0.5):.1f}", "cy": f"{top + SIDE * (i + 0.5):.1f}"}
        parts.append(shape("circle", **centre, r=5, fill=_COLOURS[FOUND], class_="found", pointer_events="none"))
    for i, word in enumerate(source):
        parts.append(label(word, left - 6, top + SIDE * (i + 0.72), text_anchor="end"))
    for j, word in enumerate(target):
        x, y = left + SIDE * (j + 0.72), top - 6
        parts.append(label(word, x, y, text_anchor="start", transform=f"rotate(-90 {x:.1f} {y:.1f})"))
    what = " ".join((*source, "|", *target))
    return drawing(left + SIDE * len(target) + 4, top + SIDE * len(source) + 4, parts, what)


def _pair(bitext: Bitext, predicted: Any, pair: int) -> tuple[list[str], list[str], Links | None]:
    """The words of a pair of sentences, and the links that were found in all pairs."""
    if not 0 <= pair < len(bitext):
        raise UnsupError(f"pair {pair} does not exist, expected 0 to {len(bitext) - 1}")
    found = getattr(predicted, "links", predicted)
    if found is not None and (not isinstance(found, Links) or len(found) != len(bitext)):
        raise UnsupError(f"predicted should be the links of these {len(bitext)} pairs, actual {predicted!r:.80}")
    return bitext.source.sentence(pair), bitext.target.sentence(pair), found


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
