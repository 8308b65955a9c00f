"""One process at a time in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def locked(folder: str | os.PathLike[str], wait: bool = True) -> Iterator[bool | None]:
    """Lock a folder against other processes that lock it. The lock ends with the process, also if it is killed.

    The answer tells whether this process has it now. Where the system does not lock folders (Windows, some network
    drives) nobody is kept out, and it is None.

    :param wait: for another that has the lock.
    """
    if not hasattr(os, "O_DIRECTORY"):
        yield None
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours: bool | None = True
        except BlockingIOError:
            ours = False
        except OSError:
            ours = None
        yield ours
    finally:
        os.close(handle)


@contextmanager
def undisturbed(folder: str | os.PathLike[str]) -> Iterator[None]:
    """The same for readers, who read all the same where they may not lock."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(locked(folder))
        yield
