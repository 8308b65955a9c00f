"""The small values that a task describes a report by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..plot.svg import Svg
from .markup import Html


@dataclass(frozen=True)
class Picture:
    """A picture of what was learned.

    :param title: its heading.
    :param drawn: SVG, or markup.
    :param caption: what to look at, in a sentence.
    """

    title: str
    drawn: Svg | Html
    caption: str = ""


@dataclass(frozen=True)
class Kinds:
    """How often something happened, by kind.

    :param title: the heading.
    :param heads: of the columns that name a kind.
    :param rows: each the cells of these columns, and how often it happened.
    :param of: how many there are in all, to show shares of.
    :param caption: what is counted, in a sentence.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[Sequence[str], int]]
    of: int
    caption: str = ""


@dataclass(frozen=True)
class Example:
    """One example, drawn with its structure.

    :param name: such as ``sentence 12``.
    :param text: what a search looks through.
    :param drawn: the picture.
    :param certainty: mean posterior probability of what was chosen; None if it is not known.
    :param verdict: how much of it is right, in words; empty without gold.
    :param wrong: whether something in it is wrong.
    :param parts: the structure, for telling whether two models found the same.
    """

    name: str
    text: str
    drawn: Svg | Html
    certainty: float | None = None
    verdict: str = ""
    wrong: bool = False
    parts: Any = None
