"""Aligners by jumps on the command line: what the library gives, broken off or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_bitext, read_links
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.tasks.decoding.aligner import decode

from .conftest import Run


def expected(zoo: Path, first: int, iterations: int, **options: Any) -> pu.Fit:
    text = read_bitext(zoo / "pairs.txt")
    null = options.get("null")
    before = pu.EM(Aligner.of(text, null=None if null == "learn" else null), init=pu.init.uniform()).session()
    before.start(text)
    for _ in range(first):
        before.step(text)
    model = HMMAligner.of(text, **options)
    run = pu.EM(model, init=model.start_from(before.weights)).run
    return run(text, iterations=iterations, tolerance=1e-6, progress=False)


@pytest.mark.parametrize(
    ("arguments", "first", "iterations", "options"),
    [
        ((), 5, 5, {}),
        (("--first", 2, "--max-iterations", 3, "--null", 0.1), 2, 3, {"null": 0.1}),
        (("--learn-null", "--first", 0, "--max-iterations", 4), 0, 4, {"null": "learn"}),
    ],
)
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path,
    zoo: Path,
    run: Run,
    stop_at: Callable[..., None],
    arguments: tuple[object, ...],
    first: int,
    iterations: int,
    options: dict[str, Any],
) -> None:
    fit = ("fit", "aligner", zoo / "pairs.txt", "--model", "hmm", *arguments, "--out", tmp_path / "m")
    stop_at(0, 1)
    assert run(*fit).exit_code == 130
    stop_at(None)
    message = run(*fit[:3], "--resume", "--out", tmp_path / "m").stderr.splitlines()[-1]
    assert "is of a run with --" in message
    result = run(*fit, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "HMMAligner(" in result.stderr
    found = pu.load(tmp_path / "m")
    wanted = expected(zoo, first, iterations, **options)
    assert all(torch.equal(found.weights[name], w) for name, w in wanted.weights.items())
    assert isinstance(found.model, HMMAligner)
    assert found.report.iterations == iterations
    assert found.model.learns_null == ("--learn-null" in arguments)


def test_links_scores_and_what_it_shows(tmp_path: Path, zoo: Path, run: Run) -> None:
    assert run("fit", "aligner", zoo / "pairs.txt", "--model", "hmm", "--out", tmp_path / "m").exit_code == 0
    fit, gold = pu.load(tmp_path / "m"), read_bitext(zoo / "pairs.txt", links=zoo / "links.wa")
    options = ("--how", "competitive", "--threshold", 0.3, "--combine", "geometric")
    out = tmp_path / "links.txt"
    assert run("predict", tmp_path / "m", zoo / "pairs.txt", *options, "--out", out).exit_code == 0
    links = decode(fit, gold, "competitive", 0.3, "geometric").links
    assert read_links(out, gold).rows.tolist() == links.rows.tolist()
    evaluate = ("evaluate", tmp_path / "m", zoo / "pairs.txt", "--gold", zoo / "links.wa", *options, "--json")
    scores = json.loads(run(*evaluate).stdout)
    wanted = fit.evaluate(gold, "competitive", threshold=0.3, combine="geometric")
    assert {name: scores[name] for name in wanted} == wanted
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)
    assert (shown["model"], shown["agreement"]) == ("HMMAligner", "product")
    assert "likeliest translations" in run("show", tmp_path / "m").stdout


def test_kinds_of_jumps(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "aligner", zoo / "pairs.txt", "--model", "hmm", "--jump-classes", 3, "--jump-memory")
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    assert "learning 3 classes of target words by a tagger\n" in result.stderr
    model: Any = pu.load(tmp_path / "m").model
    assert repr(model).endswith(", order=2, classes=(3, 3))")
    assert run(*fit, "--out", tmp_path / "again").exit_code == 0
    other: Any = pu.load(tmp_path / "again").model
    assert all(torch.equal(a, b) for a, b in zip(model.classes, other.classes, strict=True))
    assert run("predict", tmp_path / "m", zoo / "pairs.txt").stdout.count("-") > 10


def test_options_that_do_not_go_together(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "aligner", zoo / "pairs.txt", "--out", tmp_path / "m")
    hmm = (*fit, "--model", "hmm")
    for arguments, what in (
        ((*fit, "--first", 3), "--first belongs to --model hmm; add that, or leave it out"),
        ((*fit, "--jump-memory"), "--jump-memory belongs to --model hmm; add that, or leave it out"),
        ((*fit, "--jump-classes", 3), "--jump-classes belongs to --model hmm; add that, or leave it out"),
        ((*fit, "--learn-null"), "--learn-null belongs to --model hmm; add that, or leave it out"),
        ((*hmm, "--learn-null", "--null", 0.1), "--null 0.1 and --learn-null contradict each other; give one of them"),
        (
            (*hmm, "--stepwise", "--vocab-from", zoo / "aligner"),
            "--model hmm starts from Model 1 of the same text, and a stream is read once; leave --vocab-from out",
        ),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (2, f"error: {what}\n")
    result = run("predict", zoo / "aligner", zoo / "pairs.txt", "--combine", "max")
    what = "--combine belongs to --how threshold or competitive; add that, or leave it out"
    assert (result.exit_code, result.stderr) == (2, f"error: {what}\n")
    assert not any(tmp_path.iterdir())
