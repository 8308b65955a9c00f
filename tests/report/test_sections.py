"""Every part of the report of every model: there, whole, and with the numbers of the fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup import tasks
from pyro_unsup.data import toy
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.results.evaluation import task_of

from .cases import LABELS, NAMES, TREES, case, run
from .reading import Element, read, section


def task_and_fit(name: str) -> tuple[tasks.Task, pu.Fit, Any]:
    fit, data = case(name)
    inner = fit.unhandled()
    task = task_of(inner.model)
    return task, inner, task.taken(inner, data)


def part(page: Element, name: str) -> Element:
    found = section(page, name)
    assert found is not None, name
    return found


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def source(name: str) -> str:
    fit, data = case(name)
    return fit.report_html(data)


@pytest.fixture(scope="module")
def page(source: str) -> Element:
    return read(source)


def test_one_file_that_fetches_nothing(source: str, page: Element) -> None:
    assert source.startswith('<!doctype html>\n<html lang="en">')
    assert len(source.encode()) < 1_000_000
    for one in ("src=", "@import", "url(", "<link", "<img", "<iframe"):
        assert one not in source
    assert set(re.findall(r"https?://[^\"' <]+", source)) <= {"http://www.w3.org/2000/svg"}
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0].attributes["content"] or ""
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_headings_and_links(page: Element) -> None:
    assert len(page.all("h1")) == 1
    ids = [one.attributes["id"] for one in page.all("section")]
    assert [one.attributes["href"] for one in page.all("nav")[0].all("a")] == [f"#{one}" for one in ids]
    for one in page.all("section"):
        (title,) = one.all("h2")
        assert one.attributes["aria-labelledby"] == title.attributes["id"]
    every = [
        one.attributes.get("id") for one in page.all("section") + page.all("h2") + page.all("div") + page.all("input")
    ]
    named = [one for one in every if one]
    assert len(set(named)) == len(named)
    for one in page.all("svg"):
        assert one.attributes["role"] == "img"
        assert one.children[0].kind == "title"
        assert one.children[0].text.strip()


def test_the_model(name: str, page: Element) -> None:
    fit = case(name).fit.unhandled()
    assert repr(fit.model) in part(page, "model").text
    assert page.all("p", class_="lead")[0].text == task_of(fit.model).about != ""
    if name == "dmv":
        assert "universal" in part(page, "model").text


def test_training(name: str, page: Element) -> None:
    fit, found = case(name).fit, part(page, "training")
    assert f"{fit.report.objective:,.4f}" in found.text
    assert f"{fit.report.iterations:,} iterations" in found.text
    starts = len(fit.report.restarts)
    assert len(found.all("svg")) == (2 if starts > 1 else 1)
    if starts > 1:
        assert f"{starts} starts" in found.text
        assert len(found.all("svg")[0].all("path", class_="faint")) == starts - 1


def test_what_it_learned(name: str, page: Element) -> None:
    found = part(page, "learned")
    task, fit, _ = task_and_fit(name)
    for table in task.show(fit).tables:
        for _, row in table.rows:
            for word, p in row[:3]:
                if p > 0.01:
                    assert word in found.text
    wanted = {"tagger": "What follows what", "hmm": "By state", "dmv": "Strongest attachments"}
    assert wanted.get(name, "ikeliest") in found.text


def test_scores_beside_baselines(name: str, page: Element) -> None:
    task, fit, data = task_and_fit(name)
    found, beside = task.scores(fit, data, task.decode(fit, data)), task.baselines(data)
    rows = part(page, "scores").all("tbody")[0].all("tr")
    assert len(rows) == len(found)
    for row, (score, value) in zip(rows, found.items(), strict=True):
        cells = [one.text for one in row.children]
        assert cells[0] == score.replace("_", " ")
        assert cells[1] == task.score_named(score).show(value)
        others = [task.score_named(score).show(one[score]) if score in one else chr(8211) for one in beside.values()]
        assert cells[2:-1] == others
    beaten = task.beaten(found, beside)
    assert len(part(page, "scores").all("p", class_="worse")) == (beaten is not None)
    main = task.main_score(found)
    assert main is not None
    assert main.show(found[main.name]) in page.all("dl", class_="figures")[0].text


def test_confusion(name: str, page: Element) -> None:
    if name not in LABELS:
        assert section(page, "confusion") is None
        return
    task, fit, data = task_and_fit(name)
    states = task.decode(fit, data).structure.numpy()
    gold, names = task.gold_labels(data), list(data.tagset if name == "tagger" else data.labelset)
    said = [one.attributes["title"] or "" for one in part(page, "confusion").all("td") if "title" in one.attributes]
    counts = [int(re.search(r": ([\d,]+),", one).group(1).replace(",", "")) for one in said]  # type: ignore[union-attr]
    assert sum(counts) == len(states)
    first = part(page, "confusion").all("tbody")[0].all("tr")[0]
    row = names.index(first.children[0].text)
    numbers = [int(one.text or 0) for one in first.all("td")]
    assert abs(sum(numbers) - 100) <= 6
    assert sum(gold == row) > 0


def test_errors_by_kind(name: str, page: Element) -> None:
    task, fit, data = task_and_fit(name)
    decoded = task.decode(fit, data)
    kinds = task.mistakes(fit, data, decoded)
    assert (section(page, "errors") is not None) == bool(kinds)
    for one in kinds:
        assert one.title in part(page, "errors").text
        assert sum(many for _, many in one.rows) <= one.of
    if name in ("dmv", "dmv-ccm"):
        assert kinds[0].of == int((data.heads != decoded.structure.numpy()).sum())
    if name == "segmenter":
        scores = task.scores(fit, data, decoded)
        words = int(data.ends.sum())
        assert kinds[0].of == words - round(scores["token_recall"] * words)
    if name in ("ccm", "pcfg"):
        counts = pu.evaluate.bracket_counts(pu.data.bracket_rows(data), decoded.brackets, data.lengths)
        assert kinds[0].of == int((counts.gold - counts.matched).sum())
        assert kinds[1].of == int(counts.crossing.sum())
    if name in LABELS:
        assert kinds[0].of == round((1 - task.scores(fit, data, decoded)[task.main[-1]]) * len(decoded.structure))


def test_examples(name: str, page: Element) -> None:
    found = part(page, "examples").all("article", class_="example")
    data = case(name).data
    assert len(found) == (1 if name == "hmm" else 20)
    assert len({one.attributes["data-find"] for one in found}) >= 0.8 * len(found)
    for one in found:
        told = [e for e in one.all("g") + one.all("span") + one.all("p") if e.attributes.get("tabindex") == "0"]
        assert told  # a keyboard reaches something in it
        assert any("%" in (e.attributes.get("title") or e.text) for e in told)
        assert re.search(r"\d+(\.\d+)? % sure", one.text)
    if name in TREES or name in ("aligner", "hmm-aligner", "hmm"):
        assert all(one.all("svg") for one in found)
    if name == "tagger":
        number = int(found[0].all("b")[0].text.split()[1])
        assert [one.all("bdi")[0].text for one in found[0].all("span", class_="w")] == data.sentence(number)


def test_by_example_agrees_with_the_scores(name: str) -> None:
    task, fit, data = task_and_fit(name)
    decoded = task.decode(fit, data)
    points, scores = task.by_example(fit, data, decoded), task.scores(fit, data, decoded)
    assert len(points) == len(data)
    if name == "tagger":
        assert points.sum() / data.tokens == pytest.approx(scores["many_to_one"])
    elif name == "clusterer":
        assert points.mean() == pytest.approx(scores["accuracy"])
    elif name in ("dmv", "dmv-ccm"):
        assert points.sum() / data.tokens == pytest.approx(scores["directed"])
    elif name == "hmm":
        assert points.sum() == pytest.approx(scores["log_likelihood"])
    elif name == "aligner":
        assert abs(points.mean() - (1 - scores["aer"])) < 0.1


def test_how_it_was_made(page: Element) -> None:
    made = part(page, "made").text
    assert "fit.report_html(data)" in made
    assert f"pyro-unsup {pu.__version__}" in made


def test_a_loaded_fit_has_the_same_page(name: str, source: str, tmp_path: Path) -> None:
    fit, data = case(name)
    fit.save(tmp_path / "fit")
    again = pu.load(tmp_path / "fit").report_html(data, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == again
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fit", "page.html"]
    one, other = (section(read(text), "examples") for text in (source, again))
    assert one is not None
    assert other is not None
    assert one.text == other.text


def test_no_data_and_no_gold(name: str) -> None:
    fit, data = case(name)
    nothing = read(fit.report_html())
    assert "no gold structure" in part(nothing, "scores").text
    assert "no data to draw" in part(nothing, "examples").text
    assert section(nothing, "confusion") is None
    assert section(nothing, "errors") is None
    if name == "hmm":
        return
    bare = without_gold(name, data)
    page = read(fit.report_html(bare))
    assert "no gold structure" in part(page, "scores").text
    assert len(part(page, "examples").all("article")) == 20
    both = read(fit.report_html(bare, gold=data))
    assert part(both, "scores").all("table")
    assert len(part(both, "examples").all("article")) == 20


def without_gold(name: str, data: Any) -> Any:
    from dataclasses import replace

    if name == "segmenter":
        return replace(data, ends=None)
    if name == "clusterer":
        return replace(data, labels=None, labelset=None)
    if "aligner" in name:
        return replace(data, links=None)
    if name == "tagger":
        return replace(data, tags=None, tagset=None)
    return replace(data, heads=None, spans=None, span_offsets=None)


def test_one_example_only(name: str) -> None:
    fit, data = case(name)
    one = data[:30] if name == "hmm" else data.select([0])
    page = read(fit.report_html(one))
    assert len(part(page, "examples").all("article")) == 1
    assert not page.all("input")  # nothing to search


def test_the_same_page_every_time(name: str, source: str) -> None:
    fit, data = case(name)
    assert fit.report_html(data) == source


def test_a_baseline_that_is_better_is_said_in_red() -> None:
    corpus = toy.sentences(40, seed=1)
    fit = run(pu.models.DMV(tags=["a", "b"]), [[0, 1], [1, 0]], iterations=1)
    task = task_of(fit.model)
    worse = {"directed": 0.1}
    assert task.beaten(worse, {"chain_to_next": {"directed": 0.5}}).startswith(  # type: ignore[union-attr]
        "a trivial baseline is better: if every word's head is the next word, directed is 50.0 %; the model has 10.0 %"
    )
    assert task.beaten(worse, {"chain_to_next": {"directed": 0.05}}) is None
    tags = pu.data.short_tag_sequences(corpus, 8, ["PUNCT"])
    bad = run(pu.models.DMV.of(tags), tags, None, pu.init.uniform(), iterations=0)
    page = read(bad.report_html(tags))
    (red,) = part(page, "scores").all("p", class_="worse")
    assert red.text.startswith("A trivial baseline is better: ")
    assert page.all("small", class_="bad")


def test_vectors_long_series_and_several() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 5)) + 3 * (np.arange(30) > 15)[:, None]
    fit = run(pu.models.HMM(2, "multivariate_normal", dim=5), x, iterations=3)
    page = read(fit.report_html(x))
    assert len(part(page, "examples").all("svg")) == 3
    assert "2 more coordinates are left out" in part(page, "examples").text
    long = random.poisson(4.0, 5000).astype(float)
    long[7] = np.nan
    fit = run(pu.models.HMM(2, "poisson"), long, iterations=2)
    source = fit.report_html(long)
    assert len(source) < 1_000_000
    assert len(part(read(source), "examples").all("article")) == 20
    several = [random.poisson(4.0, 12).astype(float) for _ in range(30)]
    page = read(run(pu.models.HMM(2, "poisson"), several, iterations=2).report_html(several))
    assert len(part(page, "examples").all("article")) == 20


def test_large_tables_are_cut() -> None:
    corpus = toy.sentences(60, seed=1)
    fit = run(pu.models.Tagger(80, corpus.vocab), corpus, iterations=1)
    source = fit.report_html(corpus)
    assert len(source) < 1_000_000
    assert "20 more of them are left out" in part(read(source), "learned").text
    second = run(pu.models.Tagger(4, corpus.vocab, order=2, stop=True), corpus, iterations=1)
    assert part(read(second.report_html(corpus)), "learned").all("svg")


def test_lists_of_words_and_wrong_data() -> None:
    fit, data = case("tagger")
    words = [data.sentence(i) for i in range(3)]
    assert len(part(read(fit.report_html(words)), "examples").all("article")) == 3
    with pytest.raises(UnsupError, match="a report draws a Corpus, or lists of words; actual int"):
        fit.report_html(3)
    with pytest.raises(InputError, match="not one of the 2 words is known to the model"):
        fit.report_html(gold=pu.data.Corpus.of([["xqz", "qzx"]], tags=[["NOUN", "VERB"]]))


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    fit, data = case("tagger")
    with pytest.raises(InputError, match="cannot be written"):
        fit.report_html(data, tmp_path / "no" / "page.html")
    assert not list(tmp_path.iterdir())


def test_small_probabilities_are_not_zero() -> None:
    from pyro_unsup.report.compare_page import p_value

    assert (p_value(0.25), p_value(0.0)) == ("0.25", "< 1e-06")


def test_a_score_below_a_trivial_baseline_is_red() -> None:
    from pyro_unsup.report.scores import scores

    task = pu.tasks.find("tagger")
    found = {"model": {"many_to_one": 0.5, "vi_bits": 3.9}}
    html = str(scores(task, found, {"one_tag": {"many_to_one": 0.2, "vi_bits": 3.2}}))
    assert '<td class="number best">50.0 %</td>' in html
    assert '<td class="number behind">3.900 bits</td>' in html
