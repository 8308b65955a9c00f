"""A command that torchrun has started in several processes: all work, the first one talks and writes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from ..errors import InputError, UnsupError

SHARED = ("fit",)  # the commands whose work can be shared


def rank_and_size() -> tuple[int, int]:
    """Which of how many processes torchrun has made this one; (0, 1) if it has not."""
    told = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if "MASTER_ADDR" not in os.environ or not all(one.isdecimal() for one in told):
        return 0, 1
    return int(told[0]), int(told[1])


@contextmanager
def together(command: str | None, words: Sequence[str]) -> Iterator[None]:
    """Run a command as one of the processes of torchrun, if this is one.

    :param words: what follows the command.
    """
    rank, size = rank_and_size()
    if size == 1:
        yield
        return
    if command not in SHARED:
        raise UnsupError(f"{command} runs in one process: start it without torchrun; {', '.join(SHARED)} can be shared")
    if "-" in words:
        raise InputError("standard input cannot be read by several processes; give a file", "-")
    from ..infer.processes import group

    signal.signal(signal.SIGTERM, _end)
    with group(rank, size, "env://"), open(os.devnull, "w", encoding="utf-8") as nowhere:
        if rank == 0:
            yield
        else:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield


def _end(number: int, frame: Any) -> None:
    """What torchrun tells the others when it has lost a process: time for a last checkpoint."""
    from ..infer.processes import LostProcess

    if isinstance(sys.exception(), LostProcess):
        return  # it has noticed by itself, and may be writing that checkpoint now
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise LostProcess(
        "torchrun ends this process, for another one was ended or failed. What was reached is in the last checkpoint, "
        "if there was time for one: the same command with --resume goes on from it"
    )
