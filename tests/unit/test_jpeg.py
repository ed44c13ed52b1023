"""Chroma comes to full size, and to RGB, as stb_image has it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.accuracy import jpeg
from harness.accuracy.pictures import read_picture


def smooth(height: int, width: int) -> Image.Image:
    """Colours that change slowly, which every way of subsampling keeps."""
    y, x = np.mgrid[:height, :width]
    channels = [128 + 90 * np.sin(x / 11), 128 + 90 * np.cos(y / 13), 128 + 90 * np.sin((x + y) / 17)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


@pytest.fixture(params=[1, 2], ids=["4:2:2", "4:2:0"])
def picture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "picture.jpg"
    smooth(45, 67).save(path, quality=95, subsampling=request.param)
    return path


def test_pixels_are_close_to_pillows(picture: Path) -> None:
    with Image.open(picture) as opened:
        expected = np.asarray(opened.convert("RGB")).astype(int)
    decoded = jpeg.decode(picture.read_bytes())
    assert decoded is not None
    assert decoded.dtype == np.uint8
    assert decoded.shape == expected.shape
    assert np.abs(decoded - expected).max() <= 3
    assert (read_picture(picture) == decoded).all()


@pytest.mark.parametrize("rows", [1, 3])
def test_strips_give_the_same_pixels_as_the_whole(
    picture: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    whole = jpeg.decode(picture.read_bytes())
    monkeypatch.setattr(jpeg, "_STRIP", 67 * 2 * rows)
    assert np.array_equal(jpeg.decode(picture.read_bytes()), whole)  # type: ignore[arg-type]


def test_threads_do_not_disturb_each_other(picture: Path) -> None:
    expected = read_picture(picture)
    with ThreadPoolExecutor(8) as pool:
        assert all((pixels == expected).all() for pixels in pool.map(read_picture, [picture] * 100))


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("RGB", {"format": "PNG"}),
        ("RGB", {"format": "JPEG", "subsampling": 0}),
        ("RGB", {"format": "JPEG", "keep_rgb": True}),
        ("L", {"format": "JPEG"}),
        ("CMYK", {"format": "JPEG"}),
    ],
)
def test_other_pictures_are_left_to_pillow(mode: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "picture"
    smooth(16, 16).convert(mode).save(path, **options)
    assert jpeg.decode(path.read_bytes()) is None
    with Image.open(path) as opened:
        expected = np.asarray(opened.convert("RGB"))
    assert (read_picture(path) == expected).all()


@pytest.mark.parametrize("value", range(0, 256, 5))
def test_chroma_is_recovered(value: int) -> None:
    for factor in (1.402, 1.772):
        luma = np.array([[10, 60, 128], [190, 245, 128]], np.int32)
        seen = np.clip(luma + round(factor * (value - 128)), 0, 255)
        found = jpeg.chroma((seen - luma).astype(np.int32), factor, 2, 2)
        assert found[0, 0] == value  # of four pixels one is not at the end of its scale


def test_rows_are_three_parts_near_and_one_part_far() -> None:
    plane = np.array([[10], [21]], np.int32)
    # (40+2)/4, (30+21+2)/4, (63+10+2)/4, (84+2)/4, rounded down
    assert jpeg.enlarge(plane, 2, 1).tolist() == [[10], [13], [18], [21]]
    assert jpeg.enlarge(plane.T, 1, 2).tolist() == [[10, 13, 18, 21]]
    assert jpeg.enlarge(plane, 1, 1).tolist() == plane.tolist()


def test_both_ways_are_rounded_once() -> None:
    plane = np.array([[0, 4], [8, 255]], np.int32)
    expected = np.zeros((4, 4), int)
    for row in range(4):
        for column in range(4):
            top, left = row // 2, column // 2
            down = 1 - top if row in (1, 2) else top  # the next to nearest; at the edges there is none
            across = 1 - left if column in (1, 2) else left
            sides = [3 * plane[top, side] + plane[down, side] for side in (left, across)]
            expected[row, column] = (3 * sides[0] + sides[1] + 8) // 16
    assert jpeg.enlarge(plane, 2, 2).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("values", "rgb"),
    [
        ((0, 128, 128), (0, 0, 0)),
        ((255, 128, 128), (255, 255, 255)),
        ((76, 85, 255), (254, 0, 0)),
        ((150, 44, 21), (0, 255, 1)),
    ],
)
def test_known_colours(values: tuple[int, int, int], rgb: tuple[int, int, int]) -> None:
    planes = [np.array([[value]], np.int32) for value in values]
    assert jpeg.to_rgb(*planes).tolist() == [[list(rgb)]]
