"""Dependency arcs: which are drawn, how high, and in which colour."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from pyro_unsup.data import Corpus, Vocab, toy
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import chain_to_next
from pyro_unsup.plot import dependency_diagram, dependency_svg
from pyro_unsup.plot.dependencies import MISSED, PLAIN, RIGHT, TURNED, WRONG, _levels

WORDS = ["the", "$x$", "<will>", "bark", "loudly"]
GOLD = [2, 3, 0, 3, 4]
OURS = [2, 4, 4, 0, 4]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def arrows(ax):
    """Where the arcs begin and end, in words, by colour."""
    found = []
    for patch in ax.patches:
        assert isinstance(patch, FancyArrowPatch)
        points = patch._path_original.vertices
        root = len(points) == 2
        found.append((None if root else int(points[0][0]), int(points[-1][0]), to_hex(patch.get_edgecolor())))
    return sorted(found, key=str)


def drawn(picture):
    """The same of SVG, and its texts."""
    root = ET.fromstring(str(picture))
    texts = [one for one in root.iter(f"{SVG}text") if one.get("text-anchor") == "middle"]
    places = sorted({float(one.get("x")) for one in texts})
    found = []
    for path in root.iter(f"{SVG}path"):
        if path.get("fill") == "none":
            (first, *_, last) = (float(point.split(",")[0].lstrip("MLC")) for point in path.get("d").split())
            nearest = [min(range(len(places)), key=lambda k: abs(places[k] - x)) for x in (first, last)]
            found.append((None if "L" in path.get("d") else nearest[0], nearest[1], path.get("stroke")))
    return sorted(found, key=str), [one.text for one in texts]


def test_levels():
    assert _levels([2, 3, 0, 3, 4]) == [(1, 0, 1), (2, 1, 1), (-1, 2, 2), (2, 3, 1), (3, 4, 1)]
    assert _levels([4, 1, 2, 0]) == [(3, 0, 2), (0, 1, 1), (1, 2, 1), (-1, 3, 3)]
    assert _levels([3, 4, -1, -1]) == [(2, 0, 1), (3, 1, 1)]  # arcs may cross, and heads be unknown


def test_gold_alone_is_plain():
    expected = [(1, 0, PLAIN), (2, 1, PLAIN), (2, 3, PLAIN), (3, 4, PLAIN), (None, 2, PLAIN)]
    ax = dependency_diagram(WORDS, GOLD, title="gold")
    ax.figure.canvas.draw()
    assert arrows(ax) == expected
    assert [text.get_text() for text in ax.texts] == WORDS
    assert ax.get_title(loc="left") == "gold"
    assert drawn(dependency_svg(WORDS, gold=GOLD, title="gold")) == (expected, WORDS)


def test_colours_tell_right_from_wrong():
    above = [(1, 0, RIGHT), (3, 1, WRONG), (3, 2, TURNED), (None, 3, WRONG), (3, 4, RIGHT)]
    expected = sorted([*above, (2, 1, MISSED), (None, 2, MISSED), (2, 3, MISSED)], key=str)
    ax = dependency_diagram(WORDS, torch.tensor(OURS), GOLD)
    assert arrows(ax) == expected
    assert [patch.get_linestyle() for patch in ax.patches].count("dashed") == 3
    picture = dependency_svg(WORDS, torch.tensor(OURS), GOLD)
    assert drawn(picture)[0] == expected
    assert str(picture).count("stroke-dasharray") == 3


def test_a_sentence_of_a_corpus():
    corpus = toy.sentences(5, seed=1)
    chain = chain_to_next(corpus.lengths)
    here = slice(*corpus.offsets[3:5])
    for i in (3, -2):
        alone = dependency_svg(
            corpus.sentence(3), chain[here], corpus.heads[here], tags=corpus.sentence_tags(3), title="x"
        )
        assert dependency_svg(corpus, chain, sentence=i, title="x") == alone
        assert dependency_svg(corpus, chain[here], sentence=i, title="x") == alone
        both = [*zip(corpus.sentence(3), corpus.sentence_tags(3), strict=True)]
        texts = [text.get_text() for text in dependency_diagram(corpus, sentence=i).texts]
        assert [*zip(texts[::2], texts[1::2], strict=True)] == both
    tags = corpus.tags_as_words()
    assert drawn(dependency_svg(tags))[1] == tags.sentence(0)


def test_one_word_and_given_axes():
    assert arrows(dependency_diagram(["yes"], [0])) == [(None, 0, PLAIN)]
    assert drawn(dependency_svg(["yes"], [0])) == ([(None, 0, PLAIN)], ["yes"])
    axes = plt.subplots(1, 2)[1]
    assert dependency_diagram(WORDS, GOLD, ax=axes[1]) is axes[1]
    assert not axes[0].patches


@pytest.mark.parametrize("draw", [dependency_diagram, dependency_svg])
def test_errors_say_what_was_expected(draw):
    with pytest.raises(UnsupError, match="a sentence without words has no arcs to draw"):
        draw([], [])
    with pytest.raises(UnsupError, match="there are no heads to draw: give some, or a corpus that has them"):
        draw(Corpus([0], [0, 1], Vocab(["a"])))
    with pytest.raises(UnsupError, match="expected one tag a word, got 1 tags for 5 words"):
        draw(WORDS, GOLD, tags=["DT"])
    with pytest.raises(UnsupError, match="heads has 2 heads but the sentences have 5 words"):
        draw(WORDS, [2, 0])
    with pytest.raises(UnsupError, match="gold has head 6 for word 1 of sentence 0, expected another of its 5 words"):
        draw(WORDS, OURS, [6, *GOLD[1:]])
