from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from pyro_unsup.data import Corpus, Vocab, bracket_rows, short_tag_sequences, toy
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.evaluate import right_branching
from pyro_unsup.plot import tree_diagram, tree_svg
from pyro_unsup.plot.trees import CROSSING, NEW, PLAIN, RIGHT

WORDS = ["the", "$dog$", "saw", "a", "cat"]
GOLD = [[0, 2], [0, 5], [2, 5], [3, 5]]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def nodes(ax):
    """Where the constituents are, and their colours."""
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    return {(line.get_xdata()[0], line.get_ydata()[0]): line.get_color() for line in dots}


def edges(ax):
    return sorted(tuple(line.get_xdata()) for line in ax.lines if line.get_marker() != "o")


def test_constituents_stand_above_their_middle():
    ax = tree_diagram(WORDS, GOLD, title="gold")
    ax.figure.canvas.draw()
    assert nodes(ax) == {(1.0, 1): PLAIN, (4.0, 1): PLAIN, (3.5, 2): PLAIN, (2.5, 3): PLAIN}
    assert edges(ax) == [(1, 0.5), (1, 1.5), (2.5, 1), (2.5, 3.5), (3.5, 2.5), (3.5, 4), (4, 3.5), (4, 4.5)]
    assert [text.get_text() for text in ax.texts] == WORDS
    assert ax.get_title(loc="left") == "gold"


def test_colours_tell_right_from_wrong():
    ax = tree_diagram(WORDS, torch.tensor([[0, 5], [1, 5], [2, 5], [2, 4]]), GOLD)
    assert nodes(ax) == {(2.5, 4): RIGHT, (3.0, 3): CROSSING, (3.5, 2): RIGHT, (3.0, 1): CROSSING}
    flat = tree_diagram(WORDS, GOLD, [[0, 5]])
    assert sorted(nodes(flat).values()) == sorted([RIGHT, NEW, NEW, NEW])


def test_a_sentence_of_a_corpus():
    corpus = toy.sentences(5, seed=1)
    for i in (3, -2):
        gold, ours = tree_diagram(corpus, sentence=i), tree_diagram(corpus, right_branching(corpus.lengths), sentence=i)
        expected = [*zip(corpus.sentence(3), corpus.sentence_tags(3), strict=True)]
        for ax in (gold, ours):
            texts = [text.get_text() for text in ax.texts]
            assert [*zip(texts[::2], texts[1::2], strict=True)] == expected
        assert len(nodes(gold)) == np.count_nonzero(bracket_rows(corpus)[:, 0] == 3)
        assert len(nodes(ours)) == corpus.lengths[3] - 1
        assert set(nodes(gold).values()) == {PLAIN}
        assert RIGHT in nodes(ours).values()


def test_tags_in_the_place_of_words_are_not_drawn_twice():
    whole = toy.sentences(2, seed=1)
    for corpus in (whole.tags_as_words(), short_tag_sequences(whole, max_length=40, drop=["PUNCT"])):
        assert [text.get_text() for text in tree_diagram(corpus).texts] == corpus.sentence(0)


def test_one_word_two_words_and_no_brackets():
    assert nodes(tree_diagram(["yes"], [])) == {}
    assert nodes(tree_diagram(["oh", "yes"], [])) == {(1.0, 1): PLAIN}
    assert len(edges(tree_diagram(WORDS, []))) == 5
    axes = plt.subplots(1, 2)[1]
    assert tree_diagram(WORDS, GOLD, ax=axes[1]) is axes[1]
    assert not axes[0].lines


def test_errors_say_what_was_expected():
    with pytest.raises(UnsupError, match="a sentence without words has no tree to draw"):
        tree_diagram([], [])
    with pytest.raises(UnsupError, match="there are no brackets to draw"):
        tree_diagram(Corpus([0], [0, 1], Vocab(["a"])))
    with pytest.raises(UnsupError, match="expected one tag a word, got 1 tags for 5 words"):
        tree_diagram(WORDS, GOLD, tags=["DT"])
    with pytest.raises(UnsupError, match=r"brackets must be pairs \(start, end\) or rows .*, actual \(4,\)"):
        tree_diagram(WORDS, [1, 2, 3, 4])
    with pytest.raises(InputError, match=r"brackets: the spans \(0, 3\) and \(1, 4\) of sentence 0 cross"):
        tree_diagram(WORDS, [[0, 3], [1, 4]])
    with pytest.raises(InputError, match=r"gold: the span \(0, 6\) does not lie in sentence 0 \(5 words\)"):
        tree_diagram(WORDS, GOLD, [[0, 6]])


def test_labels_stand_beside_their_nodes():
    drawn = str(tree_svg(["the", "dog", "barks"], [[0, 2], [0, 3]], labels=["N1", "N0"], probabilities=[0.5, 1.0]))
    assert ">N1<" in drawn
    assert ">N0<" in drawn
    assert "N1: the dog: 50 %" in drawn
    assert "N1" not in str(tree_svg(["the", "dog", "barks"], [[0, 2], [0, 3]]))
