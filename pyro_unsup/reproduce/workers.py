"""Processes that do one piece of work after another, each on one thread."""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from ..errors import UnsupError

PATIENCE = 3  # seconds that a process has to end by itself

Submit = Callable[..., "Future[Any]"]


class Killed(UnsupError):
    """A process has ended while it worked."""


@contextmanager
def workers(processes: int) -> Iterator[Submit]:
    """A function that starts work with these arguments, and returns a future of its result.

    With one process the work is done here, and at once. Others are ended when the block ends, whatever they do.
    """
    if processes <= 1:
        yield _at_once
        return
    idle: SimpleQueue[_Worker] = SimpleQueue()
    every = [_Worker() for _ in range(processes)]
    for worker in every:
        idle.put(worker)

    def delegate(work: Callable[..., Any], *args: Any) -> Any:
        worker = idle.get()
        try:
            return worker.call(work, *args)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(processes)
    try:
        yield lambda *work: pool.submit(delegate, *work)
    finally:
        for worker in every:
            worker.end()
        pool.shutdown()


def _at_once(work: Callable[..., Any], *args: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(work(*args))
    return future


class _Worker:
    """A process at the other end of a pipe. If either is killed, the other one sees the pipe end."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        import cloudpickle

        try:
            self._pipe.send_bytes(cloudpickle.dumps((work, args)))
            return pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._process.join()
            raise Killed(f"a process ended with exit code {self._process.exitcode} while it worked") from None

    def end(self) -> None:
        """Ask it to end, so that it tidies up; what does not listen is killed."""
        self._pipe.close()
        self._process.terminate()
        self._process.join(PATIENCE)
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which then ends this one
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    with threadpool_limits(1), suppress(EOFError, OSError):
        while True:
            work, args = pickle.loads(pipe.recv_bytes())
            pipe.send_bytes(pickle.dumps(work(*args)))
