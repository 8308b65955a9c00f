"""Learning from streams."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import FitError, StepwiseEM
from pyro_unsup.models import Tagger

from ..results.cases import assert_same
from .stepwise_cases import corpus


class Batch(list[list[int]]):
    """A list that can be watched."""


def stream(number: int, alive: list[int]) -> Iterator[Batch]:
    watched: list[weakref.ref[Batch]] = []
    for i in range(number):
        batch = Batch(corpus(3, seed=i))
        watched.append(weakref.ref(batch))
        yield batch
        del batch
        alive.append(sum(ref() is not None for ref in watched))


def test_a_stream_is_learned_from_without_being_kept() -> None:
    alive: list[int] = []
    fit = StepwiseEM(Tagger(2, 4)).run_stream(stream(40, alive), seed=1, progress=False)
    assert max(alive) <= 2
    assert [row["iteration"] for row in fit.rows] == [1, 2, 4, 8, 16, 32, 40]
    assert fit.report.reason == "end of the stream"
    stepped = StepwiseEM(Tagger(2, 4)).session(seed=1)
    losses = [stepped.step(corpus(3, seed=i)) for i in range(40)]
    assert all(torch.equal(fit.weights[name], w) for name, w in stepped.weights.items())
    assert fit.rows[2]["log_likelihood"] == pytest.approx(-(losses[2] + losses[3]) / 2)
    assert fit.rows[-1]["log_likelihood"] == pytest.approx(-np.mean(losses[32:]))
    sizes = {name: x.numel() for name, x in stepped.result().state.items()}
    stepped.partial_fit(corpus(3, seed=41)).partial_fit(corpus(3, seed=42))
    assert {name: x.numel() for name, x in stepped.result().state.items()} == sizes
    assert stepped.state.updates == 42


def test_a_stream_can_be_gone_on_with(tmp_path: Path) -> None:
    whole = StepwiseEM(Tagger(2, 4)).run_stream(stream(20, []), progress=False)
    first = itertools.islice(stream(20, []), 11)
    StepwiseEM(Tagger(2, 4)).run_stream(first, progress=False, checkpoint=tmp_path / "kept")
    rest = itertools.islice(stream(20, []), 11, None)
    fit = StepwiseEM(Tagger(2, 4)).run_stream(rest, progress=False, resume=pu.load(tmp_path / "kept"))
    assert all(torch.equal(fit.weights[name], w) for name, w in whole.weights.items())
    assert [row["iteration"] for row in fit.rows] == [1, 2, 4, 8, 11, 16, 20]
    assert_same(pu.load(tmp_path / "kept"), pu.load(tmp_path / "kept"))


def test_an_interrupted_stream_has_a_checkpoint(tmp_path: Path) -> None:
    def broken() -> Iterator[Batch]:
        yield from itertools.islice(stream(20, []), 9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StepwiseEM(Tagger(2, 4)).run_stream(broken(), progress=False, checkpoint=tmp_path / "kept")
    kept = pu.load(tmp_path / "kept")
    assert (kept.report.reason, kept.report.iterations) == ("checkpoint", 8)
    rest = itertools.islice(stream(20, []), 8, None)
    fit = StepwiseEM(Tagger(2, 4)).run_stream(rest, progress=False, resume=kept)
    whole = StepwiseEM(Tagger(2, 4)).run_stream(stream(20, []), progress=False)
    assert all(torch.equal(fit.weights[name], w) for name, w in whole.weights.items())
    assert StepwiseEM(Tagger(2, 4)).run_stream([], progress=False, resume=kept) is kept


def test_a_callback_ends_a_stream_and_no_stream_is_an_error() -> None:
    fit = StepwiseEM(Tagger(2, 4)).run_stream(
        stream(20, []), progress=False, callbacks=[lambda info: info.iteration == 4]
    )
    assert (fit.report.reason, fit.report.iterations) == ("stopped by a callback", 4)
    with pytest.raises(FitError, match="the stream held no mini-batches: expected at least one"):
        StepwiseEM(Tagger(2, 4)).run_stream([], progress=False)
