"""Alignment grids: what is where."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from pyro_unsup.data import Bitext, Corpus, Links, Vocab
from pyro_unsup.errors import UnsupError
from pyro_unsup.plot import alignment_grid, alignment_svg
from pyro_unsup.plot.alignments import POSSIBLE, SIDE, SURE

SOURCE = Corpus([0, 0, 1, 2], [0, 1, 4], Vocab(["the", "$x$", "cat"]))
TARGET = Corpus([0, 1, 0], [0, 1, 3], Vocab(["le", "chat"]))
GOLD = Links(2, [[0, 0, 0], [1, 0, 0], [1, 2, 1]], [True, True, False])
FOUND = Links(2, [[1, 2, 1], [1, 1, 0]])
BITEXT = Bitext(SOURCE, TARGET, GOLD)
DECODED = SimpleNamespace(links=FOUND, forward=np.arange(7) / 10, backward=np.zeros(7))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def boxes(ax, colour):
    found = [p for p in ax.patches if isinstance(p, Rectangle) and to_hex(p.get_edgecolor()) == to_hex(colour)]
    return sorted((round(p.get_y() + 0.45), round(p.get_x() + 0.45)) for p in found)


def test_everything_in_its_place():
    ax = alignment_grid(BITEXT, DECODED, pair=1)
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["the", "$x$", "cat"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["chat", "le"]
    assert boxes(ax, SURE) == [(0, 0)]
    assert boxes(ax, POSSIBLE) == [(2, 1)]
    assert sorted(zip(*(x.tolist() for x in ax.lines[0].get_data()), strict=True)) == [(0, 1), (1, 2)]
    np.testing.assert_allclose(ax.images[0].get_array(), np.arange(1, 7).reshape(3, 2) / 20)


def test_gold_or_links_alone():
    ax = alignment_grid(BITEXT)
    assert boxes(ax, SURE) == [(0, 0)]
    assert not ax.lines
    assert not ax.images[0].get_array().any()
    ax = alignment_grid(Bitext(SOURCE, TARGET), FOUND, pair=1)
    assert not ax.patches
    assert len(ax.lines[0].get_xdata()) == 2


def test_the_same_as_svg():
    root = ET.fromstring(str(alignment_svg(BITEXT, DECODED, pair=1)))
    name = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in root.iter(f"{name}text")] == ["the", "$x$", "cat", "chat", "le"]
    cells = [one for one in root.iter(f"{name}rect") if one.get("fill") != "none"]
    np.testing.assert_allclose([float(one.get("fill-opacity")) for one in cells], 0.6 * np.arange(1, 7) / 20, atol=1e-3)
    corner = {axis: float(cells[0].get(axis)) for axis in "xy"}
    places = [
        tuple(int((float(one.get(axis)) - corner[axis]) // SIDE) for axis in "yx")
        for one in root.iter(f"{name}rect")
        if one.get("fill") == "none"
    ]
    assert places == [(2, 1), (0, 0)]
    dots = [
        tuple(int((float(one.get(f"c{axis}")) - corner[axis]) // SIDE) for axis in "yx")
        for one in root.iter(f"{name}circle")
    ]
    assert sorted(dots) == [(1, 0), (2, 1)]
    assert str(alignment_svg(Bitext(SOURCE, TARGET))).count("<circle") == 0
    with pytest.raises(UnsupError, match="pair 2 does not exist, expected 0 to 1"):
        alignment_svg(BITEXT, DECODED, pair=2)


def test_draws_on_given_axes():
    _, (left, right) = plt.subplots(1, 2)
    assert alignment_grid(BITEXT, DECODED, ax=right) is right
    assert not left.images


def test_bad_input():
    with pytest.raises(UnsupError, match="pair 2 does not exist, expected 0 to 1"):
        alignment_grid(BITEXT, DECODED, pair=2)
    with pytest.raises(UnsupError, match="predicted should be the links of these 2 pairs, actual 'x'"):
        alignment_grid(BITEXT, "x")
    assert plt.get_fignums() == []
