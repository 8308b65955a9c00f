"""Several processes on this machine for one run, started from a script or a notebook."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..errors import FitError
from .processes import PATIENCE, LostProcess, group

#: Seconds that the others have to say what has become of them, when one has ended.
LEAVE = 20.0
POLL = 0.02

_Result = TypeVar("_Result")


def launch(work: Callable[[], _Result], processes: int = 2, *, threads: int = 1, patience: float = PATIENCE) -> _Result:
    """Do some work in several processes at once, in which engines share their E steps.

    Every process does all of it, except that each looks at a share of the data (see :meth:`.Engine.run`).

    :param work: a function without arguments, such as a lambda around a run. It is sent with everything that it refers
        to, so it may come from a notebook. A large corpus is better opened inside (:meth:`.Corpus.open`) than sent.
    :param processes: how many.
    :param threads: of each process.
    :param patience: seconds after which a process that says nothing is taken for lost.
    :return: what the first process returns.

        >>> import pyro_unsup as pu
        >>> model, data = pu.models.Tagger(tags=2, vocab=2), [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> fit = pu.launch(lambda: pu.EM(model).run(data, iterations=3, progress=False), processes=1)
        >>> fit.report.iterations
        3
    """
    import cloudpickle

    for name, number in (("processes", processes), ("threads", threads)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise FitError(f"{name} must be a whole number, 1 or more, actual {number!r:.80}")
    if not isinstance(patience, int | float) or not patience > 0:
        raise FitError(f"patience must be a number of seconds, more than 0, actual {patience!r:.80}")
    with tempfile.TemporaryDirectory(prefix="pyro-unsup-") as name:
        folder = Path(name)
        order = (work, processes, threads, patience, torch.get_default_dtype())
        (folder / "work").write_bytes(cloudpickle.dumps(order))
        workers = [_started(folder, rank, threads) for rank in range(processes)]
        try:
            _wait(workers)
        except BaseException:
            for one in workers:
                one.send_signal(signal.SIGINT)  # so that the first keeps a checkpoint
            raise
        finally:
            _end(workers)
        return _result(folder, [one.returncode for one in workers])  # type: ignore[no-any-return]


def _started(folder: Path, rank: int, threads: int) -> subprocess.Popen[bytes]:
    # Only this process hears a Ctrl-C, and passes it on. The pipe tells workers when it is gone.
    code = f"from pyro_unsup.infer.launch import serve; serve({str(folder)!r}, {rank})"
    few = {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": _loopback()}
    path = os.pathsep.join(one or os.getcwd() for one in sys.path)  # what this process can import, they can
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        env={**os.environ, **few, "PYTHONPATH": path},
        start_new_session=True,
    )


def _loopback() -> str:
    """The interface by which a machine talks to itself."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def _wait(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Until all have ended; or one has badly, and the others have had time to notice."""
    deadline = float("inf")
    while any(one.poll() is None for one in workers) and time.monotonic() < deadline:
        if any(one.returncode for one in workers):
            deadline = min(deadline, time.monotonic() + LEAVE)
        time.sleep(POLL)


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + LEAVE
    try:
        for one in workers:
            one.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for one in workers:
            if one.poll() is None:
                one.kill()
            one.wait()
            assert one.stdin is not None
            one.stdin.close()


def _result(folder: Path, codes: Sequence[int]) -> Any:
    import cloudpickle

    found = {rank: cloudpickle.loads(file.read_bytes()) for rank, file in _written(folder, "error", len(codes))}
    own = [error for error in found.values() if not isinstance(error, LostProcess)]
    if own:
        raise own[0]
    for rank, code in enumerate(codes):
        if code and rank not in found:
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
            raise LostProcess(
                f"process {rank} of {len(codes)} was ended {how}, and the others with it. What was reached is in the "
                "last checkpoint, if there was time for one: launch again with resume, and it goes on from there"
            )
    if found:
        raise next(iter(found.values()))
    return cloudpickle.loads((folder / "result").read_bytes())


def _written(folder: Path, name: str, processes: int) -> list[tuple[int, Path]]:
    files = [(rank, folder / f"{name}-{rank}") for rank in range(processes)]
    return [(rank, file) for rank, file in files if file.exists()]


def serve(name: str, rank: int) -> None:
    """Be one of the processes: what runs in each of them."""
    import cloudpickle

    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(name)
    try:
        work, processes, threads, patience, dtype = cloudpickle.loads((folder / "work").read_bytes())
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        with group(rank, processes, f"file://{folder / 'meeting'}", patience):
            found = work()
            if rank == 0:
                _write(folder / "result", cloudpickle.dumps(found))
    except BaseException as error:
        _write(folder / f"error-{rank}", _packed(error))
        sys.exit(1)


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing comes but the end
    os._exit(1)


def _packed(error: BaseException) -> bytes:
    """An error, to travel; by its words alone if it cannot."""
    import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(packed)
    except Exception:
        packed = cloudpickle.dumps(FitError(f"{type(error).__name__}: {error}"))
    return packed


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_bytes(content)
    fresh.replace(path)
