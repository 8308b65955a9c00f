"""Memory comes back when the last view of it is gone, and not before."""

from __future__ import annotations

import gc

import numpy as np
import torch

from pyro_unsup.kernels import room as module
from pyro_unsup.kernels.room import LARGE, WAITING, room

SIZE = LARGE // 4


def test_memory_is_used_again() -> None:
    one = room(SIZE)
    place = one.ctypes.data
    del one
    assert room(SIZE).ctypes.data == place
    assert room(SIZE - 7, np.int64).ctypes.data == place  # about the same size will do


def test_not_while_a_view_is_left() -> None:
    one = room(2 * SIZE)
    one[:] = 1.0
    views = [one[5:10], torch.from_numpy(one)[7:9], one.reshape(2, SIZE)[1]]
    del one
    gc.collect()
    while views:
        other = room(2 * SIZE)
        other[:] = 2.0
        assert all(bool((view == 1).all()) for view in views)
        views.pop()
        del other


def test_views_of_different_sizes_have_places_of_their_own() -> None:
    many = [room(SIZE * k) for k in (1, 1, 3, 3, 1)]
    for k, x in enumerate(many):
        x[:] = k
    assert [set(x.tolist()) for x in many] == [{float(k)} for k in range(5)]


def test_little_waits_and_small_arrays_do_not() -> None:
    many = [room(SIZE) for _ in range(2 * WAITING)]
    del many
    assert len(module._waiting) <= WAITING
    assert room(10).base is None
