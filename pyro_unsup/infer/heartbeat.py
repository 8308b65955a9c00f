"""Noticing in time that another machine is gone: processes tell each other, every few seconds, that they are alive.

A process that ends closes its connections, so the others notice at once. A machine that is cut off closes nothing: an
exchange with it would wait until the patience of its group ends, which has to be long, because E steps may be.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist

#: Seconds between two signs of life; after so many without one, a process is taken for lost.
BEAT, SILENCE = 2.0, 30.0
#: How long an exchange waits before it looks for silent processes.
LOOK = 1.0

#: By group, which must be free to end: its heartbeat, None if it has none.
_started: WeakKeyDictionary[Any, Heartbeat | None] = WeakKeyDictionary()


class Silent(RuntimeError):
    """Other processes have given no sign of life for too long."""


class Heartbeat:
    """Signs of life of all processes of a group, by a store of their own.

    :param store: a ``torch.distributed.Store`` that all of them reach. Only the thread of this object uses it.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank = store, rank
        self._others = [k for k in range(size) if k != rank]
        self._heard = dict.fromkeys(self._others, time.monotonic())
        self._last: dict[int, bytes] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="pyro-unsup-heartbeat").start()

    def lost(self) -> list[int]:
        """The processes that have been silent for too long."""
        now = time.monotonic()
        return [k for k in self._others if now - self._heard[k] > SILENCE]

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        beats = 0
        with suppress(RuntimeError):  # a store that cannot be reached is silence, too
            while not self._ended.is_set():
                beats += 1
                self._store.set(str(self._rank), str(beats))
                said = self._store.multi_get([str(k) for k in self._others])
                for k, one in zip(self._others, said, strict=True):
                    if one != self._last.get(k):
                        self._last[k], self._heard[k] = one, time.monotonic()
                self._ended.wait(BEAT)


def over_machines() -> bool:
    """Whether torchrun has started this group on several machines."""
    told = [os.environ.get(name, "") for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE")]
    return "MASTER_ADDR" in os.environ and all(one.isdecimal() for one in told) and int(told[0]) < int(told[1])


def exchanged(work: Callable[[], Any]) -> None:
    """Do an exchange with all other processes.

    Where they are on several machines, this raises :class:`Silent` if one of them has been silent for too long.
    """
    beating = _heartbeat() if over_machines() else None
    if beating is None:
        work()
        return
    done, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    # An exchange with a machine that is gone does not end. Then its thread is left behind.
    threading.Thread(target=run, daemon=True).start()
    while not done.wait(LOOK):
        if lost := beating.lost():
            names = " and ".join(map(str, lost))
            raise Silent(f"no sign of life from process {names} for {SILENCE:g} seconds")
    if failed:
        raise failed[0]


def _heartbeat() -> Heartbeat | None:
    """That of the present group. All of its processes must come here together the first time."""
    world = dist.group.WORLD
    if world not in _started:
        _started[world] = _meet(dist.get_rank(), dist.get_world_size())
    return _started[world]


def _meet(rank: int, size: int) -> Heartbeat | None:
    """Meet at a store of the first process; without one, if some process cannot reach it."""
    host, wait = os.environ["MASTER_ADDR"], timedelta(seconds=SILENCE)
    store: Any | None = None
    port: list[Any] = [None]
    if rank == 0:
        with suppress(RuntimeError):
            store = _store(host, 0, is_master=True, timeout=wait, wait_for_workers=False)
            port = [store.port]
    dist.broadcast_object_list(port)
    if rank > 0 and port[0] is not None:
        with suppress(RuntimeError):
            store = _store(host, port[0], is_master=False, timeout=wait, wait_for_workers=False)
    reached: list[Any] = [None] * size
    dist.all_gather_object(reached, store is not None)
    return Heartbeat(store, rank, size) if store is not None and all(reached) else None


def _store(*where: Any, **how: Any) -> Any:
    return dist.TCPStore(*where, **how)  # type: ignore[attr-defined]  # torch exports it, but its types do not say so


def ended() -> None:
    """The present group ends."""
    if (beating := _started.pop(dist.group.WORLD, None)) is not None:
        beating.end()
