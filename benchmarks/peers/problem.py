"""What a problem is, and who contends to solve it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .texts import Arrays, offsets

#: The modules that have problems, in the order in which they run.
MODULES = ("tagger", "trees", "alignment", "segmentation", "sampling")
#: Words of a batch, for peers that work on batches of sentences of one length.
BATCH = 8_192

Size = dict[str, int]


class Job(NamedTuple):
    """Something to time.

    :param run: one iteration. What it returns goes to ``answer``; a dictionary with ``seconds`` says itself how long an
        iteration took, for those whose preparation cannot be kept apart.
    :param answer: what was computed, in a few numbers. Not timed.
    """

    run: Callable[[], Any]
    answer: Callable[[Any], dict[str, float]]


@dataclass(frozen=True)
class Contender:
    """One way to solve a problem.

    :param name: as the table has it.
    :param prepare: makes a job of the data; imports what it needs.
    :param peer: the package; empty for ours.
    :param differs: what it does differently, in words.
    :param why: what profiles say, for where it wins.
    :param agrees: names of the numbers in its answer that must be those of the first contender.
    :param curves: those that it takes part in, if not all.
    :param compiles: whether its first run takes much longer than the next.
    """

    name: str
    prepare: Callable[[Arrays], Job]
    peer: str = ""
    differs: str = ""
    why: str = ""
    agrees: tuple[str, ...] = ()
    curves: tuple[str, ...] = ()
    compiles: bool = False


@dataclass(frozen=True)
class Curve:
    """Sizes along which something grows, in ascending order.

    :param axis: what it is called in the sizes.
    :param sizes: as a measurement has them.
    :param small: as a quick look has them.
    :param label: for people.
    :param times: what a size is multiplied with, for people.
    """

    axis: str
    sizes: tuple[Size, ...]
    small: tuple[Size, ...]
    label: str
    times: int = 1


@dataclass(frozen=True)
class Problem:
    """Something that several contenders solve from the same data.

    :param name: of the problem.
    :param unit: what is timed.
    :param make: the data, by size.
    :param tiny: a size at which everything is loaded and compiled before memory is looked at.
    :param curves: by name; the first one has the sizes that the table is of.
    :param contenders: ours first.
    :param main: that size of the first curve which two threads get as well; its place.
    :param tolerance: relative, of answers.
    """

    name: str
    unit: str
    make: Callable[..., Arrays]
    tiny: Size
    curves: dict[str, Curve]
    contenders: tuple[Contender, ...]
    main: int = -1
    tolerance: float = 1e-4


def all_problems() -> list[Problem]:
    """Every problem there is."""
    return [problem for name in MODULES for problem in importlib.import_module(f"{__package__}.{name}").PROBLEMS]


def described(size: Size) -> str:
    """A size for people; sentences of length 0 have several."""
    return ", ".join(
        f"{value:,} {name}" if name != "length" else f"length {value or '2 to 10'}" for name, value in size.items()
    )


def threads() -> int:
    """How many this process was given."""
    return int(os.environ["OMP_NUM_THREADS"])


def batches(tokens: np.ndarray, lengths: np.ndarray, most: int = BATCH) -> list[np.ndarray]:
    """Sentences of one length, (B, n) each, with no more than so many words."""
    found, starts = [], offsets(lengths)[:-1]
    for n in np.unique(lengths):
        rows = np.flatnonzero(lengths == n)
        for some in np.array_split(rows, -(-len(rows) * int(n) // max(most, int(n)))):
            found.append(tokens[starts[some][:, None] + np.arange(n)])
    return found


def squares(table: Any) -> float:
    """A checksum that depends on every entry."""
    return float((table**2).sum())
