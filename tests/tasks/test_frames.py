"""Structure as tables: `Fit.to_frame`, and pictures of it by `Fit.plot`."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.distributions.cells import arcs_of, spans_of
from pyro_unsup.errors import UnsupError

from .test_task import FITS


@pytest.mark.parametrize("name", FITS)
def test_every_model_has_a_table(name: str) -> None:
    fit, data = FITS[name]
    frame = fit.to_frame(data)
    assert len(frame) > 0
    assert frame["probability"].between(0, 1).all()
    assert frame.columns[-1] == "probability"
    if name == "clusterer":
        assert len(frame) == len(data)
    elif name not in ("ccm", "pcfg", "aligner"):
        assert len(frame) == data.tokens


def test_words_and_tags() -> None:
    fit, text = FITS["tagger"]
    frame = fit.to_frame(text, how="mbr")
    states, marginals = fit.predict(text, how="mbr", probabilities=True)
    assert list(frame.columns) == ["sentence", "position", "word", "tag", "probability"]
    assert frame["word"].tolist() == [word for i in range(len(text)) for word in text.sentence(i)]
    assert frame["tag"].tolist() == states.tolist()
    np.testing.assert_allclose(frame["probability"], marginals.max(-1).values)
    for i, some in frame.groupby("sentence"):
        assert some["position"].tolist() == list(range(1, len(text.sentence(i)) + 1))
    named = fit.relabel(text)
    assert set(named.to_frame(text)["tag"]) <= set(text.tagset)
    tempered = pu.EM(pu.temper(pu.models.Tagger(2, text.vocab), 0.5)).run(text, iterations=1, progress=False)
    assert len(tempered.to_frame(text)) == text.tokens


@pytest.mark.parametrize("name", ["dmv", "dmv-ccm"])
def test_heads(name: str) -> None:
    fit, text = FITS[name]
    frame, decoded = fit.to_frame(text), fit.decode(text)
    assert frame["head"].tolist() == decoded.structure.tolist()
    cells = zip(*(x.tolist() for x in arcs_of(decoded.lengths)), decoded.posterior.marginals.tolist(), strict=True)
    known = {(sentence, head, child): p for sentence, head, child, p in cells}
    rows = zip(frame["sentence"], frame["head"], frame["position"], strict=True)
    np.testing.assert_allclose(frame["probability"], [known[row] for row in rows])


def test_constituents() -> None:
    fit, text = FITS["ccm"]
    frame, decoded = fit.to_frame(text), fit.decode(text)
    assert list(frame.columns) == ["sentence", "first", "last", "words", "probability"]
    wide = [tuple(row) for row in decoded.brackets.tolist() if row[2] - row[1] > 1]
    found = zip(frame["sentence"], frame["first"] - 1, frame["last"], strict=True)
    assert sorted(found) == sorted(wide)
    spans = zip(*(x.tolist() for x in spans_of(decoded.lengths)), decoded.posterior.marginals.tolist(), strict=True)
    known = {(sentence, start, end): p for sentence, start, end, p in spans}
    for row in frame.itertuples():
        assert row.words == " ".join(text.sentence(row.sentence)[row.first - 1 : row.last])
        assert row.probability == pytest.approx(known[row.sentence, row.first - 1, row.last])


def test_ends_of_segments() -> None:
    fit, lines = FITS["segmenter"]
    frame, decoded = fit.to_frame(lines), fit.decode(lines)
    assert frame["end"].tolist() == [one == 1 for one in decoded.structure.tolist()]
    last = frame.groupby("sentence").tail(1)
    assert last["end"].all()
    np.testing.assert_allclose(last["probability"], 1)  # a line always ends in the end of a segment
    ends = decoded.posterior.marginals.sum(-1).numpy()
    np.testing.assert_allclose(frame["probability"], np.where(frame["end"], ends, 1 - ends), atol=1e-12)


def test_clusters() -> None:
    fit, documents = FITS["clusterer"]
    frame = fit.to_frame(documents)
    assert list(frame.columns) == ["document", "cluster", "probability"]
    assert frame["cluster"].tolist() == fit.predict(documents).tolist()
    np.testing.assert_allclose(frame["probability"], fit.decode(documents).posterior.marginals.max(-1).values)


def test_links() -> None:
    fit, pairs = FITS["aligner"]
    frame, decoded = fit.to_frame(pairs, how="union"), fit.decode(pairs, how="union")
    assert len(frame) == len(decoded.links.rows)
    forward = iter(decoded.forward.tolist())
    known = {
        (pair, i, j): next(forward)
        for pair in range(len(pairs))
        for i in range(len(pairs.source.sentence(pair)))
        for j in range(len(pairs.target.sentence(pair)))
    }
    for row in frame.itertuples():
        i, j = row.source_position - 1, row.target_position - 1
        assert row.source_word == pairs.source.sentence(row.sentence)[i]
        assert row.target_word == pairs.target.sentence(row.sentence)[j]
        assert row.forward == pytest.approx(known[row.sentence, i, j])
        assert row.probability == pytest.approx((row.forward + row.backward) / 2)


def test_data_without_words_are_refused() -> None:
    fit, text = FITS["ccm"]
    with pytest.raises(UnsupError, match="a table needs data with a vocabulary, such as a Corpus, Documents"):
        fit.to_frame(fit.model.index(text))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in FITS if name != "segmenter"])
def test_fits_draw_data(name: str) -> None:
    fit, data = FITS[name]
    options: dict[str, Any] = {"pair": 1} if name == "aligner" else {}
    options |= {"sentence": 1} if name in ("dmv", "ccm", "dmv-ccm", "pcfg") else {}
    _, ax = plt.subplots()
    assert fit.plot(data, ax=ax, **options) is ax
    plt.close("all")


def test_fits_draw_their_learning_curve() -> None:
    fit, data = FITS["tagger"]
    assert fit.plot().get_xlabel() == "iteration"
    assert len(fit.plot("seconds").figure.axes) == len(fit.plot(score="seconds").figure.axes) == 2
    with pytest.raises(UnsupError, match="a score belongs to the learning curve: leave out the score, or the data"):
        fit.plot(data, score="seconds")
    with pytest.raises(UnsupError, match="the task segmenter draws nothing"):
        FITS["segmenter"][0].plot(FITS["segmenter"][1])
    plt.close("all")
