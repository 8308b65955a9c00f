"""Sums in a group of GPUs (nccl), on a machine without any: what is sent to which device, and what comes back.

The group and the GPU are made up. Objects (:func:`.gathered`) travel by torch's own rule, which is the current GPU too.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from pyro_unsup.infer import LostProcess, processes, shared_memory


class OnTheCPU(torch.Tensor):
    """Numbers that tell where copies of them have gone."""

    went: list[torch.device]

    def to(self, device: torch.device) -> Tensor:  # type: ignore[override]
        self.went.append(device)
        return self if device.type == "cpu" else self.as_subclass(torch.Tensor).clone()


def numbers(n: int) -> OnTheCPU:
    found = torch.arange(n, dtype=torch.float64).as_subclass(OnTheCPU)
    found.went = []
    return found


@pytest.fixture
def reduced(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What the second of two processes, on the second GPU, gives to the group. All processes have the same numbers."""
    given: list[Tensor] = []

    def all_reduce(x: Tensor) -> None:
        given.append(x)
        x.mul_(2)

    monkeypatch.setattr(processes, "rank_and_size", lambda: (1, 2))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    return given


def backend(monkeypatch: pytest.MonkeyPatch, name: str, devices: str) -> None:
    monkeypatch.setattr(dist, "get_backend", lambda group=None: name)
    monkeypatch.setattr(dist, "get_backend_config", lambda group=None: devices)


@pytest.mark.parametrize("n", [3, shared_memory.WORTH])  # so many, gloo would add up in shared memory
def test_sums_go_by_the_current_gpu_and_come_back(
    n: int, reduced: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend(monkeypatch, "nccl", "cuda:nccl")
    x = numbers(n)
    processes.add_up(x)
    assert x.went == [torch.device("cuda", 1)]
    (sent,) = reduced
    assert sent is not x
    assert sent.dtype == torch.float64
    assert sent.is_contiguous()
    assert torch.equal(x.as_subclass(torch.Tensor), 2 * torch.arange(n, dtype=torch.float64))


def test_gloo_adds_up_in_place(reduced: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    backend(monkeypatch, "gloo", "cpu:gloo,cuda:gloo")
    x = numbers(3)
    processes.add_up(x)
    assert reduced[0] is x
    assert x.tolist() == [0, 2, 4]


def test_answers_and_failures_are_those_of_all(reduced: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    backend(monkeypatch, "nccl", "cuda:nccl")
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: self.clone())  # no GPU is there to go to
    assert processes.any_of([False, True])
    assert not processes.any_of([False])

    def gone(x: Any) -> None:
        raise RuntimeError("NCCL error: remote process exited")

    monkeypatch.setattr(dist, "all_reduce", gone)
    x = torch.ones(2, dtype=torch.float64)
    with pytest.raises(LostProcess, match=r"process 1 of 2 has lost another one, .* \(NCCL error: remote process exit"):
        processes.add_up(x)
    assert x.tolist() == [1, 1]
