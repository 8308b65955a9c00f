"""A real browser for tests: headless Chromium, driven by selenium. Tests are skipped where either is missing.

``PYRO_UNSUP_SCREENSHOTS=FOLDER`` keeps the screenshots, for a person to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DESKTOP, PHONE = (1200, 900), (390, 844)
#: A browser that calls home, or asks questions, is of no use in a test.
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)

#: A point of the window at which an element is on top of all others.
PLACE = """
const box = arguments[0].getBoundingClientRect();
for (let i = 1; i < 60; i++) for (let j = 1; j < 60; j++) {
  const x = box.left + (box.width * j) / 60, y = box.top + (box.height * i) / 60;
  const top = document.elementFromPoint(x, y);
  if (top && arguments[0].contains(top)) return [x, y];
}
throw new Error("the pointer cannot reach " + arguments[0].outerHTML);
"""


class Page:
    """A page in the browser.

    :param driver: of selenium.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str | Path, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        """Open a file or an address in a window of this size."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get(address.resolve().as_uri() if isinstance(address, Path) else address)

    def js(self, code: str, *arguments: object) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[Any]:
        """Every element that a CSS selector finds."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def point_at(self, part: Any) -> None:
        """Bring the pointer to a place where this element is on top: the middle of an arc is not on the arc."""
        self.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", part)
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        x, y = self.js(PLACE, part)
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def console(self) -> list[str]:
        """What the console said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(self.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def screenshot(self, name: str, folder: Path) -> Path:
        """The whole page as a PNG file, in the folder of the environment variable, or in this one."""
        where = Path(os.environ.get("PYRO_UNSUP_SCREENSHOTS", folder))
        where.mkdir(parents=True, exist_ok=True)
        width, height = self.js("return [document.documentElement.clientWidth, document.body.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        import base64

        path = where / f"{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))
        return path


@contextmanager
def browser() -> Iterator[Page]:
    """A browser of our own, which ends with the block."""
    selenium = pytest.importorskip("selenium", reason="selenium is not installed: pip install 'pyro-unsup[browser]'")
    del selenium
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium here, or no chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for one in QUIET:
        options.add_argument(one)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Page(started)
    finally:
        started.quit()
