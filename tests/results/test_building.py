"""Models under handlers come back as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.handlers import Handled
from pyro_unsup.models import CCM, Tagger
from pyro_unsup.results.building import build_model, describe_model
from pyro_unsup.results.record import checksum

from .damage import refused, rewrite

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 2]]
OTHER = {"start": torch.zeros(2), "transition": torch.zeros(2, 2), "emission": torch.zeros(2, 3)}


@pytest.mark.parametrize(
    "make",
    [
        lambda: pu.temper(Tagger(2, 3), 0.25),
        lambda: pu.harden(Tagger(2, 3)),
        lambda: pu.skew(Tagger(2, 3), 0.5, OTHER),
        lambda: pu.skew(CCM.of(SENTENCES, vocab=3), 0.5, "split"),
        lambda: pu.temper(pu.skew(Tagger(2, 3), 0.5, OTHER), 0.1),
    ],
)
def test_a_round_trip(tmp_path: Path, make: Callable[[], Handled]) -> None:
    fit = pu.EM(make(), pu.AddLambda(0.1)).run(SENTENCES, iterations=3)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert repr(back.model) == repr(fit.model)
    assert back.log_likelihood(SENTENCES) == fit.log_likelihood(SENTENCES)
    assert torch.equal(back.predict(SENTENCES), fit.predict(SENTENCES))


def test_a_model_of_ones_own_still_has_to_be_given(tmp_path: Path) -> None:
    def model(data: Any) -> Any:
        return Tagger(2, 3)(data)

    fit = pu.EM(pu.temper(model, 0.5)).run(SENTENCES, iterations=1)
    fit.save(tmp_path / "fit")
    with pytest.raises(pu.InputError, match="model of your own"):
        pu.load(tmp_path / "fit")
    back = pu.load(tmp_path / "fit", model=pu.temper(model, 0.5))
    assert back.log_likelihood(SENTENCES) == fit.log_likelihood(SENTENCES)


@pytest.mark.parametrize(
    "under",
    [
        [{"name": "os.system", "settings": {}}],
        [{}],
        [3],
        "temper",
        [{"name": "temper", "settings": {"beta": -1}}],
        [{"name": "temper", "settings": {"gamma": 1}}],
        [{"name": "Tagger", "settings": {}}],
        [{"name": "constrain", "settings": {"component": {"name": "os.system", "settings": {}}}}],
    ],
)
def test_a_handler_that_is_none(tmp_path: Path, under: object) -> None:
    pu.EM(Tagger(2, 3)).run(SENTENCES, iterations=1).save(tmp_path / "fit")
    rewrite(tmp_path / "fit", lambda record: record["model"].update({"under": under}))
    refused(
        tmp_path / "fit",
        "unknown handler|unknown component|does not describe a fit|beta must be positive|temper cannot be built from",
    )


def aligner() -> pu.models.Aligner:
    pairs = pu.data.Bitext(*(pu.data.Corpus([0, 1], [0, 2], pu.data.Vocab(["a", "b"])) for _ in range(2)))
    return pu.models.Aligner.of(pairs)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("tags", lambda: Tagger(2, 3)),
        ("max_length", lambda: pu.models.Segmenter.of(SENTENCES, vocab=3)),
        ("clusters", lambda: pu.models.Clusterer(2, 3)),
        ("target", aligner),
    ],
)
def test_a_small_folder_asks_for_no_large_model(tmp_path: Path, name: str, make: Callable[[], Any]) -> None:
    """(What it asks for would be refused in the end, but only after it was made.)"""
    builder, tensors = describe_model(make())
    assert builder is not None
    builder["settings"][name] = 10**9
    with pytest.raises(
        pu.UnsupError, match=f"^{name} is 1000000000, larger than the tensors that were saved \\(40 numbers\\) allow$"
    ):
        build_model(builder, tensors, numbers=40)


def test_samples_of_more_labels_than_a_folder_has_numbers(tmp_path: Path) -> None:
    sampler = pu.CollapsedGibbs(Tagger(2, 3))
    sampler.run(SENTENCES, sweeps=3, burn_in=1, progress=False).save(tmp_path / "s")
    file = tmp_path / "s" / "samples.json"
    record = json.loads(file.read_text())
    record["model"]["settings"]["tags"] = 300_000_000
    file.write_text(json.dumps({**record, "checksum": checksum(record)}))
    with pytest.raises(pu.InputError, match="tags is 300000000, larger than the tensors that were saved"):
        pu.Samples.load(tmp_path / "s")


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    refused(tmp_path / ("x" * 300), "no such folder")
