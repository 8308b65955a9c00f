"""A paper whose rows cost nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pyro_unsup.reproduce import Column, Corpora, Curve, Paper, Row, Table


def score(base: float, corpora: Corpora, seed: int, small: bool) -> dict[str, Any]:
    """A number that depends on the row, the seed, the text, and whether it is small."""
    words = corpora["wsj"].tokens
    return {
        "accuracy": np.float64(base + seed + words / 100),
        "bits": np.inf if small else 2.5,
        "along": [(0, base), (5, base + seed)],
        "right": np.array([1, 0, 1]),
    }


def fail(corpora: Corpora, seed: int, small: bool) -> dict[str, Any]:
    if seed == 1:
        raise ValueError("the first\n line")
    return {"accuracy": 1.0}


def die_once(mark: Path, corpora: Corpora, seed: int, small: bool) -> dict[str, Any]:
    """End the whole process the first time, when seed 2 is asked for."""
    if seed == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"accuracy": float(seed)}


def interrupt_once(mark: Path, corpora: Corpora, seed: int, small: bool) -> dict[str, Any]:
    if seed == 1 and not mark.exists():
        mark.touch()
        raise KeyboardInterrupt
    return {"accuracy": float(seed)}


def sleep(seconds: float, corpora: Corpora, seed: int, small: bool) -> dict[str, Any]:
    time.sleep(seconds)
    return {"accuracy": float(seed)}


def lead(found: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if not {"one", "two"} <= found.keys():
        return {}
    return {"two": {"lead": found["two"]["accuracy"] - found["one"]["accuracy"]}}


COLUMNS = (Column("accuracy", "accuracy"), Column("bits", "bits", 3), Column("lead", "lead"))


def paper(*rows: Row, needs: tuple[str, ...] = ("wsj",)) -> Paper:
    """One table, by default of three rows: two with seeds, one without."""
    rows = rows or (
        Row("one", partial(score, 10.0), needs, {"accuracy": 12.0, "bits": "low"}),
        Row("two", partial(score, 20.0), needs, {"accuracy": (21.0, 0.5)}),
        Row("fixed", partial(score, 1000.0), needs, trials=1),
    )
    table = Table(
        "first",
        "Table 1: fakes",
        "On a toy.",
        COLUMNS,
        rows,
        minutes=0.1,
        compare=lead,
        curves=(Curve("along", "steps", "accuracy"),),
    )
    return Paper("fake-2000", "Fake & Fake (2000)", (table,), seeds=2)


def rows_of(run: Any) -> Paper:
    return paper(Row("row", run, ("wsj",), {"accuracy": 1.0}))
