"""Choosing the step sizes and mini-batches of stepwise EM by likelihood, without labels."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import FitError, UnsupError
from ..results import Fit
from .examples import Examples
from .progress import progress_bar
from .runs import one_thread
from .stepwise import SlowForgetting, StepwiseEM

if TYPE_CHECKING:
    import pandas

#: The grid of Liang & Klein (2009), section 4.
POWERS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BATCH_SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)


@dataclass(frozen=True)
class Selection:
    """What a grid of settings led to.

    :param rows: one dict a setting: what it is (``power`` and ``batch_size``, or ``weight``), ``log_likelihood`` of the
        final weights (-inf where training could not go on, with the reason as ``error``), and ``score`` if one was
        asked for.
    :param fit: of the setting with the highest log-likelihood.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.toy.sentences(20, seed=1)
    >>> model = pu.models.Tagger(tags=2, vocab=sentences.vocab)
    >>> grid = {"powers": [0.6, 0.9], "batch_sizes": [5], "iterations": 2}
    >>> found = pu.select_steps(model, sentences, **grid, processes=1, progress=False)
    >>> len(found.rows), found.best["power"] in (0.6, 0.9), found.fit.report.iterations
    (2, True, 2)
    """

    rows: list[dict[str, Any]]
    fit: Fit

    @property
    def best(self) -> dict[str, Any]:
        """The row with the highest log-likelihood; the first of them, if several are equal."""
        return max(self.rows, key=lambda row: float(row["log_likelihood"]))

    @property
    def table(self) -> pandas.DataFrame:
        """The rows as a table."""
        import pandas

        return pandas.DataFrame(self.rows)


def select_steps(
    model: Callable[..., Any],
    *args: Any,
    powers: Sequence[float] = POWERS,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    iterations: int = 20,
    seed: int = 0,
    score: Callable[[Fit], float] | None = None,
    processes: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> Selection:
    """Train with every pair of a power and a mini-batch size, and take the one with the highest likelihood.

    Mini-batches as large as the data or larger are left out, but for the first of them. Settings run side by side, each
    on one thread, and from the same start.

    :param args: what the model is called with, the data.
    :param powers: how fast step sizes fall.
    :param batch_sizes: examples in a mini-batch.
    :param iterations: passes of each.
    :param seed: of the start, the same for all.
    :param score: called with each final fit, to see how likelihood and score go together. It does not choose.
    :param processes: how many settings at a time; by default as many as there are cores.
    :param progress: show how far it is.
    :param settings: for :class:`.StepwiseEM`, such as ``estimate``, ``init`` and ``order_seed``.

        >>> import pyro_unsup as pu
        >>> data, model = [[0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]], pu.models.Tagger(tags=2, vocab=2)
        >>> found = pu.select_steps(model, data, powers=[0.6, 1.0], batch_sizes=[1, 2], iterations=3, processes=1)
        >>> found.best["log_likelihood"] == max(row["log_likelihood"] for row in found.rows)
        True
    """
    n = Examples.of(model, args, {}).size
    sizes = sorted(batch_sizes)
    sizes = [m for m in sizes if m < n] + [m for m in sizes if m >= n][:1]
    grid = [(power, m) for power in powers for m in sizes]
    if not grid:
        raise FitError("the grid is empty: expected at least one power and one batch size")
    found = _each(grid, processes, model, args, iterations, seed, score, settings)
    rows, best = [], None
    bar = progress_bar(found, progress, total=len(grid), unit="setting")
    for row, fit in bar:  # one at a time, so that only the best is kept
        if fit is not None and (best is None or row["log_likelihood"] > best[0]):
            best = (row["log_likelihood"], fit)
        rows.append(row)
    if best is None:
        raise FitError(f"no setting could be trained: {rows[0]['error']}")
    best[1].model = model
    return Selection(rows, best[1])


def _each(grid: Any, processes: int | None, *args: Any) -> Any:
    processes = min(len(grid), processes or os.cpu_count() or 1)
    if processes == 1:
        return (_one(power, m, *args) for power, m in grid)
    from joblib import Parallel, delayed

    return Parallel(n_jobs=processes, backend="loky", return_as="generator")(
        delayed(_one)(power, m, *args) for power, m in grid
    )


def _one(
    power: float, m: int, model: Any, args: Any, iterations: int, seed: int, score: Any, settings: Any
) -> tuple[dict[str, Any], Fit | None]:
    row: dict[str, Any] = {"power": power, "batch_size": m}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowForgetting)
        engine = StepwiseEM(model, power=power, batch_size=m, **settings)
        try:
            fit = engine.run(*args, iterations=iterations, tolerance=0.0, seed=seed, progress=False)
            row["log_likelihood"] = fit.log_likelihood(*args)
        except UnsupError as error:
            return {**row, "log_likelihood": -math.inf, "error": str(error)}, None
        if score is not None:
            row["score"] = float(score(fit))
    return row, fit
