"""Signs of life: who is silent is lost, and nobody waits for it. tests/infer/test_machines.py has real machines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import torch.distributed as dist

from pyro_unsup.infer import heartbeat
from pyro_unsup.infer.heartbeat import Heartbeat, Silent, exchanged


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Heartbeat, Heartbeat]]:
    monkeypatch.setattr(heartbeat, "BEAT", 0.02)
    monkeypatch.setattr(heartbeat, "SILENCE", 0.5)
    monkeypatch.setattr(heartbeat, "LOOK", 0.02)
    wait = timedelta(seconds=20)
    first = dist.TCPStore("localhost", 0, is_master=True, timeout=wait, wait_for_workers=False)
    second = dist.TCPStore("localhost", first.port, is_master=False, timeout=wait, wait_for_workers=False)
    both = Heartbeat(first, 0, 2), Heartbeat(second, 1, 2)
    yield both
    for one in both:
        one.end()


def soon(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


def test_who_beats_is_not_lost_and_who_is_silent_is(pair: tuple[Heartbeat, Heartbeat]) -> None:
    one, other = pair
    time.sleep(1.0)  # twice the silence that is taken for a loss
    assert one.lost() == other.lost() == []
    other.end()
    assert soon(lambda: one.lost() == [1])
    assert other.lost() in ([], [0])  # it has stopped listening, too


def test_nobody_waits_for_a_process_that_is_silent(
    pair: tuple[Heartbeat, Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(heartbeat, "over_machines", lambda: True)
    monkeypatch.setattr(heartbeat, "_heartbeat", lambda: one)
    never = threading.Event()
    exchanged(lambda: time.sleep(1.0))  # long, but all are alive
    other.end()
    with pytest.raises(Silent, match=r"no sign of life from process 1 for 0\.5 seconds"):
        exchanged(never.wait)
    never.set()


def test_errors_of_an_exchange_are_raised(pair: tuple[Heartbeat, Heartbeat], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "over_machines", lambda: True)
    monkeypatch.setattr(heartbeat, "_heartbeat", lambda: pair[0])
    with pytest.raises(ZeroDivisionError):
        exchanged(lambda: 1 / 0)


@pytest.mark.parametrize(
    ("told", "several"),
    [
        ({"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "one"}, True),
        ({"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "one"}, False),
        ({"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4"}, False),
        ({"WORLD_SIZE": "4", "MASTER_ADDR": "one"}, False),
        ({}, False),
    ],
)
def test_over_machines(told: dict[str, str], several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert heartbeat.over_machines() is several
