"""A run of training that may be interrupted: checkpoints beside the output, and going on from them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.mapped import in_blocks
from ..data.opening import read_plain
from ..errors import InputError
from ..results import Fit, Reason, Report, load
from ..results.record_folder import write_whole
from .board import Board, board_of
from .together import rank_and_size

if TYPE_CHECKING:
    from ..infer.engine import Engine

RUN, KIND = "run.json", "pyro_unsup run"
MAX_RUN = 1 << 24  # bytes of the record of a run
#: What a run that was killed may leave without a record.
_LEFT = re.compile(r"(seed|chain)-[0-9]+|\.run\.json\.[0-9a-f]{12}")


class Interrupted(Exception):
    """Training was stopped on request.

    :param needed: to go on, besides the same command with ``--resume``.
    """

    def __init__(self, needed: str = "") -> None:
        self.needed = needed
        super().__init__("interrupted")


@dataclass(frozen=True)
class Checkpoint:
    """The folder beside the output in which a run keeps what it has reached: one fit a restart, and what the run is.

    :param folder: the folder.
    :param settings: what must be the same for the run to go on: readable values by option, and checksums.
    """

    folder: Path
    settings: Mapping[str, Any]

    @staticmethod
    def beside(out: Path) -> Path:
        return out.with_name(out.name + ".checkpoint")

    @staticmethod
    def may_start(folder: Path, resume: bool, overwrite: bool) -> None:
        """Refuse to throw an interrupted run away, and to touch a folder that is something else."""
        if not os.path.lexists(folder):
            return
        if folder.is_dir() and all(_LEFT.fullmatch(name) for name in os.listdir(folder)):
            return  # a run that was killed while it began, or when it was all but over
        if not (folder / RUN).is_file():
            raise InputError(
                "is in the way of the checkpoints, and is not one; move it, or choose another --out", folder
            )
        if not (resume or overwrite):
            raise InputError("holds an interrupted run; go on with --resume, or start anew with --overwrite", folder)

    def open(self, resume: bool) -> bool:
        """Make the folder, or check that the run in it is this one. True if there is something to go on from."""
        if self.folder.exists():
            if resume and os.path.lexists(self.folder / RUN):
                self._check()
                return True
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        record = {"kind": KIND, "settings": dict(self.settings)}
        try:
            write_whole(self.folder / RUN, (json.dumps(record, indent=1) + "\n").encode())
        except BaseException:
            self.remove()
            raise
        return False

    def _check(self) -> None:
        file = self.folder / RUN
        try:
            record = json.loads(read_plain(file, MAX_RUN))
            before = record["settings"] if record["kind"] == KIND else None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file) from error
        except (ValueError, TypeError, LookupError, RecursionError):
            before = None
        if not isinstance(before, dict):
            raise InputError("not the record of a run; start anew with --overwrite", file)
        for name, now in self.settings.items():
            then = before.get(name)
            if then != now:
                what = f"{name} {then!r:.40}, not {now!r:.40}" if name.startswith("--") else f"another {name}"
                raise InputError(f"is of a run with {what}; give the same again, or start anew with --overwrite",
                                 self.folder)  # fmt: skip

    @property
    def reached(self) -> bool:
        """Whether any restart has been kept."""
        return any(self.folder.glob("seed-*/fit.json"))

    def remove(self) -> None:
        if rank_and_size()[0] == 0:
            shutil.rmtree(self.folder, ignore_errors=True)


def digest(*parts: Any) -> str:
    """A checksum of some arrays, and of vocabularies and other lists of strings."""
    found = hashlib.sha256()
    for part in parts:
        array = part if isinstance(part, np.ndarray) else np.frombuffer("\n".join(part).encode(), np.uint8)
        found.update(array.nbytes.to_bytes(8, "little"))
        for block in in_blocks(array):
            found.update(block)
    return found.hexdigest()[:16]


@dataclass
class _Restart:
    """An engine that goes on from its own checkpoint if there is one, notes where it is, and stops when told to."""

    engine: Engine
    board: Board
    first_seed: int
    order_seed: int | None
    owner: int

    @property
    def model(self) -> Any:
        return self.engine.model

    def run(self, data: Any, *, seed: int, checkpoint: Path, iterations: int, tolerance: float, **_: Any) -> Fit:
        from ..infer.processes import by_first

        restart = seed - self.first_seed
        if os.getpid() != self.owner:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the board tells when to stop
        if self.board.stopped:
            nothing = Report(Reason.NOT_STARTED, 0, -float("inf"), float("inf"), tolerance, 0.0, seed)
            return Fit(self.model, {}, nothing, [], seed)
        old = load(checkpoint, self.model) if (checkpoint / "fit.json").is_file() else None
        fit = old
        if old is None or not _is_over(old, iterations, tolerance):
            ordered = hasattr(self.engine, "order_seed")
            order: dict[str, Any] = (
                {"order_seed": seed if self.order_seed is None else self.order_seed} if ordered else {}
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "annealing ended at")  # by Ctrl-C, or else it is said at the end
                fit = self.engine.run(
                    data,
                    iterations=iterations,
                    tolerance=tolerance,
                    seed=seed,
                    progress=False,
                    checkpoint=checkpoint,
                    resume=old,
                    callbacks=[lambda info: self.board.note(restart, info)],
                    **order,
                )
        assert fit is not None
        if fit.report.reason is Reason.STOPPED:
            fit.report.reason = Reason.CHECKPOINT
        else:
            self.board.finish(restart)
        reached = fit
        by_first(lambda: reached.save(checkpoint, overwrite=True))
        return fit


def _is_over(fit: Fit, iterations: int, tolerance: float) -> bool:
    same = (fit.config.get("iterations"), fit.config.get("tolerance")) == (iterations, tolerance)
    return same and fit.report.reason is not Reason.CHECKPOINT


def train(
    engine: Engine,
    data: Any,
    tokens: int,
    checkpoint: Checkpoint,
    *,
    iterations: int,
    tolerance: float,
    restarts: int,
    processes: int | None,
    seed: int,
    order_seed: int | None = None,
) -> Fit:
    """Train with progress on the terminal. Ctrl-C stops after the iteration that is running, a second one at once.

    :raises Interrupted: when stopped, with everything kept in the checkpoint folder.
    """
    from ..infer.restarts import best_of
    from ..kernels.threads import threads_for

    settings: dict[str, Any] = {"iterations": iterations, "tolerance": tolerance}
    with board_of(restarts, iterations) as board, stopping(board.stop):
        one = _Restart(engine, board, seed, order_seed, os.getpid())
        try:
            if restarts == 1:
                with _threads(threads_for(tokens)):
                    fit = one.run(data, seed=seed, checkpoint=checkpoint.folder / f"seed-{seed}", **settings)
            else:
                processes = processes if rank_and_size()[1] == 1 else 1  # all of them share each restart
                with _no_workers_left():
                    fit = best_of(one, restarts, processes, seed, False, checkpoint.folder, settings, (data,), {})
        except KeyboardInterrupt:
            raise Interrupted from None
        except Exception:
            if board.stopped:  # an interrupt may catch processes while they are starting
                raise Interrupted from None
            raise
        if not board.finished:
            raise Interrupted
    return fit


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """For a small text, threads cost more than they bring."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _no_workers_left() -> Iterator[None]:
    """End the processes that restarts ran in; by themselves they would wait for more, and hold up the exit."""
    from joblib.externals.loky import get_reusable_executor

    try:
        yield
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C ask for a stop; a second one then does what it always does."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
