"""Preprocessing: Darknet's resize, computed here value by value, and where pictures come to lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.pictures import read_picture
from harness.accuracy.preprocess import (
    crop,
    letterbox,
    prepare,
    prepare_chunks,
    resize_bilinear,
    stretch,
)
from harness.errors import ConfigurationError


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def darknet_resize(pixels: npt.NDArray[np.uint8], width: int, height: int) -> npt.NDArray[np.float32]:
    """The definition, in scalar single precision: rows first, then columns."""
    one = np.float32(1)
    rows, columns, channels = pixels.shape
    values = (pixels / 255.0).astype(np.float32)
    across = np.zeros((rows, width, channels), np.float32)
    for x in range(width):
        if x == width - 1 or columns == 1:
            across[:, x] = values[:, -1]
            continue
        position = np.float32(x) * (np.float32(columns - 1) / np.float32(width - 1))
        left = int(position)
        weight = position - np.float32(left)
        across[:, x] = (one - weight) * values[:, left] + weight * values[:, left + 1]
    result = np.zeros((height, width, channels), np.float32)
    for y in range(height):
        position = np.float32(y) * (np.float32(rows - 1) / np.float32(height - 1))
        top = int(position)
        weight = position - np.float32(top)
        result[y] = (one - weight) * across[top]
        if y < height - 1 and rows > 1:
            result[y] += weight * across[top + 1]
    return result.transpose(2, 0, 1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 23), st.integers(1, 23), st.integers(2, 19), st.integers(2, 19), st.sampled_from([1, 3])
)
def test_resize_is_darknets_bit_for_bit(
    rows: int, columns: int, height: int, width: int, channels: int
) -> None:
    pixels = noise(rows, columns, channels)
    expected = darknet_resize(pixels, width, height)
    if (rows, columns) == (height, width):
        expected = (pixels / 255.0).astype(np.float32).transpose(2, 0, 1)  # copied, not computed
    assert np.array_equal(resize_bilinear(pixels, width=width, height=height), expected)


def test_corners_map_to_corners_and_the_middle_is_the_mean() -> None:
    pixels = np.array([[[0], [255]]], np.uint8)
    assert resize_bilinear(pixels, width=3, height=1)[0, 0].tolist() == [0.0, 0.5, 1.0]


def test_stretch_covers_the_whole_input() -> None:
    tensor, placement = stretch(noise(10, 30), width=16, height=8)
    assert tensor.shape == (3, 8, 16)
    box = np.array([[0.5, 0.25, 1.0, 0.5]], np.float32)
    assert np.array_equal(placement.to_picture(box), box)


def test_letterbox_of_a_wide_picture_has_grey_above_and_below() -> None:
    pixels = noise(20, 40)
    tensor, placement = letterbox(pixels, width=32, height=32)
    assert (tensor[:, :8] == 0.5).all()
    assert (tensor[:, 24:] == 0.5).all()
    assert np.array_equal(tensor[:, 8:24], resize_bilinear(pixels, width=32, height=16))
    # The picture's own frame, seen from the input, is the whole picture again.
    frame = np.array([[0.5, 0.5, 1.0, 0.5]], np.float32)
    assert placement.to_picture(frame).tolist() == [[0.5, 0.5, 1.0, 1.0]]


def test_letterbox_of_a_tall_picture_rounds_its_width_down() -> None:
    tensor, placement = letterbox(noise(70, 33), width=32, height=32)
    new_width = 33 * 32 // 70
    left = (32 - new_width) // 2
    assert (tensor[:, :, :left] == 0.5).all()
    assert (tensor[:, :, left + new_width :] == 0.5).all()
    assert not (tensor[:, :, left : left + new_width] == 0.5).all()
    assert placement.width == new_width / 32
    assert placement.left == (32 - new_width) / 2 / 32


def test_an_extreme_strip_keeps_at_least_one_pixel() -> None:
    tensor, _ = letterbox(noise(1, 2000), width=32, height=32)
    assert (tensor[:, 15] != 0.5).any()


@pytest.mark.parametrize(("rows", "columns"), [(300, 400), (400, 300), (256, 256), (50, 60)])
def test_crop_cuts_the_centre_of_the_short_side_at_eight_sevenths(rows: int, columns: int) -> None:
    pixels = noise(rows, columns)
    tensor, _ = crop(pixels, width=224, height=224)
    height = 256 if rows <= columns else rows * 256 // columns
    width = 256 if columns <= rows else columns * 256 // rows
    whole = resize_bilinear(pixels, width=width, height=height)
    top, left = (height - 224) // 2, (width - 224) // 2
    assert np.array_equal(tensor, whole[:, top : top + 224, left : left + 224])


@pytest.mark.parametrize(("rows", "columns"), [(256, 300), (300, 256), (31, 77), (256, 256), (9, 9)])
def test_crop_computes_only_what_it_returns_and_to_the_same_bits(rows: int, columns: int) -> None:
    pixels = noise(rows, columns)
    tensor, _ = crop(pixels, width=224, height=224)
    short = 256
    width, height = (short, rows * short // columns) if columns < rows else (columns * short // rows, short)
    whole = resize_bilinear(pixels, width=width, height=height)
    left, top = (width - 224) // 2, (height - 224) // 2
    assert np.array_equal(tensor, whole[:, top : top + 224, left : left + 224])


def test_crop_of_a_long_strip_needs_no_memory_for_the_rest() -> None:
    tensor, _ = crop(noise(1, 100_000), width=224, height=224)  # 25,600,000 x 256 pixels before it is cut
    assert tensor.shape == (3, 224, 224)


def test_crop_maps_boxes_back() -> None:
    _, placement = crop(noise(256, 512), width=224, height=224)
    # The input's centre is the picture's; the input is 224 of 512 pixels wide and 224 of 256 high.
    box = placement.to_picture(np.array([[0.5, 0.5, 1.0, 1.0]], np.float32))
    assert np.allclose(box, [[0.5, 0.5, 224 / 512, 224 / 256]], atol=1e-6)


def test_a_grey_picture_serves_a_network_of_three_channels(tmp_path: Path) -> None:
    Image.fromarray(noise(4, 5, 1)[..., 0]).save(tmp_path / "grey.png")
    pixels = read_picture(tmp_path / "grey.png", 3)
    assert pixels.shape == (4, 5, 3)
    assert (pixels[..., 0] == pixels[..., 2]).all()
    assert read_picture(tmp_path / "grey.png", 1).shape == (4, 5, 1)


def test_pictures_have_one_or_three_channels(tmp_path: Path) -> None:
    Image.fromarray(noise(4, 5)).save(tmp_path / "a.png")
    with pytest.raises(ConfigurationError, match="needs 4 channels"):
        read_picture(tmp_path / "a.png", 4)


def test_a_truncated_picture_is_an_error_with_its_name(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jpg"
    Image.fromarray(noise(64, 64)).save(whole)
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(whole.read_bytes()[:-500])
    with pytest.raises(ConfigurationError, match=r"broken\.jpg: cannot decode the picture"):
        read_picture(broken)


@pytest.mark.parametrize("content", [b"", b"no picture at all", b"\x89PNG\r\n\x1a\n" + b"\0" * 50])
def test_another_file_is_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"x\.png: cannot decode the picture"):
        read_picture(path)


def test_a_missing_picture_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.png: the picture does not exist"):
        read_picture(tmp_path / "gone.png")


def test_chunks_keep_the_order_and_all_pictures(tmp_path: Path) -> None:
    paths = []
    for number in range(7):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(np.full((3, 3, 3), number, np.uint8)).save(paths[-1])
    chunks = list(prepare_chunks(paths, (3, 3, 3), PictureRules(resize="stretch", darknet=True), 3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert [sample.path for chunk in chunks for sample in chunk] == paths
    assert chunks[2][0].tensor[0, 0, 0] == np.float32(6 / 255)


def test_a_damaged_picture_in_the_middle_stops_the_chunks(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    Image.fromarray(noise(3, 3)).save(good)
    bad.write_bytes(b"?")
    with pytest.raises(ConfigurationError, match=r"bad\.png"):
        list(prepare_chunks([good, bad, good], (3, 3, 3), PictureRules(resize="stretch", darknet=True), 1))


def test_prepare_remembers_the_pictures_own_size(tmp_path: Path) -> None:
    Image.fromarray(noise(7, 9)).save(tmp_path / "a.png")
    sample = prepare(tmp_path / "a.png", (3, 4, 4), PictureRules(resize="stretch", darknet=True))
    assert (sample.width, sample.height) == (9, 7)
