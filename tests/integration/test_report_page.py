"""A report's page in a browser: charts, tooltips, keyboard, accessibility, and no request to anywhere."""

from __future__ import annotations

import importlib.resources
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_rows import emulated, report, row

from harness.measure.result import TimePoint
from harness.report.comparison import compared_with_fp32
from harness.report.html import html
from harness.report.result import Details, Report, Row
from harness.runtimes.base import LayerResult

_POINTS = [TimePoint(seconds=30.0 * n, fps=20.0 - n, celsius=50.0 + n, clock=1.0) for n in range(1, 9)]
_HOSTILE = "mixed</script><img src=x onerror=alert(1)>"
_WIDTHS = (1400, 400)
_SCHEMES = ("light", "dark")


def page() -> Report:
    """A report with every chart: a board and an emulated one, with names that could be markup."""
    layers = [
        LayerResult(
            index=index,
            type="convolutional",
            precision="int8",
            executed="int8",
            isa="neon",
            algorithm="gemm",
            ns=1_000_000,
            conversion_ns=100_000 * (index % 2),
            bytes=1,
            predicted_ns=2_000_000,
        )
        for index in range(6)
    ]
    details = Details(layers=layers, rounds=[[1_000_000 * n for n in range(1, 9)]] * 3)
    emulated_details = Details(layers=layers, rounds=[])
    rows: list[Row] = []
    for policy, fps, accuracy in (("fp32", 50.0, 0.9), (_HOSTILE, 90.0, 0.89), ("int8", 100.0, 0.7)):
        known = {"accuracy": accuracy, "options": f"o{_HOSTILE}"}
        measured = {"fps": fps, "fps_interval": (fps - 2, fps + 2), "time_series": _POINTS}
        rows.append(row(policy, target="pi4", details=details, **measured, **known))
        rows.append(
            emulated(policy, predicted_ms=1e3 / fps, predicted_fps=fps, details=emulated_details, **known)
        )
    return report(*compared_with_fp32(rows))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(page()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    try:
        yield driver
    finally:
        driver.quit()


def opened(browser: Any, file: Path, width: int, scheme: str = "light") -> None:
    """Opens the page and waits until all charts are drawn."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(file.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    drawn = "return document.documentElement.dataset.charts === 'drawn'"
    WebDriverWait(browser, 60, poll_frequency=0.05).until(lambda driver: driver.execute_script(drawn))


def requested(browser: Any) -> list[str]:
    """The addresses of all requests since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("scheme", _SCHEMES)
def test_the_page_is_drawn_without_errors_and_requests(
    browser: Any, file: Path, width: int, scheme: str
) -> None:
    browser.get_log("browser")
    requested(browser)
    opened(browser, file, width, scheme)
    assert browser.get_log("browser") == []
    assert [url for url in requested(browser) if not url.startswith("data:")] == [file.as_uri()]
    charts = browser.execute_script("return document.querySelectorAll('script.chart').length")
    # fronts, maps and layers of both boards; latency, three figures over time, and two boards compared
    assert charts == 12
    assert browser.execute_script("return document.querySelectorAll('.drawing svg.marks').length") == charts
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", _SCHEMES)
def test_axe_finds_no_serious_barrier(browser: Any, file: Path, scheme: str) -> None:
    opened(browser, file, min(_WIDTHS), scheme)
    browser.execute_script(axe())
    found = browser.execute_async_script("const done = arguments[0]; axe.run(document).then(done)")
    assert "color-contrast" in {rule["id"] for rule in found["passes"]}
    serious = [
        (issue["id"], issue["nodes"][0]["html"][:200], issue["nodes"][0]["failureSummary"])
        for issue in found["violations"]
        if issue["impact"] in ("serious", "critical")
    ]
    assert serious == []


def axe() -> str:
    """The script of axe-core."""
    pytest.importorskip("axe_core_python")
    return importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")


def test_pointing_at_a_mark_or_reaching_it_by_tab_shows_its_cell(browser: Any, file: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    opened(browser, file, 1400)
    marks = browser.find_elements(By.CSS_SELECTOR, ".drawing [tabindex='0']")
    ActionChains(browser).move_to_element(marks[1]).perform()
    shown = browser.find_element(By.ID, "vg-tooltip-element")
    assert "visible" in shown.get_attribute("class")
    assert _HOSTILE in shown.text
    ActionChains(browser).move_by_offset(0, -250).perform()
    reached, texts = set(), []
    for _ in range(25):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        name, text = browser.execute_script(
            "const tip = document.getElementById('vg-tooltip-element');"
            "return [document.activeElement.tagName.toLowerCase(),"
            " tip.classList.contains('visible') ? tip.textContent : '']"
        )
        reached.add(name)
        texts.append(text)
    assert {"path", "div", "summary"} <= reached  # marks, tables that scroll, data to open
    assert any("int8" in text for text in texts)
