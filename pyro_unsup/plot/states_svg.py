"""States as SVG: the graph of transitions, and a series in the colours of its states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyro_unsup.evaluate.labels import to_numpy
from pyro_unsup.plot.curves_svg import ticks
from pyro_unsup.plot.series import COLOURS, colour
from pyro_unsup.plot.svg import Svg, drawing, group, label, shape

#: States that a circle has room for; of more, a table of shades is drawn.
CIRCLE, FEW = 10, 5
SIDE, RING, DOT, LOOP = 460, 150, 25, 23
CELL = 22
WIDTH, HEIGHT, LEFT = 720, 240, 62


def transition_svg(shares: Any, names: Sequence[str] | None = None, *, least: float | None = None) -> Svg:
    """Which state follows which: arrows between states in a circle, or, of many states, a table of shades.

    :param shares: (K, K) probabilities, rows (old, new): ``fit.weights["transition"].exp()``.
    :param names: of the states; their numbers, if none are given.
    :param least: the least probability that gets an arrow: 0.005 among few states, 0.05 among more.

    >>> import pyro_unsup as pu
    >>> str(pu.plot.transition_svg([[0.9, 0.1], [0.3, 0.7]])).count("<title>")  # the picture, 4 arrows and 2 states
    7
    """
    table = to_numpy(shares).astype(np.float64)
    called = [str(k) for k in range(len(table))] if names is None else [_short(name) for name in names]
    if len(table) > CIRCLE:
        return _shades(table, called)
    return _circle(table, called, (0.005 if len(table) <= FEW else 0.05) if least is None else least)


def _circle(table: Any, names: Sequence[str], least: float) -> Svg:
    K, middle = len(table), SIDE / 2
    angles = [2 * math.pi * k / K - math.pi / 2 for k in range(K)]
    ring = RING if K > 1 else 0
    place = [(middle + ring * math.cos(a), middle + ring * math.sin(a)) for a in angles]
    parts = []
    for i, j in sorted(np.ndindex(K, K), key=lambda pair: float(table[pair])):
        share = float(table[i, j])
        if share >= least:
            said = f"{names[i]} is followed by {names[j]}: {100 * share:.1f} %"
            parts.append(group(_arrow(place[i], place[j], share, i, angles[i], K <= FEW), said, class_=_class(i)))
    for k, (x, y) in enumerate(place):
        size = 15 if len(names[k]) < 5 else 11
        dot = shape("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=DOT, fill=colour(k), class_="state")
        name = label(names[k], x, y + size / 3, fill="#ffffff", font_size=size, font_weight="600", class_="on")
        likely = np.argsort(-table[k], kind="stable")[:3].tolist()
        follows = ", ".join(f"{names[j]} {100 * table[k, j]:.0f} %" for j in likely)
        parts.append(group([dot, name], f"after {names[k]}: {follows}", class_=_class(k)))
    return drawing(SIDE, SIDE, parts, f"Transitions between {K} states; arrows from {100 * least:g} % on", "graph")


def _arrow(
    a: tuple[float, float], b: tuple[float, float], share: float, state: int, angle: float, told: bool
) -> list[str]:
    """An arrow, or the ring of a state that follows itself.

    :param told: whether there is room for its probability beside it.
    """
    look = {"fill": "none", "stroke": colour(state), "stroke_width": f"{0.8 + 5 * share:.1f}"}
    look["class_"], look["stroke_opacity"] = "move", f"{0.35 + 0.65 * share:.2f}"
    head = {"fill": colour(state), "class_": "point"}
    if a == b:
        out = (math.cos(angle), math.sin(angle))
        x, y = a[0] + out[0] * (DOT + LOOP - 6), a[1] + out[1] * (DOT + LOOP - 6)
        ring = {**look, "stroke_width": f"{0.8 + 2 * share:.1f}", "class_": "move ring"}
        drawn = shape("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=LOOP, **ring)
        where = x + out[0] * 4, y + out[1] * 4 + 4
        return [drawn, label(f"{100 * share:.0f} %", *where, font_size=12, class_="sub")]
    (x0, y0), (x1, y1) = a, b
    far = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / far, (y1 - y0) / far
    bend = 0.14 * far
    cx, cy = (x0 + x1) / 2 + bend * uy, (y0 + y1) / 2 - bend * ux
    dx, dy = x1 - cx, y1 - cy
    near = math.hypot(dx, dy)
    dx, dy = dx / near, dy / near
    size = 8 + 5 * share
    tip = (x1 - dx * (DOT + 3), y1 - dy * (DOT + 3))
    neck = (tip[0] - dx * size, tip[1] - dy * size)
    line = f"M{x0:.1f},{y0:.1f} Q{cx:.1f},{cy:.1f} {neck[0]:.1f},{neck[1]:.1f}"
    half = size / 2
    point = (
        f"M{tip[0]:.1f},{tip[1]:.1f} L{neck[0] + half * dy:.1f},{neck[1] - half * dx:.1f} "
        f"L{neck[0] - half * dy:.1f},{neck[1] + half * dx:.1f} Z"
    )
    both = [shape("path", d=line, **look), shape("path", d=point, **head)]
    if told:
        text = f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
        both.append(label(text, cx + 0.03 * far * uy, cy - 0.03 * far * ux + 4, font_size=12, class_="sub"))
    return both


def _shades(table: Any, names: Sequence[str]) -> Svg:
    left = 14 + 8 * max(map(len, names))
    parts, size = [], CELL * len(table)
    for i, j in np.ndindex(*table.shape):
        share = float(table[i, j])
        if share >= 0.005:
            at = {"x": left + CELL * j, "y": left + CELL * i, "width": CELL - 1, "height": CELL - 1}
            cell = shape("rect", **at, fill="#0b6e6e", fill_opacity=f"{share:.2f}", class_="cell", stroke="none")
            said = f"{names[i]} is followed by {names[j]}: {100 * share:.1f} %"
            parts.append(group([cell], said, reached=share >= 0.2))
    for k, name in enumerate(names):
        middle = left + CELL * (k + 0.65)
        parts.append(label(name, left - 6, middle, text_anchor="end", font_size=12))
        turn = f"rotate(-90 {middle:.1f} {left - 6})"
        parts.append(label(name, middle, left - 6, text_anchor="start", font_size=12, transform=turn))
    return drawing(left + size + 2, left + size + 2, parts, f"Transitions between {len(table)} states, rows to columns")


def series_svg(
    values: Any, states: Any, probabilities: Any = None, *, first: int = 0, names: Sequence[str] | None = None
) -> Svg:
    """A series, each observation in the colour of its state, on stripes of the states' colours.

    :param values: (T,) the observations; NaN where one is missing.
    :param states: (T,) the state of each.
    :param probabilities: (T,) of these states; the surer, the stronger the stripe.
    :param first: the number of the first observation.
    :param names: of the states; their numbers, if none are given.

    >>> import pyro_unsup as pu
    >>> str(pu.plot.series_svg([1.0, 2.0, 9.0], [0, 0, 1])).count("<circle")
    3
    """
    y, found = to_numpy(values).astype(np.float64), to_numpy(states).astype(np.int64)
    sure = np.ones(len(y)) if probabilities is None else to_numpy(probabilities).astype(np.float64)
    there = np.isfinite(y)
    low, high = (float(y[there].min()), float(y[there].max())) if there.any() else (0.0, 1.0)
    tall = (high - low) or max(abs(high), 1.0)
    foot, step = HEIGHT - 34, (WIDTH - LEFT - 14) / max(len(y), 1)

    def up(value: float) -> float:
        return foot - 14 - (foot - 30) * (value - low) / tall

    called = [f"state {k}" for k in range(int(found.max(initial=0)) + 1)] if names is None else list(names)
    parts = []
    for a, b in _runs(found):
        k, mean = int(found[a]), float(sure[a:b].mean())
        if k < 0:
            continue
        at = {"x": f"{LEFT + step * a:.2f}", "y": 8, "width": f"{step * (b - a):.2f}", "height": foot - 8}
        stripe = shape("rect", **at, fill=colour(k), fill_opacity=f"{0.05 + 0.2 * mean:.2f}", class_="state")
        which = f"observation {first + a}" if b == a + 1 else f"observations {first + a} to {first + b - 1}"
        parts.append(group([stripe], f"{which}: {called[k]}, {100 * mean:.0f} % sure", class_=_class(k)))
    for tick in ticks(low, low + tall, 4):
        parts.append(label(f"{tick:g}", LEFT - 8, up(tick) + 4, text_anchor="end", font_size=12, class_="sub"))
    for tick in ticks(first, first + len(y) - 1, 8):
        if tick == round(tick):
            x = LEFT + step * (tick - first + 0.5)
            parts.append(label(f"{tick:.0f}", x, HEIGHT - 12, font_size=12, class_="sub"))
    line, pen = [], "M"
    for t, value in enumerate(y.tolist()):
        if math.isfinite(value):
            line.append(f"{pen}{LEFT + step * (t + 0.5):.1f},{up(value):.1f}")
        pen = "L" if math.isfinite(value) else "M"
    parts.append(shape("path", d=" ".join(line), fill="none", stroke="#999999", stroke_width=1, class_="faint"))
    radius = f"{min(4.0, max(1.8, 0.42 * step)):.1f}"
    for t in np.flatnonzero(there & (found >= 0)).tolist():
        k = int(found[t])
        at = {"cx": f"{LEFT + step * (t + 0.5):.1f}", "cy": f"{up(float(y[t])):.1f}", "r": radius}
        said = f"observation {first + t}: {y[t]:g}, {called[k]} {100 * sure[t]:.0f} %"
        parts.append(group([shape("circle", **at, fill=colour(k), class_="state")], said, False, class_=_class(k)))
    return drawing(WIDTH, HEIGHT, parts, f"A series of {len(y)} observations by state")


def _runs(states: Any) -> list[tuple[int, int]]:
    """Where each run of one state begins and ends."""
    edges = [0, *(np.flatnonzero(np.diff(states)) + 1).tolist(), len(states)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def _class(state: int) -> str:
    return f"st{state % len(COLOURS)}"


def _short(name: str) -> str:
    return name if len(name) <= 9 else name[:8] + "…"
