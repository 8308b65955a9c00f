from __future__ import annotations

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from pyro_unsup import EM
from pyro_unsup.data import toy
from pyro_unsup.errors import UnsupError
from pyro_unsup.models import Tagger
from pyro_unsup.plot import confusion_matrix, learning_curve, top_words, top_words_grid

VOCAB = ["the", "a", "dog", "cat", "$x$", "http://a-very-long-address.example.org"]
WEIGHTS = np.array([[6, 3, 0, 0, 1, 0], [1, 1, 4, 2, 1, 1], [0, 0, 0, 0, 0, 2]])
with np.errstate(divide="ignore"):
    LOG_WEIGHTS = np.log(WEIGHTS)  # not normalised, with zeros


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def drawn(ax):
    ax.figure.canvas.draw()
    words = [text.get_text() for text in ax.yaxis.get_ticklabels()]
    return dict(zip(words, [bar.get_width() for bar in ax.patches], strict=True))


def test_bars_are_normalised_sorted_and_skip_zeros():
    ax = top_words(LOG_WEIGHTS, VOCAB, state=0)
    assert isinstance(ax, Axes)
    assert list(drawn(ax).items()) == [
        ("the", pytest.approx(0.6)),
        ("a", pytest.approx(0.3)),
        ("$x$", pytest.approx(0.1)),
    ]
    top, bottom = ax.transData.transform([(0, 0), (0, 2)])
    assert top[1] > bottom[1]  # the likeliest is on top
    assert [text.get_text() for text in ax.texts] == ["0.60", "0.30", "0.10"]
    assert (ax.get_title(loc="left"), ax.get_xlabel()) == ("state 0", "p(word | state)")


def test_n_words_at_most_and_ties_in_the_order_of_the_vocabulary():
    assert list(drawn(top_words(LOG_WEIGHTS, VOCAB, state=1, n=4))) == ["dog", "cat", "the", "a"]
    assert list(drawn(top_words(LOG_WEIGHTS, VOCAB, state=1, n=1))) == ["dog"]


def test_long_words_are_shortened():
    assert list(drawn(top_words(LOG_WEIGHTS, VOCAB, state=2))) == ["http://a-very-long-ad…"]


def test_weights_of_any_scale_and_kind():
    expected = drawn(top_words(LOG_WEIGHTS, VOCAB, state=1))
    assert drawn(top_words(LOG_WEIGHTS - 5000, VOCAB, state=1)) == pytest.approx(expected)
    tensor = torch.tensor(LOG_WEIGHTS, dtype=torch.float32, requires_grad=True)
    assert drawn(top_words(tensor, tuple(VOCAB), state=1)) == pytest.approx(expected, rel=1e-6)


def test_draws_on_given_axes_and_never_shows(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("plt.show was called"))
    _, (left, right) = plt.subplots(1, 2)
    assert top_words(LOG_WEIGHTS, VOCAB, state=0, ax=right, label="$D$") is right
    assert right.get_title(loc="left") == "$D$"
    assert not left.patches
    assert plt.get_fignums() == [1]


def test_grid_has_one_axes_a_state():
    axes = top_words_grid(LOG_WEIGHTS, VOCAB)
    assert axes.shape == (3,)
    assert len({id(ax.figure) for ax in axes}) == 1
    assert [ax.get_title(loc="left") for ax in axes] == ["state 0", "state 1", "state 2"]
    for state, ax in enumerate(axes):
        assert drawn(ax) == drawn(top_words(LOG_WEIGHTS, VOCAB, state=state, n=8))


def test_grid_of_chosen_states_with_names():
    axes = top_words_grid(LOG_WEIGHTS, VOCAB, states=[2, 0], n=2, labels=["web", "det"])
    assert [ax.get_title(loc="left") for ax in axes] == ["web", "det"]
    assert list(drawn(axes[1])) == ["the", "a"]


def test_grid_leaves_no_empty_axes_in_its_last_row():
    axes = top_words_grid(np.zeros((7, len(VOCAB))), VOCAB)
    axes[0].figure.canvas.draw()
    assert axes.shape == (7,)
    assert axes[0].figure.axes == list(axes)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (LOG_WEIGHTS[0], {}, r"log_weights must have shape \(K, V\), actual shape \(6,\)"),
        (LOG_WEIGHTS[:, :4], {}, "log_weights are over 4 words but the vocabulary has 6"),
        (LOG_WEIGHTS, {"state": 3}, "state 3 does not exist, expected 0 to 2"),
        (LOG_WEIGHTS, {"state": -1}, "state -1 does not exist, expected 0 to 2"),
        (LOG_WEIGHTS, {"n": 0}, "n must be 1 or more, got 0"),
        (
            np.full((1, 6), -np.inf),
            {},
            "log_weights of state 0 are no distribution: NaN, infinite or all minus infinity",
        ),
        (np.full((1, 6), np.nan), {}, "log_weights of state 0 are no distribution"),
        (np.full((1, 6), np.inf), {}, "log_weights of state 0 are no distribution"),
    ],
)
def test_bad_input(weights, options, message):
    with pytest.raises(UnsupError, match=message):
        top_words(weights, VOCAB, **{"state": 0, **options})
    assert plt.get_fignums() == []


def test_bad_grids():
    with pytest.raises(UnsupError, match="states is empty: there is nothing to draw"):
        top_words_grid(LOG_WEIGHTS, VOCAB, states=[])
    with pytest.raises(UnsupError, match="expected one label a state, got 1 labels for 3 states"):
        top_words_grid(LOG_WEIGHTS, VOCAB, labels=["noun"])
    with pytest.raises(UnsupError, match=r"log_weights must have shape \(K, V\), actual shape \(\)"):
        top_words_grid(0.0, VOCAB)
    assert plt.get_fignums() == []


def test_a_fit_brings_weights_words_and_names():
    fit = SimpleNamespace(
        weights={"emission": torch.tensor(LOG_WEIGHTS)}, model=SimpleNamespace(vocab=VOCAB), labels=["D", "N", "W"]
    )
    ax = top_words(fit, state=1)
    assert drawn(ax) == drawn(top_words(LOG_WEIGHTS, VOCAB, state=1))
    assert ax.get_title(loc="left") == "N"
    axes = top_words_grid(fit, states=[2, 0])
    assert [ax.get_title(loc="left") for ax in axes] == ["W", "D"]
    fit.labels, fit.model.vocab = None, len(VOCAB)  # a model that knows its words by number
    ax = top_words(fit, n=2)
    assert (list(drawn(ax)), ax.get_title(loc="left")) == (["0", "1"], "state 0")
    with pytest.raises(UnsupError, match=r"no table of words \(emission or words\), it has rule"):
        top_words(SimpleNamespace(weights={"rule": 0}, model=None))
    with pytest.raises(UnsupError, match="log_weights need a vocab beside them; only a fit brings its own"):
        top_words_grid(LOG_WEIGHTS)


def test_a_real_fit():
    corpus = toy.sentences(30, seed=0)
    fit = EM(Tagger(3, corpus.vocab, stop=True)).run(corpus, iterations=2, progress=False)
    assert learning_curve(fit).lines
    assert confusion_matrix(fit, corpus).images
    assert top_words(fit, state=2).patches
    assert top_words_grid(fit).shape == (3,)
