"""``--one-to-one``: what the library gives, through breaks, and what it does not go with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_bitext

from .conftest import Run


@pytest.fixture(scope="module")
def pairs(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few pairs: every one is searched on its own."""
    file = tmp_path_factory.mktemp("few") / "pairs.txt"
    file.write_text("".join((zoo / "pairs.txt").read_text().splitlines(keepends=True)[:12]))
    return file


@pytest.mark.parametrize(("kind", "agreement"), [("model1", "none"), ("model1", "2008"), ("hmm", "none")])
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, pairs: Path, run: Run, stop_at: Callable[..., None], kind: str, agreement: str
) -> None:
    options = ("--model", kind, "--agreement", agreement, "--one-to-one", "--max-iterations", 3)
    fit = ("fit", "aligner", pairs, *options, "--out", tmp_path / "m")
    stop_at(0, 1)
    assert run(*fit).exit_code == 130
    stop_at(None)
    result = run(*fit, "--resume")
    assert result.exit_code == 0, result.stderr
    found = pu.load(tmp_path / "m")
    text = read_bitext(pairs)
    how = None if agreement == "none" else agreement
    model: Any = pu.models.Aligner.of(text, agreement=how)
    start = pu.init.uniform()
    if kind == "hmm":
        before = pu.EM(model, init=start)
        state = before.init(text)
        for _ in range(5):
            state, _ = before.step(state)
        model = pu.models.HMMAligner.of(text, agreement=how)
        start = model.start_from(state.weights)
    longest = int(max(text.source.lengths.max(), text.target.lengths.max()))
    places = [pu.components.links_into(k) for k in range(1, longest + 1)]
    bounded = pu.regularise(model, places, [1.0] * longest, each=True)
    wanted = pu.EM(bounded, init=start).run(text, iterations=3, tolerance=1e-6, progress=False)
    assert all(torch.equal(found.weights[name], w) for name, w in wanted.weights.items())
    assert all(float(x.max()) < 1.001 for x in bounded.expectations.values())
    free = run("fit", "aligner", pairs, *(x for x in options if x != "--one-to-one"), "--out", tmp_path / "free")
    assert free.exit_code == 0
    other = pu.load(tmp_path / "free").weights
    assert not all(torch.equal(found.weights[name], w) for name, w in other.items())
    shown = " ".join(run("show", tmp_path / "m").stdout.split())
    assert "one_to_one True" in shown
    predicted = run("predict", tmp_path / "m", pairs).stdout  # any text: decoding is free
    assert predicted == run("predict", tmp_path / "m", pairs, "--without-preferences").stdout
    assert predicted.count("-") > 10


def test_what_it_does_not_go_with(tmp_path: Path, zoo: Path, pairs: Path, run: Run) -> None:
    fit = ("fit", "aligner", pairs, "--out", tmp_path / "m", "--one-to-one")
    none = (*fit, "--agreement", "none")
    for arguments, what in (
        (
            fit,
            "--one-to-one bounds each direction on its own, and by --agreement product they learn together; add "
            "--agreement none, or --agreement 2008",
        ),
        ((*none, "--symmetric"), "--symmetric and --one-to-one do not go together; leave one of them out"),
        ((*none, "--viterbi"), "--one-to-one and --viterbi do not go together; leave one of them out"),
        (
            (*none, "--prefer", "near-diagonal=0.2", "--prefer-share", 0.5),
            "--one-to-one and --prefer-share do not go together; leave one of them out",
        ),
        (
            (*none, "--stepwise", "--vocab-from", zoo / "pairs.txt"),
            "--one-to-one and --vocab-from do not go together; leave one of them out",
        ),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (2, f"error: {what}\n")
    result = run(*none, "--null", 0)  # every word must choose one, and some sentences are longer than the others
    assert result.exit_code == 2
    assert "the expectation of the feature links_into" in result.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "more",
    [
        ("--stepwise",),
        ("--anneal",),
        ("--vb", 0.1),
        ("--prefer", "near-diagonal=0.2"),
        ("--constraint", "near-diagonal=0.3"),
    ],
)
def test_other_ways_to_learn(tmp_path: Path, pairs: Path, run: Run, more: tuple[object, ...]) -> None:
    fit = ("fit", "aligner", pairs, "--one-to-one", "--agreement", "none", *more, "--max-iterations", 2)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    assert repr(pu.load(tmp_path / "m").model).startswith("regularise(links_into(place=1)")
