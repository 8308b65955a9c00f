"""A sentence under its dependencies, as arcs from heads to dependents: on axes, or as SVG for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.dependencies import check_heads
from pyro_unsup.evaluate.labels import to_numpy
from pyro_unsup.plot.svg import FONT_SIZE, Svg, drawing, group, label, shape, width_of
from pyro_unsup.plot.trees import lines_of, new_axes, write_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of arcs that are gold, of those that are gold the other way round, of the rest; of gold ones not found, and
#: of all where there is no gold.
RIGHT, TURNED, WRONG, MISSED, PLAIN = "#1f77b4", "#ff7f0e", "#d62728", "#999999", "#404040"
#: What a style sheet may call them.
_CLASSES = {RIGHT: "right", TURNED: "turned", WRONG: "wrong", MISSED: "missed", PLAIN: "plain"}
#: Pixels: between words, between levels of arcs, from line to line of text, and of an arrow head.
GAP, LEVEL, LINE, ARROW = 18, 26, 20, 8
ROOT = -1
SHIFT = 0.13  # how far beside the middle of a word the arcs to its dependents begin, in words


@dataclass(frozen=True)
class Arc:
    """An arc as it is drawn.

    :param head: the place of the head from 0, or :data:`ROOT`.
    :param child: that of the dependent.
    :param level: how high its top is, from 1; that of an arc below the words is negative.
    """

    head: int
    child: int
    level: int
    colour: str


def dependency_diagram(
    words: Any,
    heads: Any = None,
    gold: Any = None,
    ax: Axes | None = None,
    *,
    sentence: int = 0,
    tags: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the arcs of a sentence above its words, each from a head to its dependent; that of the root from above.

    With gold heads, arcs that are gold are blue, those that are gold the other way round are orange, and the others are
    red; gold arcs that were not found are grey, dashed, below the words.

    :param words: of one sentence; or a corpus, whose words, tags and gold heads are drawn.
    :param heads: such as a parser predicts: those of the sentence, or of all sentences of the corpus, 0 for the root.
        None draws the gold ones.
    :param gold: likewise.
    :param ax: where to draw; by default a new figure, sized to the sentence.
    :param sentence: which one of a corpus.
    :param tags: a second line below the words.
    :param title: above the picture.

    >>> from pyro_unsup.plot import dependency_diagram
    >>> len(dependency_diagram(["the", "dog", "barks"], [2, 3, 0]).patches)
    3
    """
    words, tags, arcs = _sentence(words, heads, gold, sentence, tags)
    top, bottom = max((arc.level for arc in arcs), default=0), min((0, *(arc.level for arc in arcs)))
    foot = -0.35 - 0.45 * (tags is not None)  # of the text
    ax = new_axes(words, tags, top - bottom) if ax is None else ax
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    for arc in arcs:
        line, start = ("solid", 0.3) if arc.level > 0 else ("dashed", foot)
        x, height = arc.child + 0.5, arc.level + (0.3 if arc.level > 0 else foot)
        if arc.head == ROOT:
            points, codes = [(x, height), (x, start)], [Path.MOVETO, Path.LINETO]
        else:
            begin = arc.head + 0.5 + SHIFT * np.sign(arc.child - arc.head)
            bend = start + (height - start) * 4 / 3  # a cubic reaches three quarters of the way to its bends
            points = [(begin, start), (begin, bend), (x, bend), (x, start)]
            codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9, "linewidth": 1.3, "linestyle": line}
        ax.add_patch(FancyArrowPatch(path=Path(points, codes), color=arc.colour, shrinkA=0, shrinkB=0, **style))
    write_lines(ax, words, tags, title, feet=(0.0, -0.45))
    ax.set_ylim(bottom + foot - 0.1, top + 0.5)
    return ax


def dependency_svg(
    words: Any,
    heads: Any = None,
    gold: Any = None,
    *,
    sentence: int = 0,
    tags: Sequence[str] | None = None,
    title: str | None = None,
    probabilities: Any = None,
) -> Svg:
    """The same picture as :func:`dependency_diagram` as SVG, which a notebook shows in the place of a figure.

    :param probabilities: (words,) of the heads of the sentence: the surer one is, the stronger its arc.

    >>> from pyro_unsup.data import toy
    >>> from pyro_unsup.plot import dependency_svg
    >>> picture = dependency_svg(toy.sentences(1, seed=7))  # picture.save("arcs.svg")
    >>> str(picture)[:39]
    '<svg xmlns="http://www.w3.org/2000/svg"'
    """
    words, tags, arcs = _sentence(words, heads, gold, sentence, tags)
    widths = [max(map(width_of, pair)) + GAP for pair in zip(words, tags or words, strict=True)]
    middles = np.cumsum(widths) - np.array(widths) / 2
    top, bottom = max((arc.level for arc in arcs), default=0), min((0, *(arc.level for arc in arcs)))
    head = LEVEL * top + 12 + LINE * (title is not None)  # where the arcs above the words end
    foot = head + LINE * (2 if tags is None else 3) - 8  # where those below them do
    width = max(float(sum(widths)), 0.0 if title is None else width_of(title) + GAP)
    parts = [] if title is None else [label(title, GAP / 2, LINE - 4, text_anchor="start")]
    sure = None if probabilities is None else to_numpy(probabilities).tolist()
    for arc in arcs:
        p = None if sure is None or arc.level < 0 else float(sure[arc.child])
        drawn = _drawn(arc, middles, head if arc.level > 0 else foot, 1.0 if p is None else p)
        above = "the root" if arc.head == ROOT else words[arc.head]
        what = "" if p is None else f": {100 * p:.0f} %"
        said = f"{words[arc.child]} \N{LEFTWARDS ARROW} {above}{what if arc.level > 0 else ', gold, not found'}"
        parts.append(group(drawn, said, sure is not None, class_=f"arc {_CLASSES[arc.colour]}"))
    for place, word in enumerate(words):
        parts.append(label(word, middles[place], head + LINE))
        if tags is not None:
            parts.append(
                label(
                    tags[place], middles[place], head + 2 * LINE, font_size=FONT_SIZE - 3, fill="#808080", class_="sub"
                )
            )
    return drawing(width, foot - LEVEL * bottom + 4, parts, title or " ".join(words))


def _drawn(arc: Arc, middles: Any, foot: float, sure: float) -> list[str]:
    x, up = middles[arc.child], 1 if arc.level > 0 else -1
    neck, height = foot - ARROW * up, foot - LEVEL * arc.level
    if arc.head == ROOT:
        line = f"M{x:.1f},{height:.1f} L{x:.1f},{neck:.1f}"
    else:
        begin = middles[arc.head] + ARROW * np.sign(arc.child - arc.head)
        bend = foot + (height - foot) * 4 / 3
        line = f"M{begin:.1f},{foot:.1f} C{begin:.1f},{bend:.1f} {x:.1f},{bend:.1f} {x:.1f},{neck:.1f}"
    dashes = {} if arc.level > 0 else {"stroke_dasharray": "4 3"}
    point = f"M{x - ARROW / 2:.1f},{neck:.1f} h{ARROW} L{x:.1f},{foot:.1f} Z"
    strength = f"{0.2 + 0.8 * sure:.2f}"
    look: dict[str, Any] = {"fill": "none", "stroke": arc.colour, "stroke_width": 1.7, "stroke_opacity": strength}
    return [
        shape("path", d=line, **look, **dashes, class_="line"),
        shape("path", d=point, fill=arc.colour, fill_opacity=strength, class_="head"),
    ]


def _sentence(
    words: Any, heads: Any, gold: Any, sentence: int, tags: Sequence[str] | None
) -> tuple[list[str], Sequence[str] | None, list[Arc]]:
    """What is drawn: the words, a line below them, and the arcs."""
    if hasattr(words, "sentence"):
        sentence %= len(words)
        here = slice(int(words.offsets[sentence]), int(words.offsets[sentence + 1]))
        gold = words.heads if gold is None else gold
        heads, gold = (_part(one, here, words.tokens) for one in (heads, gold))
    words, tags = lines_of(words, tags, sentence, "arcs")
    if heads is None and gold is None:
        raise UnsupError("there are no heads to draw: give some, or a corpus that has them")
    lengths = np.array([len(words)])
    drawn = check_heads(gold if heads is None else heads, lengths, "heads").tolist()
    right = None if heads is None or gold is None else check_heads(gold, lengths, "gold").tolist()
    return words, tags, _arcs(drawn, right)


def _part(heads: Any, here: slice, tokens: int) -> Any:
    """Of heads of a whole corpus, those of a sentence."""
    found = None if heads is None else to_numpy(heads)
    return found[here] if found is not None and found.shape == (tokens,) else found


def _arcs(heads: list[int], gold: list[int] | None) -> list[Arc]:
    if gold is None:
        return [Arc(*arc, PLAIN) for arc in _levels(heads)]
    found = [Arc(head, child, level, _colour(head, child, gold)) for head, child, level in _levels(heads)]
    missed = [-1 if head == right else right for head, right in zip(heads, gold, strict=True)]
    return found + [Arc(head, child, -level, MISSED) for head, child, level in _levels(missed)]


def _colour(head: int, child: int, gold: list[int]) -> str:
    if gold[child] == head + 1:
        return RIGHT
    return TURNED if head != ROOT and gold[head] == child + 1 else WRONG


def _levels(heads: list[int]) -> list[tuple[int, int, int]]:
    """Head, dependent and level of every arc: an arc is above those that it spans, the root's above all."""
    spans = {child: sorted((child, head - 1)) for child, head in enumerate(heads) if head > 0}
    levels: dict[int, int] = {}
    for child in sorted(spans, key=lambda child: spans[child][1] - spans[child][0]):
        low, high = spans[child]
        inside = (level for one, level in levels.items() if low <= spans[one][0] and spans[one][1] <= high)
        levels[child] = 1 + max(inside, default=0)
    top = 1 + max(levels.values(), default=0)
    return [(head - 1, child, levels.get(child, top)) for child, head in enumerate(heads) if head >= 0]
