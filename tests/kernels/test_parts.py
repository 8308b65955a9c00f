"""Every item is in one part, however many threads there are."""

from __future__ import annotations

import pytest
import torch

from pyro_unsup.kernels.threads import in_parts


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 100, 200])
def test_parts_cover_everything_once(size: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.kernels.threads.TOKENS_A_THREAD", 1)
    torch.set_num_threads(threads)
    try:
        seen: list[int] = []
        in_parts(lambda a, b: seen.extend(range(a, b)), size)
        assert sorted(seen) == list(range(size))
        parts: list[int] = []
        in_parts(lambda a, b: parts.append(b - a), size, tokens=1)
        assert parts == [size]  # too little to do for a second thread
    finally:
        torch.set_num_threads(1)
