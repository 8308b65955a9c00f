"""Sums through shared memory: the same as through sockets, with nothing left behind."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_unsup.infer import LostProcess, shared_memory
from pyro_unsup.infer.launch import launch
from pyro_unsup.infer.processes import add_up, gathered, rank_and_size

LARGE, SMALL = shared_memory.WORTH, 10


def folder() -> Path:
    return Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())


def litter() -> set[str]:
    return {path.name for path in folder().glob("pyro_unsup_*")}


def numbers(size: int, turn: int) -> torch.Tensor:
    """What one process has at a turn: another at every turn, so that nothing old can pass for new."""
    drawn = torch.Generator().manual_seed(100 * turn + rank_and_size()[0])
    return torch.randn(size, dtype=torch.float64, generator=drawn) * 10.0**turn


def turns(prepare: Any = None) -> tuple[list[float], bool, set[str]]:
    """Errors of several sums, whether all processes have the same bits, and what lies about meanwhile."""
    if prepare is not None:
        prepare()
    errors, same = [], True
    for turn in range(5):
        for size in (LARGE, SMALL, LARGE + 3):
            mine = numbers(size, turn)
            expected = sum(gathered(mine))
            add_up(mine)
            errors.append(float((mine - expected).abs().max() / 10.0**turn))
            same = same and all(torch.equal(mine, other) for other in gathered(mine))
    used = [one is not None for tried in shared_memory._tried.values() for one in tried.values()]
    assert used == [prepare is None] * 2, used
    return errors, same, litter()


def no_room() -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    os.posix_fallocate = full  # type: ignore[assignment]


def other_machine() -> None:
    """The second process finds a file of that name, but another."""
    mapped = shared_memory._mapped
    if rank_and_size()[0] == 1:
        shared_memory._mapped = lambda path, secret, nbytes: mapped(path, bytes(16), nbytes)


@pytest.mark.parametrize("prepare", [None, no_room, other_machine])
def test_sums_of_three_processes(prepare: Any) -> None:
    before = litter()
    errors, same, meanwhile = launch(lambda: turns(prepare), processes=3)
    assert max(errors) < 1e-13
    assert same
    assert meanwhile == before  # the file has no name any more as soon as all have it


def test_one_that_is_killed_is_noticed() -> None:
    def work() -> None:
        add_up(torch.zeros(LARGE, dtype=torch.float64))
        if rank_and_size()[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        add_up(torch.zeros(LARGE, dtype=torch.float64))

    before = litter()
    with pytest.raises(LostProcess, match="SIGKILL"):
        launch(work, processes=2)
    assert litter() == before


@pytest.mark.parametrize("which", [torch.zeros(SMALL), torch.zeros(LARGE), torch.zeros(2, LARGE, dtype=torch.float64)])
def test_what_is_not_worth_it_or_no_run_of_doubles_goes_the_usual_way(
    which: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory.dist, "get_backend", lambda: "gloo")
    assert shared_memory.shared_sum(which) is None
