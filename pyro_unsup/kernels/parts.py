"""Large arrays in as many parts as there are threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .threads import map_threads, threads_for


def in_parts(work: Callable[[int, int], object], size: int, tokens: int | None = None) -> None:
    """Go through so many items, from the first to the last of each part.

    :param tokens: how much work there is; one token an item if it is not given.
    """
    threads = threads_for(size if tokens is None else tokens)
    cuts = (size * np.arange(threads + 1) // threads).tolist()
    on_threads(lambda thread: work(cuts[thread], cuts[thread + 1]), threads)


def on_threads(work: Callable[[int], object], threads: int) -> None:
    """Call it once a thread."""
    if threads == 1:  # small data come often: no detour
        work(0)
    else:
        map_threads(work, range(threads))
