"""What a notebook shows."""

from __future__ import annotations

from copy import copy, deepcopy
from html.parser import HTMLParser

import pytest
import torch

import pyro_unsup as pu

from .cases import anonymous, own

EVIL = "<script>alert('1')</script>&\"<img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.attributes: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_it_is_a_table_of_what_matters() -> None:
    fit = anonymous()
    page = Tags(fit._repr_html_())
    assert page.open == []
    assert set(page.seen) == {"table", "caption", "tr", "th", "td"}
    cells = dict(zip(page.text[1::2], page.text[2::2], strict=True))
    assert page.text[0] == "Fit"
    assert cells["model"] == repr(fit.model)
    assert "engine EM" in cells["engine"]
    assert cells["outcome"].startswith("iteration cap after 3 iterations")
    assert cells["objective"] == f"{fit.objective:,.4f}"
    assert cells["seed"] == "0"
    assert cells["table emission"] == f"4 \N{MULTIPLICATION SIGN} {len(fit.model.vocab)}"  # type: ignore[attr-defined]
    assert "restarts" not in cells


def test_restarts_are_summed_up() -> None:
    fit = copy(anonymous())
    fit.report = deepcopy(fit.report)
    fit.report.restarts = [-2000.0, -1000.0]
    cells = Tags(fit._repr_html_()).text
    assert cells[cells.index("restarts") + 1] == "2: lowest -2,000.00, mean -1,500.00, highest -1,000.00"


def test_nothing_that_a_user_or_a_file_names_is_markup() -> None:
    def model() -> None: ...

    model.__qualname__ = EVIL
    report = deepcopy(anonymous().report)
    report.reason = EVIL
    fit = pu.Fit(model, {EVIL: torch.zeros(2)}, report, anonymous().rows, 0, {EVIL: EVIL, "labels": [EVIL]})
    page = Tags(fit._repr_html_())
    assert set(page.seen) == {"table", "caption", "tr", "th", "td"}
    assert page.attributes == {"style"}
    assert sum(EVIL in part for part in page.text) == 4  # model, engine, outcome, table


@pytest.mark.parametrize("make", [anonymous, own])
def test_a_loaded_fit_shows_the_same(make: object, tmp_path: object) -> None:
    fit = make()  # type: ignore[operator]
    fit.save(f"{tmp_path}/fit")
    assert pu.load(f"{tmp_path}/fit", fit.model)._repr_html_() == fit._repr_html_()
