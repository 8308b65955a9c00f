"""Several processes that work on one run, under ``torch.distributed``: what they tell each other.

All make the same steps on the same numbers; only the data are divided. Whatever is decided is decided by numbers that
all have, so that no process waits for one that has gone another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import FitError
from .heartbeat import ended, exchanged
from .shared_memory import shared_sum

#: Seconds after which a process that says nothing is taken for lost. (One that ends is noticed at once.)
PATIENCE = 600.0

_Result = TypeVar("_Result")


class LostProcess(FitError):
    """Another process of the run is gone, so this one cannot go on.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.infer.LostProcess, pu.FitError)
    True
    """


def rank_and_size() -> tuple[int, int]:
    """Which of how many processes this is; (0, 1) for one on its own.

    >>> from pyro_unsup.infer.processes import rank_and_size
    >>> rank_and_size()
    (0, 1)
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def add_up(numbers: Tensor) -> None:
    """Replace numbers by the sums over all processes, which are the same in all of them, bit for bit."""
    if rank_and_size()[1] == 1:
        return
    with _noticing():
        exchanged(lambda: _add_up(numbers))


def _add_up(numbers: Tensor) -> None:
    if shared := shared_sum(numbers):
        shared.add_up(numbers)
        return
    moved = numbers.to(_device())
    dist.all_reduce(moved)
    if moved is not numbers:
        numbers.copy_(moved)


def gathered(value: Any) -> list[Any]:
    """What each process has, by its number."""
    size = rank_and_size()[1]
    if size == 1:
        return [value]
    found: list[Any] = [None] * size
    with _noticing():
        exchanged(lambda: dist.all_gather_object(found, value))
    return found


def fail_together(failure: Exception | None) -> None:
    """Raise the error of this process, or else that of another process. Every process must call this."""
    said = gathered(None if failure is None else " ".join(str(failure).split()))
    if failure is not None:
        raise failure
    for rank, one in enumerate(said):
        if one is not None:
            raise FitError(f"process {rank}: {one}")


@contextmanager
def failing_together() -> Iterator[None]:
    """Let the block fail in all processes if it fails in one, so that the others do not wait for it."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    fail_together(failure)


def any_of(answers: Sequence[object]) -> bool:
    """Whether any process has a true answer."""
    found = torch.tensor([float(any(answers))], dtype=torch.float64)
    add_up(found)
    return bool(found[0])


def by_first(work: Callable[[], _Result]) -> _Result:
    """What the first process gets by some work that only one should do, such as making a folder.

    It begins when all processes have come here. If it fails, it fails for all of them.
    """
    rank, size = rank_and_size()
    if size == 1:
        return work()
    gathered(None)
    found: _Result | None = None
    with failing_together():
        if rank == 0:
            found = work()
    return gathered(found)[0]  # type: ignore[no-any-return]


@contextmanager
def group(rank: int, size: int, meeting: str, patience: float = PATIENCE) -> Iterator[None]:
    """Be one of several processes on CPUs, until the block ends.

    Tables and kernels are on the CPU, and so is the exchange (gloo). Groups that others have made, with nccl too, do as
    well: sums then go by way of the current GPU.

    :param meeting: where they meet: ``env://`` as torchrun says, or a file that none of them has used before.
    :param patience: seconds that one may keep the others waiting.
    """
    with _noticing():
        dist.init_process_group(
            "gloo", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=patience)
        )
    try:
        yield
    except LostProcess:
        raise  # its exchanges may never end, and would be waited for
    except BaseException:
        _end_group()
        raise
    else:
        _end_group()


def _end_group() -> None:
    ended()
    dist.destroy_process_group()


def _device() -> torch.device:
    """Where the processes exchange tensors: on the CPU, unless they have nothing for it."""
    for_cpu = "cpu:" in dist.get_backend_config()
    return torch.device("cpu") if for_cpu else torch.device("cuda", torch.cuda.current_device())


@contextmanager
def _noticing() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # all errors of torch.distributed are
        rank, size = rank_and_size()
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LostProcess(
            f"process {rank} of {size} has lost another one, which was ended, failed or hangs ({said:.120}). What was "
            "reached is in the last checkpoint, if there was time for one: start all processes again, with resume, and "
            "they go on from it"
        ) from error
