from __future__ import annotations

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from pyro_unsup.errors import UnsupError
from pyro_unsup.plot import confusion_matrix

# Rows: noun 3 tokens, verb 5, adverb none. Columns: clusters 0 to 3; cluster 1 is never used.
COUNTS = np.array([[2, 0, 0, 1], [1, 0, 4, 0], [0, 0, 0, 0]])
GOLD = np.repeat(np.arange(3).repeat(4), COUNTS.ravel())
PREDICTED = np.repeat(np.tile(np.arange(4), 3), COUNTS.ravel())
TAGS = ["noun", "verb", "adverb"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


@pytest.mark.parametrize(
    ("normalise", "label", "expected"),
    [
        ("gold", "share of the gold tag", [[0.8, 0.2, 0], [0, 2 / 3, 1 / 3]]),
        ("predicted", "share of the cluster", [[1, 1 / 3, 0], [0, 2 / 3, 1]]),
        (None, "tokens", [[4, 1, 0], [0, 2, 1]]),
    ],
)
def test_frequent_tags_first_and_clusters_after_their_tags(normalise, label, expected):
    ax = confusion_matrix(GOLD, PREDICTED, TAGS, normalise=normalise)
    ax.figure.canvas.draw()
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    assert ticks(ax.yaxis) == ["verb", "noun"]
    assert ticks(ax.xaxis) == ["2", "0", "3"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("gold tag", "cluster")
    assert ax.figure.axes[-1].get_ylabel() == label
    assert ax.images[0].get_clim() == (0, 4 if normalise is None else 1)


def outlined(ax):
    return sorted((round(r.get_x() + 0.5), round(r.get_y() + 0.5)) for r in ax.patches if isinstance(r, Rectangle))


def test_the_map_is_outlined():
    ax = confusion_matrix(GOLD, PREDICTED, TAGS)
    assert outlined(ax) == [(0, 0), (1, 1), (2, 1)]  # (column, row)
    ax = confusion_matrix(GOLD, PREDICTED, TAGS, how="one_to_one")
    assert outlined(ax) == [(0, 0), (1, 1)]


def test_small_tables_show_numbers():
    ax = confusion_matrix(GOLD, PREDICTED, TAGS)
    assert {t.get_position(): t.get_text() for t in ax.texts} == {
        (0, 0): "80",
        (1, 0): "20",
        (1, 1): "67",
        (2, 1): "33",
    }
    ax = confusion_matrix(np.repeat(GOLD, 5000), np.repeat(PREDICTED, 5000), TAGS, normalise=None)
    assert sorted(t.get_text() for t in ax.texts) == ["10k", "20k", "5000", "5000"]


def test_large_tables_draw_without_numbers():
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(0, 45, (2, 20_000))
    ax = confusion_matrix(torch.tensor(gold), torch.tensor(predicted), [f"T{i}" for i in range(45)])
    ax.figure.canvas.draw()
    assert not ax.texts
    assert ax.images[0].get_array().shape == (45, 45)
    np.testing.assert_allclose(ax.images[0].get_array().sum(axis=1), 1)


def test_labels_are_no_mathematics():
    tags, names = ["$x$", "PRP$_{", "''"], ["a", "b", "$c$", "a longer name"]
    ax = confusion_matrix(GOLD, PREDICTED, tags, predicted_labels=names)
    ax.figure.canvas.draw()
    assert ticks(ax.yaxis) == ["PRP$_{", "$x$"]
    assert ticks(ax.xaxis) == ["$c$", "a", "a longer name"]
    assert ax.xaxis.get_ticklabels()[0].get_rotation() == 90


def test_draws_on_given_axes_and_never_shows(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("plt.show was called"))
    _, (left, right) = plt.subplots(1, 2, layout="constrained")
    assert confusion_matrix(GOLD, PREDICTED, TAGS, ax=right) is right
    right.figure.canvas.draw()
    assert not left.images
    assert plt.get_fignums() == [1]


def test_one_tag_and_one_cluster():
    ax = confusion_matrix([0], [0], ["noun"])
    ax.figure.canvas.draw()
    assert ax.images[0].get_array().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0], TAGS), "predicted has 1 tokens but gold has 2"),
        (([], [], TAGS), "gold is empty: there is no token to score"),
        (([0, 3], [0, 0], TAGS), "gold has id 3, but there are 3 gold_labels"),
        (([0], [0], TAGS, None, "rows"), "normalise must be 'gold', 'predicted' or None, got 'rows'"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(UnsupError, match=message):
        confusion_matrix(*arguments)
    assert plt.get_fignums() == []


def test_a_fit_and_a_corpus():
    corpus = SimpleNamespace(tags=GOLD, tagset=SimpleNamespace(types=TAGS))
    fit = SimpleNamespace(predict=lambda data: torch.tensor(PREDICTED) if data is corpus else None, labels=list("abcd"))
    ax = confusion_matrix(fit, corpus)
    np.testing.assert_allclose(ax.images[0].get_array(), confusion_matrix(GOLD, PREDICTED, TAGS).images[0].get_array())
    assert (ticks(ax.yaxis), ticks(ax.xaxis)) == (["verb", "noun"], ["c", "a", "d"])
    fit.labels = None
    assert ticks(confusion_matrix(fit, corpus).xaxis) == ["2", "0", "3"]
    assert ticks(confusion_matrix(fit, corpus, ["x", "y", "z"]).yaxis) == ["y", "x"]
    with pytest.raises(UnsupError, match="the corpus has no gold tags to compare with"):
        confusion_matrix(fit, SimpleNamespace(tags=None))


def test_tags_without_names_are_numbers():
    assert ticks(confusion_matrix(GOLD, PREDICTED).yaxis) == ["1", "0"]
