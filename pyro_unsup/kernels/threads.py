"""Kernels on several cores: shards of the data, one thread each, added up in a fixed order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import numpy as np
import torch

#: Below this many tokens a second thread costs more than it saves.
TOKENS_A_THREAD = 16_384
#: So many numbers of a table, each copied, multiplied or turned into a log, take the time of a token.
NUMBERS_A_TOKEN = 32

_Shard = TypeVar("_Shard")
_Result = TypeVar("_Result")


def even_cuts(sizes: np.ndarray, shards: int) -> np.ndarray:  # (n,) -> (shards + 1,)
    """Cut a sequence of items into runs of about the same total size.

    >>> import numpy as np
    >>> from pyro_unsup.kernels.threads import even_cuts
    >>> even_cuts(np.array([5, 1, 1, 1, 1, 1]), 2).tolist()
    [0, 1, 6]
    """
    ends = np.cumsum(sizes)
    targets = ends[-1] * np.arange(1, shards) / shards
    return np.concatenate([[0], np.searchsorted(ends, targets) + 1, [len(sizes)]]).astype(np.int64)


_given: ContextVar[int | None] = ContextVar("threads that torch had", default=None)


def threads_for(tokens: int) -> int:
    """How many threads suit this much work; never more than torch has been given."""
    return max(1, min(_given.get() or torch.get_num_threads(), tokens // TOKENS_A_THREAD))


def plain_torch() -> AbstractContextManager[None]:
    """Let torch work on one thread: for operations on tables, too small to gain from more.

    On a busy machine they would lose much: a parallel region ends when its last thread has had its turn. Kernels keep
    their threads, which do not wait for each other.
    """
    threads = torch.get_num_threads()
    return nullcontext() if threads == 1 else _on_one_thread(threads)


@contextmanager
def _on_one_thread(threads: int) -> Iterator[None]:
    token = _given.set(_given.get() or threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _given.reset(token)


def map_threads(work: Callable[[_Shard], _Result], shards: Sequence[_Shard]) -> list[_Result]:
    """Run kernels that release the GIL side by side; results in the order of the shards."""
    with one_blas_thread():
        if len(shards) == 1 or getattr(_here, "helps", False):
            return [work(shard) for shard in shards]
        others = [_helpers(os.getpid()).submit(work, shard) for shard in shards[1:]]
        try:
            return [work(shards[0]), *(other.result() for other in others)]
        finally:  # nobody may write into arrays any more when this is left, be it by Ctrl-C
            wait(others)


_here = threading.local()


@cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Threads that wait for work: to start one takes longer than most passes over small data. A process that was
    forked has none of its parent's, so it gets its own."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "pyro_unsup", initializer=_helps)


def _helps() -> None:
    _here.helps = True  # a thread of the pool must not wait for others of it: there might be none left


@cache
def _blas_controller():  # type: ignore[no-untyped-def]
    import scipy.linalg.cython_blas  # noqa: F401 (the library that compiled kernels call must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread.

    Inside shards its threads would fight for the same cores. And for a sum over some thousand numbers, on a busy
    machine, to wait for a second thread takes up to a hundred times as long as the sum.
    """
    with _blas_controller().limit(limits=1):
        yield


def in_parts(work: Callable[[int, int], object], size: int, tokens: int | None = None) -> None:
    """Go through so many items, from the first to the last of each part.

    :param tokens: how much work there is; if it is not given, items are numbers of a table.
    """
    threads = threads_for(size // NUMBERS_A_TOKEN if tokens is None else tokens)
    cuts = [size * i // threads for i in range(threads + 1)]
    on_threads(lambda thread: work(cuts[thread], cuts[thread + 1]), threads)


def on_threads(work: Callable[[int], object], threads: int) -> None:
    """Call it once a thread."""
    if threads == 1:  # small data come often: no detour
        work(0)
    else:
        map_threads(work, range(threads))
