"""``--symmetric``: what the library gives, through breaks, and what it does not go with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_bitext

from .conftest import Run


@pytest.mark.parametrize("kind", ["model1", "hmm"])
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, zoo: Path, run: Run, stop_at: Callable[..., None], kind: str
) -> None:
    options = ("--model", kind, "--agreement", "none", "--symmetric", "--max-iterations", 3)
    fit = ("fit", "aligner", zoo / "pairs.txt", *options, "--out", tmp_path / "m")
    stop_at(0, 1)
    assert run(*fit).exit_code == 130
    stop_at(None)
    result = run(*fit, "--resume")
    assert result.exit_code == 0, result.stderr
    found = pu.load(tmp_path / "m")
    text = read_bitext(zoo / "pairs.txt")
    model: Any = pu.models.Aligner.of(text, agreement=None)
    start = pu.init.uniform()
    if kind == "hmm":
        before = pu.EM(model, init=start)
        state = before.init(text)
        for _ in range(5):
            state, _ = before.step(state)
        model = pu.models.HMMAligner.of(text, agreement=None)
        start = model.start_from(state.weights)
    tied = pu.regularise(model, pu.components.symmetric())
    wanted = pu.EM(tied, init=start).run(text, iterations=3, tolerance=1e-6, progress=False)
    assert all(torch.equal(found.weights[name], w) for name, w in wanted.weights.items())
    shown = run("show", tmp_path / "m").stdout
    assert "regularise(symmetric(tolerance=0.001))" in shown
    predicted = run("predict", tmp_path / "m", zoo / "pairs.txt").stdout
    free = run("predict", tmp_path / "m", zoo / "pairs.txt", "--without-preferences").stdout
    assert predicted.count("-") > 10
    assert predicted != free
    scored = run("evaluate", tmp_path / "m", zoo / "pairs.txt", "--gold", zoo / "links.wa", "--json").stdout
    assert '"aer"' in scored


def test_what_it_does_not_go_with(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "aligner", zoo / "pairs.txt", "--out", tmp_path / "m", "--symmetric")
    none = (*fit, "--agreement", "none")
    for arguments, what in (
        (
            fit,
            "--symmetric and --agreement product are two ways to learn from each other; add --agreement none",
        ),
        ((*none, "--viterbi"), "--symmetric and --viterbi do not go together; leave one of them out"),
        (
            (*none, "--constraint", "near-diagonal=0.2"),
            "--symmetric and --constraint do not go together; leave one of them out",
        ),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (2, f"error: {what}\n")
    result = run(*none, "--null", 0)
    assert result.exit_code == 2
    assert "an aligner with null=0 must link every word of both sentences" in result.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "more", [("--stepwise",), ("--anneal", "--agreement", "2008"), ("--vb", 0.1), ("--prefer", "near-diagonal=0.2")]
)
def test_other_ways_to_learn(tmp_path: Path, zoo: Path, run: Run, more: tuple[object, ...]) -> None:
    agreement = () if "--agreement" in more else ("--agreement", "none")
    fit = ("fit", "aligner", zoo / "pairs.txt", "--symmetric", *agreement, *more, "--max-iterations", 3)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    tied = pu.load(tmp_path / "m").unhandled().preferences
    assert type(tied[0]).__name__ == "TieMessenger"
