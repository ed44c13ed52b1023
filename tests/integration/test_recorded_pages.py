"""Pages of real runs in a browser: messages, requests, charts, barriers, keyboard, and golden pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from page_browser import (
    DRAWN,
    SCHEMES,
    WIDTHS,
    check_accessible,
    check_opens_cleanly,
    chromium,
    opened,
)
from page_pictures import MOVED, differing, picture, picture_file, pictured
from PIL import Image
from recorded_pages import NAMES, page

CHARTS = {"quickstart": 10, "ablation": 2, "runtimes": 30, "sustained": 4, "search": 3, "large": 58}
# The text of the tooltip, if it is visible.
_SHOWN = (
    "const tip = document.getElementById('vg-tooltip-element');"
    "return tip && tip.classList.contains('visible') ? tip.textContent : ''"
)
AT_MOST = 3_000_000  # bytes of a page
ALIKE = {"runtimes": 12, "large": 12}  # rows and marks that axe looks at, of pages with thousands


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a page, which is written for the first test that asks."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        file = folder / f"{name}.html"
        file.write_text(page(name), encoding="utf-8")
        return file

    return cache(write)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_cleanly_and_looks_like_its_golden_picture(
    browser: Any, file_of: Callable[[str], Path], name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    file = file_of(name)
    assert file.stat().st_size < AT_MOST
    check_opens_cleanly(browser, file, width, scheme)
    assert browser.execute_script(f"return {DRAWN}") == CHARTS[name]
    found = pictured(browser, width)
    found.save(picture_file(name, width, scheme, tmp_path))
    with Image.open(picture_file(name, width, scheme)) as golden:
        assert differing(found, golden) <= MOVED, f"compare {tmp_path} with the golden picture"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_serious_barrier(
    browser: Any, file_of: Callable[[str], Path], name: str, scheme: str
) -> None:
    check_accessible(browser, file_of(name), scheme, ALIKE.get(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_pointer_and_the_keyboard_reach_the_cells_of_a_chart(
    browser: Any, file_of: Callable[[str], Path], name: str
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    opened(browser, file_of(name), 1400)
    # Charts of more marks than a keyboard can pass have their figures as a table that can be opened.
    figures = "[...document.querySelectorAll('.drawing')].map(each => each.closest('figure'))"
    assert browser.execute_script(f"return {figures}.every(each => each.querySelector('summary'))")
    charts = browser.find_elements(By.CLASS_NAME, "drawing")
    marks = next(
        found for chart in charts if len(found := chart.find_elements(By.CSS_SELECTOR, "[tabindex='0']")) > 1
    )
    texts = set()
    for mark in marks[:8]:  # of a line, the middle of its box is beside it
        ActionChains(browser).move_to_element(mark).perform()
        texts.add(browser.execute_script(_SHOWN))
    assert texts - {""}
    ActionChains(browser).move_to_element(browser.find_element(By.TAG_NAME, "h1")).perform()
    assert not browser.execute_script(_SHOWN)
    browser.execute_script("arguments[0].focus()", marks[0])
    first = browser.execute_script(_SHOWN)
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert first != browser.execute_script(_SHOWN) != ""


@pytest.mark.parametrize(
    "change",
    [
        "document.body.style.fontFamily = 'serif'",
        "document.body.style.paddingTop = '30px'",
        "document.body.style.background = '#ffc'",
        "document.querySelectorAll('.drawing')[5].style.visibility = 'hidden'",
    ],
    ids=["font", "place", "colour", "chart"],
)
def test_a_page_that_looks_different_does_not_pass(
    browser: Any, file_of: Callable[[str], Path], change: str
) -> None:
    unchanged = picture(browser, file_of("quickstart"), 1400, "light")
    browser.execute_script(change)
    assert differing(pictured(browser, 1400), unchanged) > MOVED
