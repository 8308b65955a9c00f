"""Training that may be interrupted: checkpoints beside the output, and how a run resumes from them."""

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
import torch

from ..data.mapped import in_blocks
from ..data.opening import read_plain
from ..errors import InputError
from ..handlers import UnknownLabel
from ..infer import SameRestarts, UnfinishedSchedule
from ..kernels.threads import threads_for
from ..results import Fit, Reason
from ..results.record_folder import write_whole
from .board import Board, board_of
from .common import done
from .together import rank_and_size

if TYPE_CHECKING:
    from ..infer.engine import Engine
    from ..infer.loop import Info

RUN, KIND = "run.json", "pyro_unsup run"
MAX_RUN = 1 << 24  # bytes of the record of a run
#: What a run that was killed may leave without a record.
_LEFT = re.compile(r"(seed|chain)-[0-9]+(-probed)?|\.run\.json\.[0-9a-f]{12}")


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
            raise InputError("exists, but is not a checkpoint folder; move it, or choose another --out", folder)
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


@dataclass(frozen=True)
class _OnBoard:
    """Notes every restart on a board, and stops all of them when the board says so.

    :param owner: the process that Ctrl-C is meant for.
    """

    board: Board
    owner: int

    def begins(self, restart: int) -> bool:
        if os.getpid() != self.owner:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the board tells when to stop
        return not self.board.stopped

    def goes_on(self, restart: int, info: Info) -> bool:
        return not self.board.note(restart, info)

    def ends(self, restart: int, fit: Fit) -> None:
        if fit.report.reason != Reason.CHECKPOINT:
            self.board.finish(restart)


def train(
    engine: Engine,
    data: Any,
    tokens: int,
    checkpoint: Checkpoint,
    *,
    iterations: int,
    tolerance: float,
    restarts: int,
    probe: int | None,
    processes: int | None,
    seed: int,
) -> Fit:
    """Train with progress on the terminal. Ctrl-C stops after the iteration that is running, a second one at once.

    :raises Interrupted: when stopped, with everything kept in the checkpoint folder.
    """
    alone = restarts == 1
    probes = probe is not None and probe < iterations  # then the best of them goes on, as one more start on the board
    with board_of(restarts + probes, iterations) as board, stopping(board.stop), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfinishedSchedule)  # after Ctrl-C; else it is said at the end
        warnings.simplefilter("ignore", UnknownLabel)  # said when the options were read
        warnings.simplefilter("ignore", SameRestarts)  # said at the end
        try:
            with _threads(threads_for(tokens)) if alone else _no_workers_left():
                fit = engine.run(
                    data,
                    iterations=iterations,
                    tolerance=tolerance,
                    restarts=restarts,
                    probe=probe,
                    processes=processes,
                    seed=seed,
                    progress=False,
                    checkpoint=checkpoint.folder / f"seed-{seed}" if alone else checkpoint.folder,
                    resume=True,
                    monitor=_OnBoard(board, os.getpid()),
                )
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
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _no_workers_left() -> Iterator[None]:
    """End the processes that restarts ran in. Otherwise they would wait for more work and delay the exit."""
    from joblib.externals.loky import get_reusable_executor  # joblib is slow to import, and one start does without

    try:
        yield
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)


@contextmanager
def finishing() -> Iterator[None]:
    """The work is done, and its result is written and told: one Ctrl-C is not enough to lose it now."""
    with stopping(lambda: None):
        yield
        done.set(True)


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
