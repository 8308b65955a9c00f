"""Time series for reports, each observation in the colour of its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyro_unsup as pu

from .reported import EXAMPLES

if TYPE_CHECKING:
    from ..report.values import Example

#: Observations that one picture has room for, and coordinates of vectors that are drawn.
STRETCH, COORDINATES = 200, 3


def stretches(data: Any, decoded: Any, most: int | None) -> Sequence[Example]:
    """The series, long ones in stretches.

    :param data: with ``series``, and ``names`` of coordinates if they are known.
    :param most: how many series to draw, the first ones; None for all.
    """
    from ..report.markup import element, join
    from ..report.values import Example

    series, posterior = data.series, decoded.posterior
    states = decoded.structure.reshape(-1)
    sure = posterior.smoothed.reshape(len(states), -1).gather(1, states.clamp(min=0)[:, None])[:, 0].clamp(0, 1)
    made: list[Example] = []
    for i, (start, length) in enumerate(zip(series.offsets.tolist(), series.lengths.tolist(), strict=False)):
        for first in range(0, length, STRETCH):
            if len(made) == EXAMPLES or (most is not None and i >= most):
                return made
            here = slice(start + first, start + min(first + STRETCH, length))
            values = series.values[here]
            columns = (
                [values] if values.dim() == 1 else [values[:, d] for d in range(min(COORDINATES, values.shape[1]))]
            )
            drawn = []
            for d, column in enumerate(columns):
                name = data.names[d] if d < len(data.names) else f"coordinate {d}"
                title = element("p", name, class_="soft") if len(columns) > 1 else None
                drawn.append(join([title, pu.plot.series_svg(column, states[here], sure[here], first=first)]))
            which = f"series {i}" if len(series) > 1 else "the series"
            if length > STRETCH:
                which += f", observations {first} to {first + here.stop - here.start - 1}"
            beyond = 0 if values.dim() == 1 else values.shape[1] - COORDINATES
            more = element("p", f"{beyond} more coordinates are left out.", class_="soft") if beyond > 0 else None
            certain, parts = float(sure[here].mean()), tuple(states[here].tolist())
            text = f"{which} {' '.join(f'state {k}' for k in sorted(set(parts)))}"
            made.append(Example(which, text, join([*drawn, more]), certain, parts=parts))
    return made
