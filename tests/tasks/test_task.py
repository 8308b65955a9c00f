"""Tasks: found by name, open to others, and what fits show and draw by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import pyro_unsup as pu
from pyro_unsup import registry
from pyro_unsup.data import short_tag_sequences, toy


def fits() -> dict[str, tuple[pu.Fit, Any]]:
    """A fit of each model, and its data."""
    text = toy.sentences(20, seed=1)
    tags, pairs, lines = short_tag_sequences(text, 8, ["PUNCT"]), toy.bitext(10, seed=1), toy.utterances(10, seed=1)
    words, labels, topics = toy.documents(12, seed=1, topics=3)
    documents = pu.data.Documents.count(words.words, words.offsets, words.vocab, labels, pu.data.Vocab(topics))
    made: dict[str, tuple[Any, Any]] = {
        "tagger": (pu.models.Tagger(3, text.vocab), text),
        "dmv": (pu.models.DMV.of(tags), tags),
        "ccm": (pu.models.CCM.of(tags), tags),
        "dmv-ccm": (pu.models.DMVCCM.of(tags), tags),
        "pcfg": (pu.models.PCFG.of(tags, 2, 3), tags),
        "clusterer": (pu.models.Clusterer(3, documents.vocab), documents),
        "segmenter": (pu.models.Segmenter.of(lines, max_length=5), lines),
        "aligner": (pu.models.Aligner.of(pairs), pairs),
        "hmm": (pu.models.HMM(2), pu.models.Series.of([0.1, 0.3, 5.2, 4.9, 0.2, 5.1])),
    }
    return {
        name: (pu.EM(model, pu.AddLambda(0.1)).run(data, iterations=2, progress=False), data)
        for name, (model, data) in made.items()
    }


FITS = fits()


def test_every_model_has_its_task() -> None:
    assert set(FITS) == set(pu.tasks.names()) == {fit.model.task for fit, _ in FITS.values()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FITS)
def test_scores_are_described_and_beside_baselines(name: str) -> None:
    fit, gold = FITS[name]
    task = pu.tasks.find(name)
    found, beside = fit.evaluate(gold), task.baselines(gold)
    known = {one.name for one in task.scores_known}
    assert found.keys() <= known
    assert beside.keys() <= {one.name for one in task.baselines_known}
    main = next(one for one in task.main if one in found)
    assert any(main in scores for scores in beside.values())
    assert all(scores.keys() <= known for scores in beside.values())


@pytest.mark.parametrize("name", FITS)
def test_a_fit_shows_itself(name: str) -> None:
    fit, _ = FITS[name]
    page = fit.show()
    assert page.record["model"] == type(fit.model).__name__
    assert page.record["tables"] == {table: list(w.shape) for table, w in fit.weights.items()}
    text = str(page)
    assert text.startswith("model ")
    assert ("duration" if name == "hmm" else "likeliest") in text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["tagger", "dmv", "ccm", "pcfg", "aligner"])
def test_a_task_draws(name: str) -> None:
    fit, data = FITS[name]
    axes = pu.tasks.find(name).plot(fit, data)
    plt.close(axes.figure)
    with pytest.raises(pu.UnsupError, match="the task segmenter draws nothing"):
        pu.tasks.find("segmenter").plot(*FITS["segmenter"])


def test_a_model_without_a_task_shows_its_tables() -> None:
    class Small(pu.models.Tagger):
        task = None  # type: ignore[assignment]

    registry.register("models", "Small", Small)
    try:
        fit = pu.EM(Small(2, 3)).run([[0, 1, 2]], iterations=1, progress=False)
        assert "emission 2 x 3" in str(fit.show())
    finally:
        registry.unregister("models", "Small")
    with pytest.raises(pu.UnsupError, match=r"fit\.show is for registered models"):
        fit.show()


def test_a_broken_package_is_left_out_and_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_task.py").write_text("import nowhere_to_be_found\n")
    info = tmp_path / "broken_task-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-task\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pyro_unsup.tasks]\nbroken = broken_task:Task\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_installed", {})
    assert "broken" in registry.names("tasks")
    assert "broken" not in pu.tasks.names()
    with pytest.raises(pu.errors.RegistryError, match="the task 'broken' is registered by broken-task as"):
        pu.tasks.find("broken")


def test_what_is_no_task_is_refused() -> None:
    registry.register("tasks", "nothing", object)
    try:
        with pytest.raises(pu.UnsupError, match=r"the task 'nothing' should be a subclass of pyro_unsup\.tasks\.Task"):
            pu.tasks.find("nothing")
    finally:
        registry.unregister("tasks", "nothing")


def test_names_are_imported_when_they_are_used() -> None:
    assert set(pu.__all__) <= set(dir(pu))
    assert all(getattr(pu, name) is not None for name in pu.__all__)
    with pytest.raises(AttributeError, match="module 'pyro_unsup' has no attribute 'nonsense'"):
        pu.nonsense  # type: ignore[attr-defined]  # noqa: B018
