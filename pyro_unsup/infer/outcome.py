"""From an engine to the fit it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..results import Fit, Reason, Report
from .loop import Info

State = dict[str, dict[str, Any]]  #: what was learned, by the names that :class:`.Fit` has for it


class Trained(Protocol):
    """What is to be known of an engine."""

    model: Callable[..., Any]
    estimate: Any
    dtype: torch.dtype
    unvisited: dict[str, int]

    def described(self) -> dict[str, Any]: ...


def outcome(
    engine: Trained, rows: Sequence[Info], reason: str, state: State, *, seed: int, iterations: int, tolerance: float
) -> Fit:
    """The fit of a run that these rows describe."""
    last = rows[-1]
    report = Report(
        reason=Reason(reason),
        iterations=last.iteration,
        objective=last.objective,
        change=last.change,
        tolerance=tolerance,
        seconds=last.seconds,
        seed=seed,
        unvisited={name: n for name, n in engine.unvisited.items() if n},
    )
    config = {
        "engine": type(engine).__name__,
        "estimate": repr(engine.estimate),
        "dtype": str(engine.dtype),
        "iterations": iterations,
        "tolerance": tolerance,
        **engine.described(),
    }
    return Fit(engine.model, report=report, rows=[row.flat() for row in rows], seed=seed, config=config, **state)
