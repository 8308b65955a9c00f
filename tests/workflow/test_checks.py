"""Predictive checks: statistics by hand, p-values that are right for the true model and small for a wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.tasks import summaries as s


def a(*x: float) -> Any:
    return np.array(x)


@pytest.mark.parametrize(
    ("how", "values", "lengths", "right"),
    [
        (s.types, a(3, 1, 3), a(3), 2),
        (s.once_only, a(3, 1, 3), a(3), 1),
        (s.repeats, a(1, 1, 1, 2), a(2, 2), 0.5),  # not across sentences
        (s.repeats, a(1, 1), a(1, 1), 0),
        (s.bigrams, a(0, 1, 0, 1, 1), a(2, 3), 2),
        (s.bigrams, a(0), a(1), 0),
        (s.bigram_information, a(0, 1, 0, 1, 0), a(5), 1),
        (s.bigram_information, a(0, 0, 0), a(3), 0),
        (s.bigram_information, a(0), a(1), 0),
        (s.largest_share, a(2, 2, 2, 0), a(4), 0.75),
        (s.mean, a(1, np.nan, 3), a(3), 2),
        (s.deviation, a(1, np.nan, 3), a(3), 1),
        (s.smallest, a(1, np.nan, 3), a(3), 1),
        (s.largest, a(1, np.nan, 3), a(3), 3),
        (s.autocorrelation, a(1, -1, 1, -1), a(4), -1),
        (s.autocorrelation, a(2, 2), a(2), 0),
        (s.autocorrelation, np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]]), a(4), (-1 + 1 / 3) / 2),
        (s.mean_run, a(0, 0, 1, 1, 1, 1), a(4, 2), 2),
        (s.longest_run, a(0, 0, 0, 1), a(3, 1), 3),
        (s.mean_word_length, a(0, 1, 1, 0, 0, 1), a(3, 3), 2),
        (s.longest_word, a(0, 1, 1, 0, 0, 1), a(3, 3), 3),
        (s.one_symbol_words, a(0, 1, 1, 0, 0, 1), a(3, 3), 1 / 3),
        (s.mean_depth, a(2, 0, 2, 0), a(3, 1), (2 + 1 + 2 + 1) / 4),
        (s.deepest, a(0, 1, 2, 3), a(4), 4),
        (s.left_arcs, a(2, 0, 2, 0, 1), a(3, 2), 2 / 3),
        (s.left_arcs, a(0), a(1), 0),
        (s.arc_length, a(3, 3, 0, 0), a(3, 1), 1.5),
        (s.arc_length, a(0), a(1), 0),
    ],
)
def test_statistics_by_hand(how: Any, values: Any, lengths: Any, right: float) -> None:
    assert how(values, lengths) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("task", ["tagger", "hmm", "clusterer", "segmenter", "dmv", "dmv_ccm"])
def test_tasks_name_their_statistics(task: str) -> None:
    found = pu.tasks.find(task.replace("_", "-") if task == "dmv_ccm" else task)
    values, lengths = np.array([1, 0, 1, 0, 0, 1]), np.array([3, 3])
    assert found.statistics
    assert found.structure_statistics
    if task in ("dmv", "dmv_ccm"):
        assert "mean_depth" in found.structure_statistics
        return
    for how in [*found.statistics.values(), *found.structure_statistics.values()]:
        assert np.isfinite(how(values, lengths))


def test_the_true_model_passes_and_another_one_does_not() -> None:
    """Series of an HMM, checked by draws of the same model and by draws without its chain."""
    pyro_seed = torch.Generator().manual_seed(0)
    prior = {"loc": dist.Normal(0.0, 3.0), "scale": dist.LogNormal(0.0, 0.2)}
    hmm = pu.models.HMM(2, prior=prior)
    weights = {"start": torch.tensor([0.5, 0.5]).log(), "transition": torch.tensor([[0.95, 0.05], [0.05, 0.95]]).log()}
    fixed = pu.given(pu.models.HMM(2, init={"loc": [-2.0, 2.0], "scale": [1.0, 1.0]}), weights)
    lengths = torch.tensor([80, 60])
    torch.manual_seed(3)
    x = fixed(None, lengths)
    drawn = torch.stack([fixed(None, lengths) for _ in range(100)])
    right = pu.predictive_check(drawn, [x[:80], x[80:]], model=hmm)
    assert right.failing() == []
    shuffled = x[torch.randperm(len(x), generator=pyro_seed)]
    wrong = pu.predictive_check(drawn, shuffled, model=hmm, lengths=lengths)
    assert "autocorrelation" in wrong.failing()
    assert "mean" in repr(wrong)


def test_p_values_are_uniform_under_the_model() -> None:
    rng = np.random.default_rng(0)
    p = [
        pu.predictive_check(rng.normal(size=(60, 20)), rng.normal(size=20), {"m": np.mean}).table.loc["m", "p"]
        for _ in range(200)
    ]
    counts = np.histogram(p, bins=5, range=(0, 1))[0]
    assert counts.min() > 20


def test_a_text_by_the_task_of_the_tagger() -> None:
    corpus = pu.data.toy.sentences(60, seed=1)
    model = pu.models.Tagger(3, corpus.vocab)
    fit = pu.EM(model).run(corpus, iterations=5, progress=False)
    lengths = torch.from_numpy(np.diff(corpus.offsets))
    drawn = [fit.trained(None, lengths) for _ in range(20)]
    found = pu.predictive_check(drawn, corpus, model=model)
    assert found.table.loc["types", "observed"] == len(np.unique(corpus.words))
    tags = fit.posterior(corpus)
    structures = [tags.sample() for _ in range(20)]
    paired = pu.predictive_check(structures, structures, model=model, structure=True, lengths=lengths)
    np.testing.assert_array_equal(paired.table["p"], 0.5)  # everything is a tie
    assert list(paired.table.index) == ["bigrams", "bigram_information", "largest_share"]


def test_documents_are_counted_word_by_word() -> None:
    model = pu.models.Clusterer(2, 3)
    lengths = torch.tensor([4, 3])
    drawn = [pu.models.clusterer.Bags(model(None, lengths), lengths) for _ in range(5)]
    found = pu.predictive_check(drawn, [[0, 0, 1, 2], [1, 1, 1]], {"words": lambda x: len(x)}, model=model)
    assert found.table.loc["words", ["observed", "mean"]].tolist() == [7, 7]


def test_picture() -> None:
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)
    check = pu.predictive_check(rng.normal(size=(60, 20)), rng.normal(size=20), {"m": np.mean, "n": len})
    figure = check.plot()
    figure.canvas.draw()
    assert len(figure.axes) == 2
    plt.close("all")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: pu.predictive_check(x, x[0]), "no statistics"),
        (lambda x: pu.predictive_check(x, x[0], {}), "no statistics"),
        (lambda x: pu.predictive_check(x[:0], x[0], {"m": np.mean}), "no drawn data sets"),
        (lambda x: pu.predictive_check(x, x[0, :3], {"m": np.mean}), "lengths add up to 3, actual 5"),
        (lambda x: pu.predictive_check(x, x[:2], {"m": np.mean}, structure=True), "one a draw"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call(np.random.default_rng(0).normal(size=(4, 5)))
    assert says in str(error.value)
