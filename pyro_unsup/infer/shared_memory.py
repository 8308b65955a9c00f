"""Sums over processes that run side by side on one machine: through memory that they share.

A table of counts of some megabytes takes longer through a socket of one's own machine than the M step that it is for.
"""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

#: Numbers from which sharing memory pays, and up to which it is not too much to ask for.
WORTH, MOST = 1 << 13, 1 << 22

#: By group, which must be free to end, and by how many numbers it adds up: what it found, None if no shared memory.
_tried: WeakKeyDictionary[Any, dict[int, SharedSum | None]] = WeakKeyDictionary()


class SharedSum:
    """Room for the numbers of all processes, twice: a fast one may write the next while a slow one reads.

    :param room: (2, processes, numbers), seen by all of them.
    """

    def __init__(self, room: Tensor, rank: int) -> None:
        self._room, self._rank, self._turn = room, rank, 0

    def add_up(self, numbers: Tensor) -> None:  # (n,)
        """Replace numbers by the sums over all processes. All add in the same order, so they get the same bits."""
        room = self._room[self._turn]
        self._turn = 1 - self._turn
        room[self._rank].copy_(numbers)
        dist.all_reduce(torch.zeros(1))  # all have written
        torch.add(room[0], room[1], out=numbers)
        for more in room[2:]:
            numbers += more


def shared_sum(numbers: Tensor) -> SharedSum | None:
    """Where these numbers are to be added up, if that is memory: all processes of the group get the same answer."""
    n = numbers.numel()
    if not WORTH <= n <= MOST or numbers.dtype != torch.float64 or numbers.dim() != 1:
        return None
    if "cpu:gloo" not in dist.get_backend_config():
        return None
    tried = _tried.setdefault(dist.group.WORLD, {})
    if n not in tried:
        tried[n] = _meet(n)
    return tried[n]


def _meet(n: int) -> SharedSum | None:
    """Map one file in all processes, which is gone from its folder before anything is written to it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    nbytes, secret, path = 2 * size * n * 8, secrets.token_bytes(16), None
    if rank == 0:
        with suppress(OSError):
            path = _made(nbytes, secret)
    said: list[Any] = [path, secret]
    dist.broadcast_object_list(said)
    room = None
    with suppress(OSError, ValueError, TypeError):
        room = _mapped(said[0], said[1], nbytes)
    mapped = torch.tensor([0.0 if room is None else 1.0], dtype=torch.float64)
    dist.all_reduce(mapped, op=dist.ReduceOp.MIN)
    if path is not None:
        Path(path).unlink(missing_ok=True)
    return SharedSum(room.view(2, size, n), rank) if room is not None and bool(mapped) else None


def _made(nbytes: int, secret: bytes) -> str:
    """A file of this size that begins with a secret, in shared memory where the system has it."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    handle, path = tempfile.mkstemp(prefix="pyro_unsup_", dir=folder)
    try:
        os.posix_fallocate(handle, 0, nbytes)  # a full disk says so here, rather than by a signal when it is written to
        os.write(handle, secret)
    except (OSError, AttributeError) as error:
        os.unlink(path)
        raise OSError(str(error)) from error
    finally:
        os.close(handle)
    return path


def _mapped(path: str, secret: bytes, nbytes: int) -> Tensor:
    """The content of the file as numbers, if its secret is right: another machine may have a file of that name."""
    with open(path, "r+b") as file:
        room = mmap.mmap(file.fileno(), nbytes)
    if room[: len(secret)] != secret:
        raise ValueError("another file")
    return torch.from_numpy(np.frombuffer(room, np.float64))
