"""Options for finding links: how two directions are put together."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from ...errors import UnsupError


class Way(StrEnum):
    """How the two directions are put together."""

    INTERSECTION = "intersection"
    UNION = "union"
    THRESHOLD = "threshold"
    COMPETITIVE = "competitive"
    GROW = "grow-diag-final-and"
    FORWARD = "forward"
    BACKWARD = "backward"


class Combine(StrEnum):
    """How two posterior probabilities become one."""

    MEAN = "mean"
    PRODUCT = "product"
    GEOMETRIC = "geometric"
    MAX = "max"
    MIN = "min"


WayOption = Annotated[
    Way,
    typer.Option(
        "--how",
        help="How the best links of the two directions are put together. By posteriors: threshold; competitive keeps "
        "the best of those for each word, and what lies beside it.",
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="P",
        min=0,
        max=1,
        help="With --how threshold or competitive, the least posterior of a link.",
        show_default="0.5",
    ),
]
CombineOption = Annotated[
    Combine | None,
    typer.Option(
        "--combine",
        help="With --how threshold or competitive, how the posteriors of the two directions become one.",
        show_default="mean",
    ),
]


def decoding(how: Way, threshold: float | None, combine: Combine | None) -> dict[str, Any]:
    """The options of ``decode`` that these ask for."""
    given: dict[str, Any] = {}
    for name, value in (("threshold", threshold), ("combine", None if combine is None else combine.value)):
        if value is None:
            continue
        if how not in (Way.THRESHOLD, Way.COMPETITIVE):
            raise UnsupError(f"--{name} belongs to --how threshold or competitive; add that, or leave it out")
        given[name] = value
    return given
