"""Pages of reports and searches in a browser: charts, tooltips, keyboard, accessibility, no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from found_search import found_search
from page_browser import (
    DRAWN,
    SCHEMES,
    WIDTHS,
    check_accessible,
    check_opens_cleanly,
    chromium,
    opened,
    view,
    wait_until,
)
from report_rows import emulated, report, row

from harness.measure.result import TimePoint
from harness.report.comparison import compared_with_fp32
from harness.report.html import html
from harness.report.result import Details, Report, Row
from harness.report.search_page import search_page
from harness.runtimes.base import LayerResult

_POINTS = [TimePoint(seconds=30.0 * n, fps=20.0 - n, celsius=50.0 + n, clock=1.0) for n in range(1, 9)]
_HOSTILE = "mixed</script><img src=x onerror=alert(1)>"
# The report: fronts, maps and layers of both boards; latency, three figures over time, and a comparison.
# The search: agreement, accuracy, and the layers of the best policy.
CHARTS = {"report": 12, "search": 3}
_IDLE = f"const done = arguments[0]; requestIdleCallback(() => setTimeout(() => done({DRAWN}), 300))"


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
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("page")
    pages = {"report": html(page()), "search": search_page(found_search(_HOSTILE), _HOSTILE)}
    for kind, content in pages.items():
        (folder / f"{kind}.html").write_text(content, encoding="utf-8")
    return {kind: folder / f"{kind}.html" for kind in pages}


@pytest.fixture(scope="module")
def file(files: Mapping[str, Path]) -> Path:
    """The page of the report."""
    return files["report"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", CHARTS)
def test_the_page_is_drawn_without_errors_and_requests(
    browser: Any, files: Mapping[str, Path], kind: str, width: int, scheme: str
) -> None:
    check_opens_cleanly(browser, files[kind], width, scheme)
    assert browser.execute_script(f"return {DRAWN}") == CHARTS[kind]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", CHARTS)
def test_axe_finds_no_serious_barrier(
    browser: Any, files: Mapping[str, Path], kind: str, scheme: str
) -> None:
    check_accessible(browser, files[kind], scheme)


def test_charts_out_of_view_are_drawn_when_they_are_reached_or_printed(browser: Any, file: Path) -> None:
    view(browser, 1400)
    browser.get(file.as_uri())
    wait_until(browser, f"{DRAWN} > 0")
    # Twice: once for charts that are being drawn, once for an idle page.
    counts = [browser.execute_async_script(_IDLE) for _ in range(2)]
    assert 0 < counts[0] == counts[1] < CHARTS["report"]
    browser.execute_script("scrollTo(0, document.documentElement.scrollHeight)")
    wait_until(browser, "document.querySelector('section:last-of-type .drawing:last-of-type svg.marks')")
    assert browser.execute_script(f"return {DRAWN}") < CHARTS["report"]
    browser.execute_script(f"addEventListener('afterprint', () => window.printed = {DRAWN})")
    browser.execute_cdp_cmd("Page.printToPDF", {})
    assert browser.execute_script("return window.printed") == CHARTS["report"]


def test_a_table_out_of_view_is_laid_out_when_it_is_reached_and_moves_nothing(
    browser: Any, file: Path
) -> None:
    view(browser, 1400)
    browser.get(file.as_uri())
    table = "[...document.querySelectorAll('section > .wide')].at(-1)"
    laid_out = f"{table}.firstElementChild.checkVisibility({{ contentVisibilityAuto: true }})"
    assert not browser.execute_script(f"return {laid_out}")
    reserved = browser.execute_script(f"return {table}.offsetHeight")
    browser.execute_script(f"{table}.scrollIntoView()")
    wait_until(browser, laid_out)
    assert browser.execute_script(f"return {table}.offsetHeight") == pytest.approx(reserved, abs=40)


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
