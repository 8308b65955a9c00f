"""A sentence under its brackets, as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyro_unsup.data.spans import Rows, check_nested, crosses, tidy_rows
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import to_numpy
from pyro_unsup.plot.svg import FONT_SIZE, Svg, drawing, group, label, shape, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORD_WIDTH, LETTER_WIDTH, LEVEL_HEIGHT = 0.75, 0.1, 0.42  # inches
RIGHT, NEW, CROSSING = "C0", "0.6", "C3"  # colours of gold brackets, others that agree with gold, and of the rest
PLAIN = "0.25"  # the colour where there is no gold
#: The same in SVG, with the names that a style sheet knows them by.
_SVG = {RIGHT: ("right", "#1f77b4"), NEW: ("new", "#999999"), CROSSING: ("crossing", "#d62728")}
_SVG[PLAIN] = ("plain", "currentColor")
#: Pixels: between words, between levels, and from line to line of text.
GAP, LEVEL, LINE = 16, 30, 20

Span = tuple[int, int]


def tree_diagram(
    words: Any,
    brackets: Any = None,
    gold: Any = None,
    ax: Axes | None = None,
    *,
    sentence: int = 0,
    tags: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the tree of a sentence: its words along the bottom, its constituents above them.

    With gold brackets the constituents that are gold are blue, those that cross a gold one are red, and those that do
    neither are grey. Draw gold and predicted trees side by side by giving each its own ``ax``.

    :param words: of one sentence; or a corpus, whose words, tags and gold brackets are drawn.
    :param brackets: pairs (start, end), shape (brackets, 2); or rows (sentence, start, end), shape (brackets, 3), of
        which those of ``sentence`` are drawn. None draws the gold ones.
    :param gold: likewise.
    :param ax: where to draw; by default a new figure, sized to the tree.
    :param sentence: which one, where there are several.
    :param tags: a second line below the words.
    :param title: above the picture.

    >>> from pyro_unsup.plot import tree_diagram
    >>> [text.get_text() for text in tree_diagram(["the", "dog", "barks"], [[0, 2]]).texts][:3]
    ['the', 'dog', 'barks']
    """
    if hasattr(words, "sentence"):
        sentence %= len(words)
        if gold is None and words.spans is not None:
            gold = words.spans[words.span_offsets[sentence] : words.span_offsets[sentence + 1]]
    words, tags = lines_of(words, tags, sentence, "tree")
    if brackets is None and gold is None:
        raise UnsupError("there are no brackets to draw: give some, or a corpus that has them")
    lengths = np.array([len(words)])
    right = None if gold is None or brackets is None else _rows(gold, sentence, lengths, "gold")
    rows = _rows(gold if brackets is None else brackets, sentence, lengths, "brackets")
    check_nested(rows, lengths, "brackets")
    children, heights = _tree([(i, j) for _, i, j in rows.tolist()], len(words))
    colours = dict(zip(map(tuple, rows[:, 1:].tolist()), _colours(rows, right, lengths), strict=True))
    top = max(heights.values())
    ax = new_axes(words, tags, top) if ax is None else ax
    for span, below in children.items():
        colour = colours.get(span, PLAIN)  # the root is drawn even if no bracket says so
        x, y = sum(span) / 2, heights[span]
        for child in below:
            foot = heights[child] if child in children else 0.35  # room for the word
            ax.plot([x, sum(child) / 2], [y, foot], color=colour, linewidth=1.4, solid_capstyle="round", zorder=1)
        ax.plot([x], [y], "o", color=colour, markersize=5, zorder=2)
    write_lines(ax, words, tags, title, feet=(0.1, -0.4))
    ax.set_ylim(-0.3 - 0.4 * (tags is not None), top + 0.3)
    return ax


def tree_svg(
    words: Sequence[str],
    brackets: Any,
    gold: Any = None,
    *,
    tags: Sequence[str] | None = None,
    probabilities: Any = None,
    labels: Sequence[str] | None = None,
) -> Svg:
    """The tree of one sentence as SVG, in the colours of :func:`tree_diagram`.

    :param words: of the sentence.
    :param brackets: pairs (start, end), shape (brackets, 2).
    :param gold: likewise, or None.
    :param tags: a second line below the words.
    :param probabilities: (brackets,) of the brackets: the surer one is, the stronger its lines.
    :param labels: (brackets,) of the brackets, written beside their nodes.

    >>> from pyro_unsup.plot import tree_svg
    >>> str(tree_svg(["the", "dog", "barks"], [[0, 2]])).count("<circle")
    2
    """
    words, tags = lines_of(words, tags, 0, "tree")
    lengths = np.array([len(words)])
    rows = _rows(brackets, 0, lengths, "brackets")
    check_nested(rows, lengths, "brackets")
    spans = [(i, j) for _, i, j in rows.tolist()]
    children, heights = _tree(spans, len(words))
    right = None if gold is None else _rows(gold, 0, lengths, "gold")
    colours = dict(zip(spans, _colours(rows, right, lengths), strict=True))
    given = [(int(i), int(j)) for i, j in to_numpy(brackets).reshape(-1, 2)]
    sure = {} if probabilities is None else {s: float(p) for s, p in zip(given, probabilities, strict=True)}
    named = {} if labels is None else dict(zip(given, labels, strict=True))
    widths = [max(map(width_of, pair)) + GAP for pair in zip(words, tags or words, strict=True)]
    edges = np.concatenate(([0.0], np.cumsum(widths)))
    foot = LEVEL * max(heights.values()) + 12 + (LINE if labels is not None else 0)

    def place(span: Span) -> tuple[float, float]:
        return float(edges[span[0]] + edges[span[1]]) / 2, foot - LEVEL * heights[span]

    parts = []
    for span, below in children.items():
        name, colour = _SVG[colours.get(span, PLAIN)]
        p, (x, y) = sure.get(span, 1.0), place(span)
        look = {"stroke": colour, "stroke_width": 1.7, "stroke_opacity": f"{0.25 + 0.75 * p:.2f}", "fill": "none"}
        ends = [place(one) if one in children else (place(one)[0], foot + 2.0) for one in below]
        drawn = [shape("path", d=f"M{x:.1f},{y:.1f} L{a:.1f},{b:.1f}", **look) for a, b in ends]
        dot = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 4.5, "fill": colour, "fill_opacity": f"{0.25 + 0.75 * p:.2f}"}
        said = " ".join(words[span[0] : span[1]]) + (f": {100 * p:.0f} %" if span in sure else "")
        if span in named:
            said = f"{named[span]}: {said}"
            drawn.append(label(named[span], x, y - 8, font_size=FONT_SIZE - 3, fill=colour, class_="sub"))
        parts.append(group([*drawn, shape("circle", **dot)], said, class_=f"node {name}"))
    for k, text in enumerate(words):
        middle = place((k, k + 1))[0]
        parts.append(label(text, middle, foot + LINE))
        if tags is not None:
            small = {"font_size": FONT_SIZE - 3, "fill": "#808080", "class_": "sub"}
            parts.append(label(tags[k], middle, foot + 2 * LINE, **small))
    return drawing(float(edges[-1]), foot + LINE * (1 if tags is None else 2) + 10, parts, " ".join(words))


def lines_of(
    words: Any, tags: Sequence[str] | None, sentence: int, what: str
) -> tuple[list[str], Sequence[str] | None]:
    """The words of a sentence, or of one of a corpus, and their tags if there are any.

    :param what: is to be drawn, for errors.
    """
    if hasattr(words, "sentence"):
        corpus, words = words, words.sentence(sentence)
        if tags is None and corpus.tags is not None and corpus.vocab != corpus.tagset:
            tags = corpus.sentence_tags(sentence)
    words = list(words)
    if not words:
        raise UnsupError(f"a sentence without words has no {what} to draw")
    if tags is not None and len(tags) != len(words):
        raise UnsupError(f"expected one tag a word, got {len(tags)} tags for {len(words)} words")
    return words, tags


def new_axes(words: list[str], tags: Sequence[str] | None, levels: int) -> Axes:
    """A figure that has room for a sentence, and for so many levels above and below it."""
    import matplotlib.pyplot as plt

    wide = max(WORD_WIDTH, LETTER_WIDTH * (1 + max(map(len, words))))
    size = (0.6 + wide * len(words), 0.8 + LEVEL_HEIGHT * (levels + 0.5 * (tags is not None)))
    return plt.subplots(figsize=size, layout="constrained")[1]


def write_lines(
    ax: Axes, words: list[str], tags: Sequence[str] | None, title: str | None, feet: tuple[float, float]
) -> None:
    """Write words and tags at these heights, and the title."""
    for place, word in enumerate(words):
        ax.text(place + 0.5, feet[0], word, ha="center", va="center", parse_math=False)
        if tags is not None:
            style: dict[str, Any] = {"color": "0.5", "fontsize": "small", "parse_math": False}
            ax.text(place + 0.5, feet[1], tags[place], ha="center", va="center", **style)
    ax.set_xlim(-0.1, len(words) + 0.1)
    ax.set_axis_off()
    if title is not None:
        ax.set_title(title, loc="left", fontsize="medium", parse_math=False)


def _tree(spans: list[Span], n: int) -> tuple[dict[Span, list[Span]], dict[Span, int]]:
    """The children of every constituent, the whole sentence among them, and how high above the words each is."""
    tops = [(i, i + 1) for i in range(n)]  # what has no parent yet, from left to right
    children, heights = {}, dict.fromkeys(tops, 0)
    for span in sorted({*spans, *([(0, n)] if n > 1 else [])}, key=lambda span: span[1] - span[0]):
        below = [one for one in tops if span[0] <= one[0] and one[1] <= span[1]]
        at = tops.index(below[0])
        tops[at : at + len(below)] = [span]
        children[span], heights[span] = below, 1 + max(heights[one] for one in below)
    return children, heights


def _rows(brackets: Any, sentence: int, lengths: Any, name: str) -> Rows:
    """The brackets of the one sentence, as rows of sentence 0."""
    found = to_numpy(brackets)
    if found.ndim == 2 and found.shape[1] == 3:
        found = found[found[:, 0] == sentence, 1:]
    if found.size and (found.ndim != 2 or found.shape[1] != 2):
        raise UnsupError(f"{name} must be pairs (start, end) or rows (sentence, start, end), actual {found.shape}")
    pairs = found.reshape(-1, 2)
    return tidy_rows(np.column_stack((np.zeros(len(pairs), np.int64), pairs)), lengths, name)


def _colours(rows: Rows, gold: Rows | None, lengths: Any) -> list[str]:
    if gold is None:
        return [PLAIN] * len(rows)
    known = set(map(tuple, gold.tolist()))
    bad = crosses(rows, gold, lengths).tolist()
    return [
        RIGHT if tuple(row) in known else CROSSING if wrong else NEW
        for row, wrong in zip(rows.tolist(), bad, strict=True)
    ]
