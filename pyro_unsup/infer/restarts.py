"""Several starts side by side: explicit seeds, one thread each, the best objective wins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import pyro
import torch
from tqdm.auto import tqdm

from ..results import Fit
from .loop import SHOW_AFTER_SECONDS


def best_of(
    engine: Any,
    restarts: int,
    processes: int | None,
    seed: int,
    progress: bool,
    checkpoint: str | PathLike[str] | None,
    settings: Any,
    args: Any,
    kwargs: Any,
) -> Fit:
    """Run copies of a fresh engine from several seeds. Ties go to the lowest seed."""
    from joblib import Parallel, delayed

    processes = min(restarts, processes or os.cpu_count() or 1)
    jobs = (delayed(_one)(engine, seed + i, checkpoint, settings, args, kwargs) for i in range(restarts))
    # loky starts clean processes and pickles functions by value, so models from a notebook work too.
    found = (
        Parallel(n_jobs=processes, backend="loky", return_as="generator")(jobs)
        if processes > 1
        else (job[0](*job[1], **job[2]) for job in jobs)
    )
    fits: list[Fit] = list(tqdm(found, total=restarts, unit="restart", delay=SHOW_AFTER_SECONDS, disable=not progress))
    best = max(fits, key=lambda fit: fit.objective)
    best.model = engine.model
    best.report.restarts = [fit.objective for fit in fits]
    best.config["restarts"] = restarts
    return best


def _one(engine: Any, seed: int, checkpoint: str | PathLike[str] | None, settings: Any, args: Any, kwargs: Any) -> Fit:
    own = None if checkpoint is None else Path(checkpoint) / f"seed-{seed}"
    with one_thread(), pyro.get_param_store().scope():
        fit: Fit = _fresh(engine).run(*args, seed=seed, progress=False, checkpoint=own, **settings, **kwargs)
    return fit


def _fresh(engine: Any) -> Any:
    """A copy with everything it closes over, such as the modules of a neural network, as another process would get."""
    import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(engine))


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
