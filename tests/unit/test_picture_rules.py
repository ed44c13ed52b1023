"""Pictures as imported models take them: [net]'s keys, and Pillow's resize against the golden inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness.accuracy.picture_rules import (
    PictureRules,
    StatedPictures,
    check_resize,
    stated_pictures,
)
from harness.accuracy.pillow_resize import fit
from harness.accuracy.preprocess import prepare
from harness.config.darknet_cfg import sections_of
from harness.config.preprocessing import RESIZES
from harness.errors import ConfigurationError

NET = "[net]\nwidth=8\nheight=4\nchannels=3\n"
PLAIN = PictureRules(resize="stretch", std=(1.0,))


def stated(keys: str) -> StatedPictures | None:
    return stated_pictures(sections_of(NET + keys, "x.cfg")[0])


def test_a_darknet_cfg_states_nothing() -> None:
    assert stated("letter_box=1\n") is None
    assert stated("") is None


def test_keys_of_an_imported_model() -> None:
    found = stated(
        "mean=103.53, 116.28,123.675\nstd=57.375\ncolors=bgr\nresize=letterbox_top_left\nfill=114\n"
    )
    assert found == StatedPictures(
        resize="letterbox_top_left",
        mean=(103.53, 116.28, 123.675),
        std=(57.375,),
        colors="bgr",
        fill=114.0,
    )
    assert found.assumed == ()
    assert found.resolved(None, PLAIN, 3) == PictureRules(
        resize="letterbox_top_left",
        mean=(103.53, 116.28, 123.675),
        std=(57.375,),
        colors="bgr",
        fill=114.0,
    )


def test_what_is_asked_comes_before_the_cfg_and_that_before_what_is_usual() -> None:
    usual = PictureRules(resize="letterbox", mean=(1.0, 2.0, 6.0), std=(5.0,), colors="bgr", fill=9.0)
    found = stated("resize=crop\nstd=7\n")
    assert found is not None
    assert found.assumed == ("mean", "colors")
    assert found.resolved(None, usual, 3) == replace(usual, resize="crop", std=(7.0,))
    assert found.resolved("stretch", usual, 3).resize == "stretch"
    nothing = stated("decoder=yolox\n")
    assert nothing is not None
    assert nothing.resolved(None, usual, 3) == usual
    assert nothing.resolved(None, usual, 1).mean == (3.0,)  # grey pictures have one channel
    with pytest.raises(ConfigurationError, match="unknown resize cover"):
        check_resize("cover")


@pytest.mark.parametrize(
    ("keys", "line", "what"),
    [
        ("mean=1,2\n", 5, "mean=1,2: expected one number or 3, one for each channel"),
        ("mean=1,x,3\n", 5, "expected numbers"),
        ("mean=nan\n", 5, "expected one number or 3"),
        ("colors=rgb\nstd=1,0,1\n", 6, "std=1,0,1: expected positive numbers"),
        ("fill=256\n", 5, "expected a number from 0 to 255"),
        ("resize=cover\n", 5, "resize=cover: expected stretch, letterbox, letterbox_top_left or crop"),
        ("colors=gbr\n", 5, "expected rgb or bgr"),
    ],
)
def test_wrong_keys_are_errors_with_their_line(keys: str, line: int, what: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        stated(keys)
    assert error.value.message.startswith(f"x.cfg:{line}: [net] ")
    assert what in error.value.message


def test_mean_deviation_and_colours_are_in_the_networks_order() -> None:
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[..., 0], pixels[..., 2] = 200, 10  # red and blue
    rules = replace(PLAIN, mean=(10.0, 20.0, 100.0), std=(5.0, 1.0, 2.0), colors="bgr")
    tensor, _ = fit(pixels, rules, width=8, height=4)
    assert tensor[:, 0, 0].tolist() == [(10 - 10) / 5, -20, (200 - 100) / 2]


@pytest.mark.parametrize(
    ("resize", "rows", "place"),
    [
        ("letterbox", (2, 6), (0.0, 0.25, 1.0, 0.5)),
        ("letterbox_top_left", (0, 4), (0.0, 0.0, 1.0, 0.5)),
    ],
)
def test_a_letterbox_leaves_the_fill_free(
    resize: str, rows: tuple[int, int], place: tuple[float, float, float, float]
) -> None:
    white = np.full((10, 20, 3), 255, np.uint8)
    tensor, placement = fit(white, replace(PLAIN, resize=resize, fill=114.0), width=8, height=8)
    inside = np.zeros(8, np.bool_)
    inside[slice(*rows)] = True
    assert (tensor[:, inside] == 255).all()
    assert (tensor[:, ~inside] == 114).all()
    assert (placement.left, placement.top, placement.width, placement.height) == place


@settings(max_examples=60)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 24), st.integers(1, 24), st.sampled_from(RESIZES)
)
def test_every_picture_fits_and_boxes_come_back(
    columns: int, rows: int, width: int, height: int, resize: str
) -> None:
    """A coloured rectangle that fills the picture fills its place in the input."""
    pixels = np.full((rows, columns, 3), 200, np.uint8)
    tensor, placement = fit(pixels, replace(PLAIN, resize=resize, fill=0.0), width=width, height=height)
    assert tensor.shape == (3, height, width)
    left, top = placement.left * width, placement.top * height
    right, bottom = left + placement.width * width, top + placement.height * height
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    inside = ((y > top) & (y < bottom))[:, None] & ((x > left) & (x < right))
    assert np.array_equal(tensor[0] == 200, inside)
    whole = np.array([[(left + right) / 2 / width, (top + bottom) / 2 / height]], np.float32)
    box = np.concatenate([whole, [[placement.width, placement.height]]], axis=1).astype(np.float32)
    assert placement.to_picture(box)[0] == pytest.approx([0.5, 0.5, 1, 1], abs=1e-5)


def test_a_long_strip_is_cropped_without_being_enlarged_first() -> None:
    strip = np.full((2, 60_000, 3), 90, np.uint8)
    tensor, placement = fit(strip, replace(PLAIN, resize="crop"), width=224, height=224)
    assert (tensor == 90).all()
    assert placement.width == pytest.approx(256 * 60_000 / 2 / 224)


WAYS = {"stretch": "stretch", "lbtl": "letterbox_top_left", "lbc": "letterbox", "crop": "crop"}


@pytest.mark.data
def test_the_golden_inputs_of_the_reference_accuracies(shared_data: Path) -> None:
    """Bit for bit: a resize or a decoder of JPEG that differs moves accuracies by a point."""
    compared = 0
    for golden in sorted((shared_data / "import/golden/inputs").glob("*.png")):
        name, way, size = golden.stem.rsplit("_", 2)
        if way not in WAYS:
            continue
        source = shared_data / "photos" / f"{name}.jpg"
        if not source.is_file():
            source = shared_data / "coco-val128/images" / f"{name.removeprefix('coco-')}.jpg"
        width, height = map(int, size.split("x"))
        rules = replace(PLAIN, resize=WAYS[way], fill=114.0)
        tensor = prepare(source, (3, height, width), rules).tensor
        with Image.open(golden) as picture:
            assert np.array_equal(tensor.transpose(1, 2, 0), np.asarray(picture, np.float32)), golden.name
        compared += 1
    assert compared > 20
