"""Reports in a real browser: pictures are there, search works, nothing overflows, the console is silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyro_unsup as pu

from ..browser import DESKTOP, PHONE, Page, browser
from .cases import NAMES, case

pytestmark = pytest.mark.deep
SIZES = {"desktop": DESKTOP, "phone": PHONE}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=NAMES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    fit, data = case(request.param)
    out = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    fit.report_html(data, out=out)
    return out


@pytest.mark.parametrize("size", SIZES)
def test_it_is_whole(page: Page, report: Path, size: str) -> None:
    page.console()
    page.open(report, SIZES[size])
    page.screenshot(f"report-{report.stem}-{size}", report.parent)
    boxes = page.js("return [...document.querySelectorAll('main svg')].map(one => one.getBoundingClientRect().width)")
    assert boxes
    assert min(boxes) > 0
    assert page.overflow() <= 0
    assert page.console() == []


def test_search_filters_the_examples(page: Page, report: Path) -> None:
    page.open(report)
    shown = "return [...document.querySelectorAll('article.example')].filter(one => one.offsetHeight > 0).length"
    every = page.js(shown)
    assert every >= 1
    if every == 1:  # nothing to search
        return
    (find,) = page.all("#find")
    find.send_keys("no example has these words")
    assert page.js(shown) == 0
    find.clear()
    find.send_keys(page.js("return document.querySelector('article.example').dataset.find.split(' ')[0]"))
    assert 1 <= page.js(shown) <= every


def test_pointing_at_a_part_shows_its_probability(page: Page, report: Path) -> None:
    page.open(report)
    (box,) = page.all("#tip")
    assert not box.is_displayed()
    parts = page.all("article.example [data-tip]")
    assert parts
    page.point_at(parts[0])
    assert box.is_displayed()
    assert box.text == parts[0].get_attribute("data-tip")
    assert re.search(r"\d", box.text)
    page.point_at(page.all("h1")[0])
    assert not box.is_displayed()


def test_hostile_words_stay_words(page: Page, tmp_path: Path) -> None:
    words = ["<script>document.title='broken'</script>", "\"><img/src=x/onerror=document.title='broken'>", "&lt;b&gt;"]
    corpus = pu.data.Corpus.of([words, words[::-1]] * 3)
    fit = pu.EM(pu.models.Tagger(tags=2, vocab=corpus.vocab)).run(corpus, iterations=2, progress=False)
    out = tmp_path / "hostile.html"
    fit.report_html(corpus, out=out)
    page.console()
    page.open(out)
    assert page.driver.title != "broken"
    assert page.all("main img") == []
    assert page.console() == []
    text = page.js("return document.body.innerText")
    assert all(word in text for word in words)
