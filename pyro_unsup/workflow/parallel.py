"""Jobs in several processes, one thread each, with a bar; the results come in order and are the same as in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from ..infer.progress import progress_bar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    job: Callable[[Item], Result],
    items: Sequence[Item],
    processes: int | None,
    unit: str,
    progress: bool | None,
    done: int = 0,
) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, in order, as they are finished.

    :param processes: at a time; by default as many as there are cores. 1 stays in this process.
    :param unit: what the bar counts.
    :param progress: show a bar; None where there is a terminal.
    :param done: items that were finished before, for the bar.
    """
    size = min(len(items), processes or os.cpu_count() or 1)
    with progress_bar(shown=progress, total=len(items) + done, initial=done, unit=unit) as bar:
        for item, result in zip(items, _results(job, items, size), strict=True):
            yield item, result
            bar.update()


def _results(job: Callable[[Item], Result], items: Sequence[Item], size: int) -> Iterator[Result]:
    if size <= 1:
        return (job(item) for item in items)
    from joblib import Parallel, delayed

    # loky pickles functions by value, so models from a notebook work too.
    jobs = (delayed(_elsewhere)(job, item, torch.get_default_dtype()) for item in items)
    found: Iterator[Result] = Parallel(n_jobs=size, backend="loky", return_as="generator")(jobs)
    return found


def _elsewhere(job: Callable[[Any], Any], item: Any, dtype: torch.dtype) -> Any:
    torch.set_default_dtype(dtype)  # another process has its own
    torch.set_num_threads(1)
    return job(item)
