"""Words of strangers never become markup."""

from __future__ import annotations

import pyro_unsup as pu

from .cases import run
from .reading import read

HOSTILE = [
    "</script><img/src=x/onerror=alert(1)>", "<script>alert(1)</script>", '"onmouseover="alert(1)', "'><svg/onload=x>",
    "]]>", "&lt;b&gt;", "{{7*7}}", chr(27) + "[2J", chr(0x202E) + "txt", "שלום", "😀", "x" * 5000,
]  # fmt: skip


def test_hostile_words_stay_text() -> None:
    corpus = pu.data.Corpus.of([HOSTILE, HOSTILE[::-1]] * 3, tags=[HOSTILE, HOSTILE[::-1]] * 3)
    fit = run(pu.models.Tagger(4, corpus.vocab), corpus, iterations=2)
    source = fit.report_html(corpus, title=HOSTILE[0])
    page = read(source)  # which refuses images, and elements that do not nest
    assert len(page.all("script")) == 1
    assert "x" * 200 not in page.all("main")[0].text  # long words are cut
    assert not any(
        name.startswith("on")
        for kind in ("span", "svg", "g", "td")
        for one in page.all(kind)
        for name in one.attributes
    )
    assert HOSTILE[0] in page.all("h1")[0].text
