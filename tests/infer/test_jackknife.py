"""Training without each part of the data in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, short_tag_sequences, toy
from pyro_unsup.errors import FitError, UnsupError
from pyro_unsup.infer import jackknife_fits

CORPUS = short_tag_sequences(toy.sentences(80, seed=1), max_length=8, drop=["PUNCT"])


def make(part: Corpus) -> pu.EM:
    model = pu.models.CCM.of(part, vocab=CORPUS.vocab)
    return pu.EM(model, pu.AddLambda(0.5), model.split_start(part))


def score(fit: pu.Fit, part: Corpus, rest: Corpus) -> dict[str, float]:
    return {"f1": fit.evaluate(part)["f1"], "sizes": len(part) / len(rest)}


def test_each_trial_is_what_a_run_without_that_part_is() -> None:
    found = jackknife_fits(make, CORPUS, score, 4, processes=1, seed=3, iterations=4, progress=False)
    assert len(found.fits) == len(found.trained_on) == 4
    left_out = [np.setdiff1d(np.arange(len(CORPUS)), kept) for kept in found.trained_on]
    assert sorted(np.concatenate(left_out).tolist()) == list(range(len(CORPUS)))
    for i, (fit, kept) in enumerate(zip(found.fits, found.trained_on, strict=True)):
        part = CORPUS.select(kept)
        alone = make(part).run(part, iterations=4, seed=3 + i, progress=False)
        assert fit.seed == 3 + i
        for name, w in fit.weights.items():
            assert torch.equal(w, alone.weights[name])
        assert found.scores["f1"].values[i] == alone.evaluate(part)["f1"]
    assert found.scores["f1"].mean == pytest.approx(np.mean(found.scores["f1"].values))
    assert found.scores["f1"].deviation == pytest.approx(np.std(found.scores["f1"].values, ddof=1))
    assert found.scores["sizes"].mean == pytest.approx(3, abs=0.2)


def test_processes_change_nothing() -> None:
    def in_here(part: Corpus) -> pu.EM:  # pickled by value, as from a notebook
        return make(part)

    runs = [
        jackknife_fits(in_here, CORPUS, score, 3, processes=processes, iterations=3, progress=False)
        for processes in (1, 2)
    ]
    assert runs[0].scores == runs[1].scores
    for one, other in zip(runs[0].fits, runs[1].fits, strict=True):
        assert all(torch.equal(w, other.weights[name]) for name, w in one.weights.items())


def test_each_part_alone_and_a_plain_score() -> None:
    seen: list[tuple[int, int]] = []

    def size(fit: pu.Fit, part: Corpus, rest: Corpus) -> float:
        seen.append((len(part), len(rest)))
        return fit.objective / part.tokens

    found = jackknife_fits(make, CORPUS, size, 4, use="part", processes=1, iterations=2, progress=False)
    assert all(abs(mine - len(CORPUS) / 4) < 1 and mine + rest == len(CORPUS) for mine, rest in seen)
    assert sorted(np.concatenate(found.trained_on).tolist()) == list(range(len(CORPUS)))
    assert list(found.scores) == ["score"]


def test_any_data_that_can_be_cut() -> None:
    class Numbers:
        def __init__(self, x: np.ndarray) -> None:
            self.x = x

        def __len__(self) -> int:
            return len(self.x)

        def select(self, indices: Any) -> Numbers:
            return Numbers(self.x[indices])

    class Mean:
        def run(self, data: Numbers, seed: int, progress: bool) -> float:
            return float(data.x.mean())

    x = np.arange(6.0) ** 2
    found = jackknife_fits(lambda data: Mean(), Numbers(x), lambda fit, mine, rest: fit, 6, processes=1, progress=False)
    assert found.scores["score"].standard_error == pytest.approx(x.std(ddof=1) / np.sqrt(6))


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(UnsupError, match=r"\d+ examples cannot be split into 1 parts, expected 2 to"):
        jackknife_fits(make, CORPUS, score, 1)
    with pytest.raises(FitError, match=r"use must be 'rest' \(all parts but one\) or 'part' \(one alone\), actual"):
        jackknife_fits(make, CORPUS, score, use="all")  # type: ignore[arg-type]
