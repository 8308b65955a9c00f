"""The site: it builds without a warning, every link leads somewhere, and it works in a browser.

``make -C docs html`` just before spares a build: what is in ``docs/_build/html`` is looked at then, if it is newer than
all that it was made from.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ..browser import DESKTOP, PHONE, Page, browser

pytestmark = pytest.mark.deep
ROOT = Path(__file__).parents[2]
DOCS, BUILT = ROOT / "docs", ROOT / "docs" / "_build" / "html"
#: Folders that the build writes.
MADE = ("_build", "tutorials", "reference/api", "reference/cli", "papers/generated")
#: Pages that a reader looks at first, of every kind.
MAIN = (
    "index.html",
    "tutorials/index.html",
    "tutorials/01_tagging_with_em.html",
    "reference/index.html",
    "reference/api/infer.html",
    "reference/cli/fit-tagger.html",
    "reference/metrics.html",
    "reference/matrix.html",
    "papers/liang-klein-2009.html",
    "glossary.html",
)


class Parsed(HTMLParser):
    """What the links of a page lead to, its pictures, and the places that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.places: set[str] = set()
        self.code = "<pre" in text
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "id" in given:
            self.places.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img":
            self.pictures.append(given.get("src", ""))


def fresh() -> bool:
    """Whether the site that is there is newer than all that it was made from."""
    index = BUILT / "index.html"
    if not index.is_file():
        return False
    made = [DOCS / one for one in MADE]
    sources = [one for one in DOCS.rglob("*") if one.is_file() and not any(one.is_relative_to(up) for up in made)]
    sources += [*(ROOT / "pyro_unsup").rglob("*.py"), *(ROOT / "tutorials").glob("*.*")]
    return max(one.stat().st_mtime for one in sources) <= (BUILT / "objects.inv").stat().st_mtime


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of the built site."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install 'pyro-unsup[docs]'")
    if not fresh():
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = ["make", "-C", str(DOCS), "html", f"PYTHON={sys.executable}"]
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-5000:]
    return BUILT


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Parsed]:
    found = [one for one in site.rglob("*.html") if "_modules" not in one.parts and "_static" not in one.parts]
    return {one: Parsed(one.read_text()) for one in found}


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served, on this machine only."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    with browser() as page:
        yield page


def outside(link: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:|//)", link))


def test_every_link_leads_somewhere(pages: dict[Path, Parsed]) -> None:
    wrong = []
    for page, parsed in pages.items():
        for link in parsed.links:
            path, _, place = urllib.parse.unquote(link).partition("#")
            if outside(link) or "?" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.is_file() or (place and known is not None and place not in known.places):
                wrong.append(f"{page.name}: {link}")
    assert not wrong, wrong[:20]
    assert sum(len(one.links) for one in pages.values()) > 5000


def test_every_picture_is_there(pages: dict[Path, Parsed]) -> None:
    shown = [(page, one) for page, parsed in pages.items() for one in parsed.pictures]
    wrong = [f"{page.name}: {one}" for page, one in shown if not one.startswith("data:") and (
        outside(one) or not (page.parent / urllib.parse.unquote(one)).is_file())]  # fmt: skip
    assert not wrong, wrong
    assert len(shown) > 20


def test_nothing_is_fetched_from_elsewhere(pages: dict[Path, Parsed]) -> None:
    fetched = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^"']+""")
    wrong = [f"{page.name}: {one}" for page in pages for one in fetched.findall(page.read_text())]
    assert not wrong, wrong[:10]


def article(page: Path) -> str:
    """The text of a page, without logos and menus."""
    return page.read_text().partition("<article")[2].partition("</article>")[0]


@pytest.mark.parametrize("folder", ["start", "howto", "coming_from", "explanation", "tutorials"])
def test_pages_that_teach_have_an_example_and_a_picture(site: Path, pages: dict[Path, Parsed], folder: str) -> None:
    inside = [page for page in pages if page.parent == site / folder and page.name not in ("index.html", "mini.html")]
    without = [page.name for page in inside if not pages[page].code]
    assert not without, f"no example in {without}"
    without = [page.name for page in inside if not re.search("<(img|svg) ", article(page))]
    assert not without, f"no picture in {without}"


def test_every_public_name_has_a_place(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    from .test_public_names import public_modules

    with (site / "objects.inv").open("rb") as file:
        known = InventoryFile.load(file, "", os.path.join)
    places = {name for kind, names in known.items() if kind.startswith("py:") for name in names}
    wanted = {f"{path}.{name}" for path, module in public_modules().items() for name in module.__all__}
    modules = {f"pyro_unsup.{room}.{name}" for room, name in (
        ("infer", "init"), ("infer", "schedules"), ("handlers", "components"), ("estimate", "templates"))}  # fmt: skip
    missing = sorted(wanted - places - modules)  # modules that have two paths are documented under the shorter one
    assert not missing, missing
    assert len(wanted) > 350


@pytest.mark.parametrize("word", ["viterbi", "aer", "dmv", "gibb", "anneal"])
def test_the_index_of_the_search_knows(site: Path, word: str) -> None:
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    assert word in index["terms"], f"the search finds no {word}"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", MAIN)
def test_a_page_in_a_browser(window: Page, address: str, size: tuple[int, int], name: str) -> None:
    window.open(address + name, size)
    wait(window, "return document.readyState === 'complete'")
    assert window.overflow() <= 0, "wider than the window"
    sizes = window.js(
        "return [...document.images].filter(one => one.offsetParent)"
        ".map(one => [one.src, one.complete, one.naturalWidth])"
    )
    wrong = [source for source, complete, width in sizes if not complete or not width]
    assert not wrong, wrong
    assert not errors(window)


def test_the_search_finds(window: Page, address: str) -> None:
    window.open(f"{address}search.html?q=Viterbi")
    wait(window, "return document.querySelectorAll('#search-results li a').length > 0")
    assert not errors(window)


def test_the_page_can_be_dark(window: Page, address: str) -> None:
    window.open(f"{address}index.html")
    colour = "return getComputedStyle(document.body).backgroundColor"
    mode = "return document.documentElement.dataset.theme"
    assert window.js(mode) == "light"
    light = window.js(colour)
    window.all(".theme-switch-button")[0].click()
    window.all(".theme-switch-container.dropdown .theme-change-button[data-mode=dark]")[0].click()
    assert window.js(mode) == "dark"
    assert window.js(colour) != light


def wait(window: Page, code: str, seconds: float = 20) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(window.driver, seconds).until(lambda _: window.js(code))


def errors(window: Page) -> list[str]:
    """What the console complains of. The theme notes there which of its modes is on, which is no complaint."""
    return [one for one in window.console() if "[PST]" not in one]
