"""How training went, as SVG: the objective by iteration, and where the restarts ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pyro_unsup.errors import UnsupError
from pyro_unsup.plot.svg import Svg, drawing, group, label, shape

WIDTH, HEIGHT = 640, 270
#: Room for numbers and names: left, right, above and below.
LEFT, RIGHT, ABOVE, BELOW = 110, 20, 16, 50
#: Points of a curve; longer ones are thinned.
POINTS = 400
ACCENT, GREY, LINE = "#0b6e6e", "#999999", "#cccccc"

History = Sequence[Mapping[str, float]]


def learning_curve_svg(history: History, others: Iterable[History] = (), *, value: str = "objective") -> Svg:
    """The objective by iteration as SVG, which a notebook shows in the place of a figure.

    :param history: one row an iteration, with ``iteration`` and the value: ``fit.rows``.
    :param others: those of other starts, drawn faintly.
    :param value: what is drawn.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1], [1, 1]], iterations=3)
    >>> str(pu.plot.learning_curve_svg(fit.rows))[:4]
    '<svg'
    """
    curve, *rest = (_points(one, value) for one in (history, *others))
    if not len(curve):
        raise UnsupError(f"history has no finite {value!r} to draw")
    every = np.concatenate([curve, *rest])
    (first, low), (last, high) = every.min(0), every.max(0)
    wide, tall = max(last - first, 1.0), (high - low) or max(abs(high), 1.0)

    def place(x: float, y: float) -> tuple[float, float]:
        right = LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / wide
        return right, HEIGHT - BELOW - (HEIGHT - ABOVE - BELOW) * (y - low) / tall

    parts = []
    for y in ticks(low, low + tall, 4):
        at = place(first, y)[1]
        line = f"M{LEFT},{at:.1f} H{WIDTH - RIGHT}"
        parts.append(shape("path", d=line, stroke=LINE, stroke_width=1, fill="none", class_="axis"))
        parts.append(label(_number(y, tall), LEFT - 10, at + 5, text_anchor="end", font_size=13, class_="sub"))
    for x in ticks(first, first + wide, 6):
        if x == round(x):
            parts.append(label(f"{x:,.0f}", place(x, low)[0], HEIGHT - BELOW + 20, font_size=13, class_="sub"))
    parts.append(label("iteration", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, font_size=13, class_="sub"))
    for one in rest:
        parts.append(shape("path", d=_line(one, place), fill="none", stroke=GREY, stroke_width=1.2, class_="faint"))
    parts.append(shape("path", d=_line(curve, place), fill="none", stroke=ACCENT, stroke_width=2.4, class_="curve"))
    x, y = curve[-1].tolist()
    (right, up), said = place(x, y), f"iteration {x:,.0f}: {value.replace('_', ' ')} {y:,.4f}"
    dot = shape("circle", cx=f"{right:.1f}", cy=f"{up:.1f}", r=4.5, fill=ACCENT, class_="dot")
    parts.append(group([dot], said))
    begun = f"from {curve[0, 1]:,.2f} to {y:,.2f} in {x - curve[0, 0]:,.0f} iterations"
    return drawing(WIDTH, HEIGHT, parts, f"The {value.replace('_', ' ')} by iteration: {begun}", kind="fluid")


def restarts_svg(objectives: Sequence[float]) -> Svg:
    """Where restarts ended: a dot for each final objective, the best one strong.

    :param objectives: in the order of their seeds; ``fit.report.restarts``.

    >>> import pyro_unsup as pu
    >>> str(pu.plot.restarts_svg([-12.0, -11.5, -14.0]))[:4]
    '<svg'
    """
    known = [one for one in objectives if math.isfinite(one)]
    if not known:
        raise UnsupError("no restart ended with a finite objective: there is nothing to draw")
    low, high = min(known), max(known)
    tall, height, apart = (high - low) or 1.0, 90, high - low > 1e-6 * abs(high)
    line = f"M40,46 H{WIDTH - 40}"
    parts = [shape("path", d=line, stroke=LINE, stroke_width=1, fill="none", class_="axis")]
    for k, one in sorted(enumerate(objectives), key=lambda pair: pair[1]):
        if not math.isfinite(one):
            continue
        x = 40 + (WIDTH - 80) * ((one - low) / tall if apart else 0.5)
        best = one == high
        said = f"start {k + 1}: {one:,.4f}{', the best' if best else ''}"
        look = {"fill": ACCENT, "class_": "dot", "fill_opacity": 1 if best else 0.45}
        dot = shape("circle", cx=f"{x:.1f}", cy=46, r=8 if best else 6, **look)
        parts.append(group([dot], said))
    if apart:
        parts.append(label(f"{low:,.2f}", 30, 80, text_anchor="start", font_size=13, class_="sub"))
        parts.append(label(f"best {high:,.2f}", WIDTH - 30, 80, text_anchor="end", font_size=13, class_="sub"))
    else:
        parts.append(label(f"all {high:,.2f}", WIDTH / 2, 80, font_size=13, class_="sub"))
    said = f"Final objectives of {len(objectives)} starts, from {low:,.2f} to {high:,.2f}"
    return drawing(WIDTH, height, parts, said, kind="fluid")


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between two numbers.

    >>> from pyro_unsup.plot.curves_svg import ticks
    >>> ticks(0.0, 10.0, 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(k * size for k in (1, 2, 5, 10) if k * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _points(rows: History, value: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:  # (points, 2)
    found = [(row["iteration"], row[value]) for row in rows if math.isfinite(row.get(value, math.nan))]
    table = np.array(found, np.float64).reshape(-1, 2)
    kept = np.linspace(0, max(len(table) - 1, 0), min(POINTS, len(table))).round().astype(np.int64)
    return table[kept]


def _line(points: np.ndarray[tuple[int, int], np.dtype[np.float64]], place: object) -> str:
    assert callable(place)
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points.tolist()))


def _number(y: float, span: float) -> str:
    digits = max(0, 1 - math.floor(math.log10(span)))
    return f"{y:,.{min(digits, 6)}f}"
