"""Threads that wait for work: order, errors, threads inside threads, forked processes, and how many there are."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import pytest

from pyro_unsup.kernels.threads import map_threads


def test_results_come_in_order() -> None:
    assert map_threads(lambda k: (time.sleep(0.002 * (5 - k)), k)[1], range(5)) == [0, 1, 2, 3, 4]


def test_an_error_waits_for_the_others() -> None:
    ended: list[int] = []

    def work(k: int) -> None:
        if k == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        ended.append(k)

    with pytest.raises(KeyboardInterrupt):
        map_threads(work, range(3))
    assert sorted(ended) == [1, 2]  # nobody writes any more

    def fails(k: int) -> int:
        if k == 2:
            raise ValueError("no")
        return k

    with pytest.raises(ValueError, match="no"):
        map_threads(fails, range(4))


def test_threads_inside_threads() -> None:
    """More of them than there are cores, all of which wait for some of their own."""
    many = 3 * (os.cpu_count() or 1)
    found = map_threads(lambda k: sum(map_threads(lambda j: j * k, range(many))), range(many))
    assert found == [k * many * (many - 1) // 2 for k in range(many)]


def test_there_are_no_more_than_cores() -> None:
    for _ in range(100):
        map_threads(lambda k: k, range(20))
    own = [one for one in threading.enumerate() if one.name.startswith("pyro_unsup")]
    assert 0 < len(own) <= (os.cpu_count() or 1)


def _in_a_child(results: multiprocessing.Queue[list[int]]) -> None:
    results.put(map_threads(lambda k: k * k, range(4)))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # that is what is tested
def test_a_forked_process_has_threads_of_its_own() -> None:
    map_threads(lambda k: k, range(4))
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[list[int]] = context.Queue()
    child = context.Process(target=_in_a_child, args=(results,))
    child.start()
    assert results.get(timeout=30) == [0, 1, 4, 9]
    child.join(30)
    assert child.exitcode == 0
