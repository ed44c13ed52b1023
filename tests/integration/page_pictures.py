"""Small pictures of whole pages, which tests compare with golden ones.

    python tests/integration/page_pictures.py FOLDER

draws the pages of recorded_pages.py and writes their pictures to the folder. Look at them before they replace
those of tests/integration/pages.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from page_browser import SCHEMES, WIDTHS, chromium, opened
from PIL import Image
from recorded_pages import NAMES, page

from tools.report_pictures import RECORDED

SCALE = 8  # pixels of a page's width that are one of its picture: letters become grey
MOST = 6000  # pixels of a page's height that its picture shows: tables of large sweeps go on for screens
TILE = 8  # pixels of a picture that are compared as one
TOLERANCE = 24  # of 255, of a tile's mean colour: what another Chromium or font changes
MOVED = 0.015  # the share of tiles that may differ more, and of the height that a page may gain or lose


def picture(browser: Any, file: Path, width: int, scheme: str) -> Image.Image:
    """A page with all its charts."""
    opened(browser, file, width, scheme)
    return pictured(browser, width)


def pictured(browser: Any, width: int) -> Image.Image:
    """The page that is open, SCALE times smaller."""
    browser.execute_script(
        "document.querySelectorAll('.wide').forEach(e => e.style.contentVisibility = 'visible')"
    )
    height = browser.execute_script("return document.documentElement.scrollHeight")
    area = {"x": 0, "y": 0, "width": width, "height": min(height, MOST), "scale": 1 / SCALE}
    taken = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": area}
    )
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


def picture_file(name: str, width: int, scheme: str, folder: Path = RECORDED) -> Path:
    return folder / f"{name}-{width}-{scheme}.png"


def differing(found: Image.Image, golden: Image.Image) -> float:
    """The share of tiles whose mean colour differs by more than TOLERANCE; 1 if a side differs too much."""
    if found.width != golden.width or abs(found.height - golden.height) > MOVED * golden.height:
        return 1.0
    tiles = [_tiles(each.resize(golden.size)) for each in (found, golden)]
    return float(np.mean(np.abs(tiles[0] - tiles[1]).max(axis=2) > TOLERANCE))


def _tiles(image: Image.Image) -> np.ndarray[Any, Any]:
    size = (max(1, image.width // TILE), max(1, image.height // TILE))
    return np.asarray(image.resize(size, Image.Resampling.BOX), np.int16)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        for name in NAMES:
            file = Path(made) / f"{name}.html"
            file.write_text(page(name), encoding="utf-8")
            for width in WIDTHS:
                for scheme in SCHEMES:
                    found = picture(browser, file, width, scheme)
                    found.save(picture_file(name, width, scheme, folder), optimize=True)
            print(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
