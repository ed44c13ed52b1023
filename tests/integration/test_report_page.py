"""Pages of reports and sensitivities in a browser: charts, tooltips, keyboard, accessibility, no request."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from found_sensitivity import found_sensitivity
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
from PIL import Image
from report_rows import emulated, report, row

from harness.accuracy.picture_detections import Detection, PictureDetections, compare_pictures
from harness.measure.result import TimePoint
from harness.report.comparison import compared_with_fp32
from harness.report.html import html
from harness.report.result import BoxLoss, Details, Report, Row
from harness.report.sensitivity_page import sensitivity_page
from harness.runtimes.base import LayerResult

_POINTS = [TimePoint(seconds=30.0 * n, fps=20.0 - n, celsius=50.0 + n, clock=1.0) for n in range(1, 9)]
_HOSTILE = "mixed</script><img src=x onerror=alert(1)>"
# The report: fronts, maps and layers of both boards, of the emulated one a drawing for each cell; latency,
# three figures over time, and a comparison.
# The sensitivities: bars of the layers, and the path. test_recorded_pages.py has the page of a search.
CHARTS = {"report": 13, "sensitivity": 2}
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
            predicted_compute_ns=1_000_000 + 100_000 * index,
            predicted_activation_ns=200_000,
            predicted_conversion_ns=300_000,
            predicted_memory_ns=500_000 - 100_000 * index,
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
    return replace(report(*compared_with_fp32(rows)), box_losses=_losses())


def _losses() -> list[BoxLoss]:
    """Of two policies, one with a picture and one whose picture is gone."""
    cat, other, dog = (0.1, 0.2, 0.5, 0.6), (0.3, 0.05, 0.65, 0.4), (0.9, 0.9, 0.3, 0.3)
    fp32, policy = (
        PictureDetections(
            path=f"/{_HOSTILE}.png",
            sha256="ab",
            found=[Detection(name=name, confidence=0.7, box=box) for name, box in found.items()],
        )
        for found in ({"cat": cat, _HOSTILE: other, "dog": dog}, {"cat": cat, "bird": other, "dog": dog})
    )
    encoded = io.BytesIO()
    Image.linear_gradient("L").save(encoded, format="JPEG")
    gone = BoxLoss(
        model=_HOSTILE,
        policy=_HOSTILE,
        runtime=_HOSTILE,
        recommended_on=[_HOSTILE],
        pictures=1,
        kept=2,
        lost=1,
        new=1,
        worst=compare_pictures([policy], [fp32])[0],
        jpeg_unavailable_reason=_HOSTILE,
    )
    return [replace(gone, jpeg=encoded.getvalue(), size=(256, 256)), gone]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("page")
    pages = {"report": html(page()), "sensitivity": sensitivity_page(found_sensitivity(_HOSTILE), _HOSTILE)}
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
    last = "[...document.querySelectorAll('.drawing')].at(-1)"
    browser.execute_script(f"{last}.scrollIntoView()")
    wait_until(browser, f"{last}.querySelector('svg.marks')")
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
