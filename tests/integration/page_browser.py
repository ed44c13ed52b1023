"""Chromium for tests of pages: opening them, what they request, and barriers that axe finds."""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1400, 400)  # pixels
SCHEMES = ("light", "dark")
_AXE_SECONDS = 300  # of a large page, on a busy machine
_HEIGHT = 900


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser, driven by Selenium, that logs messages and requests."""
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    loopback = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # and no other address
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", loopback):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    driver.set_script_timeout(_AXE_SECONDS)
    driver.command_executor.client_config.timeout = _AXE_SECONDS  # which is less than that otherwise
    try:
        yield driver
    finally:
        driver.quit()


def view(browser: Any, width: int, scheme: str = "light") -> None:
    """Sets the window's width in pixels and the colour scheme."""
    size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def wait_until(browser: Any, script: str) -> Any:
    """Waits until an expression of JavaScript is true, and returns its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    waiting = WebDriverWait(browser, 60, poll_frequency=0.05)
    return waiting.until(lambda driver: driver.execute_script(f"return {script}"))


def opened(browser: Any, file: Path, width: int, scheme: str = "light") -> None:
    """Opens a page and draws all its charts, also those that are not in view."""
    view(browser, width, scheme)
    browser.get(file.as_uri())
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    wait_until(browser, "document.querySelectorAll('.drawing').length === " + DRAWN)


DRAWN = "document.querySelectorAll('.drawing svg.marks').length"


def requested(browser: Any) -> list[str]:
    """The addresses of all requests since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


def check_opens_cleanly(browser: Any, file: Path, width: int, scheme: str) -> None:
    """Opens a page; it must print no message, request nothing, and be no wider than the window."""
    browser.get_log("browser")
    requested(browser)
    opened(browser, file, width, scheme)
    assert browser.get_log("browser") == []
    assert [url for url in requested(browser) if not url.startswith("data:")] == [file.as_uri()]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def check_accessible(browser: Any, file: Path, scheme: str, alike: int | None = None) -> None:
    """axe-core must find no serious barrier in a page, and must have checked its contrasts.

    It looks at no more than `alike` rows of a table and marks of a chart: it needs minutes for thousands.
    """
    pytest.importorskip("axe_core_python")
    opened(browser, file, min(WIDTHS), scheme)
    if alike is not None:
        browser.execute_script(
            "const parts = { tbody: 'tr', '.drawing': '[aria-roledescription]', '.sides svg': 'g' };"
            "for (const [group, kind] of Object.entries(parts))"
            "  document.querySelectorAll(group).forEach(each => [...each.querySelectorAll(kind)]"
            f"    .slice({alike}).forEach(one => one.remove()))"
        )
    # Barriers out of view count as well.
    browser.execute_script(
        "document.querySelectorAll('.wide').forEach(e => e.style.contentVisibility = 'visible')"
    )
    browser.execute_script(
        importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    )
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
    )
    assert "color-contrast" in {rule["id"] for rule in found["passes"]}
    serious = [
        (issue["id"], issue["nodes"][0]["html"][:200], issue["nodes"][0]["failureSummary"])
        for issue in found["violations"]
        if issue["impact"] in ("serious", "critical")
    ]
    assert serious == []
