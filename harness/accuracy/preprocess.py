"""Pictures to network input: for Darknet's cfgs computed as in Darknet, for others by pillow_resize.py.

Darknet's methods fit a picture of any shape to the network:

- stretch: resized to the network's size, ignoring the aspect ratio (AlexeyAB's default for detectors);
- letterbox: resized with the aspect ratio kept, centred, the rest filled with 0.5;
- letterbox_top_left: the same at the top left;
- crop: the short side resized to 8/7 of the network's (256 for 224) with the aspect ratio kept, then the
  centre cropped (classifiers).

The bilinear resize equals Darknet's `resize_image`: aligned corners, two passes (along rows, then along
columns), single precision, on values divided by 255. It has no anti-aliasing, and differs visibly from
Pillow's and OpenCV's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.accuracy import pillow_resize
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.pictures import Pixels, read_picture
from harness.accuracy.placement import Placement

Tensor = npt.NDArray[np.float32]  # [channels, height, width]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One picture, ready for the network."""

    path: Path
    width: int  # of the picture, in pixels
    height: int
    tensor: Tensor
    placement: Placement


def prepare(path: Path, shape: tuple[int, int, int], rules: PictureRules) -> Sample:
    """Reads a picture and fits it to a network input of `shape` (channels, height, width)."""
    channels, height, width = shape
    pixels = read_picture(path, channels, darknet=rules.darknet)
    if rules.darknet:
        fit = _DARKNET[rules.resize]
        tensor, placement = fit(pixels, width=width, height=height)
    else:
        tensor, placement = pillow_resize.fit(pixels, rules, width=width, height=height)
    return Sample(
        path=path, width=pixels.shape[1], height=pixels.shape[0], tensor=tensor, placement=placement
    )


def prepare_chunks(
    paths: Iterable[Path], shape: tuple[int, int, int], rules: PictureRules, chunk: int
) -> Iterator[list[Sample]]:
    """Prepares pictures in order, `chunk` at a time; while one chunk is used, the next is prepared.

    At most two chunks are in memory.
    """
    remaining = iter(paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting: list[Future[Sample]] = []
        while True:
            following = [pool.submit(prepare, path, shape, rules) for path in islice(remaining, chunk)]
            if waiting:
                yield [future.result() for future in waiting]
            if not following:
                return
            waiting = following


def stretch(pixels: Pixels, *, width: int, height: int) -> tuple[Tensor, Placement]:
    """Resizes to the network's size, ignoring the aspect ratio."""
    return resize_bilinear(pixels, width=width, height=height), Placement()


def letterbox(pixels: Pixels, *, width: int, height: int, top_left: bool = False) -> tuple[Tensor, Placement]:
    """Resizes with the aspect ratio kept and centres on grey; sizes are rounded down as in Darknet."""
    rows, columns, channels = pixels.shape
    if np.float32(width) / np.float32(columns) < np.float32(height) / np.float32(rows):
        new_width, new_height = width, max(1, rows * width // columns)
    else:
        new_width, new_height = max(1, columns * height // rows), height
    share = 0.0 if top_left else 0.5
    free_width, free_height = share * (width - new_width), share * (height - new_height)
    left, top = int(free_width), int(free_height)
    boxed = np.full((channels, height, width), 0.5, np.float32)
    resized = resize_bilinear(pixels, width=new_width, height=new_height)
    boxed[:, top : top + new_height, left : left + new_width] = resized
    # Darknet maps boxes back with half the border, not rounded: with an odd border that is half a network
    # pixel off the pasted position. Kept, because our boxes are compared with Darknet's.
    return boxed, Placement(
        left=free_width / width,
        top=free_height / height,
        width=new_width / width,
        height=new_height / height,
    )


def crop(pixels: Pixels, *, width: int, height: int) -> tuple[Tensor, Placement]:
    """Resizes the short side to 8/7 of the network's with the aspect ratio kept, and crops the centre."""
    rows, columns, _ = pixels.shape
    short = max(width, height) * 8 // 7
    if columns < rows:
        new_width, new_height = short, rows * short // columns
    else:
        new_width, new_height = columns * short // rows, short
    left, top = (new_width - width) // 2, (new_height - height) // 2
    window = (slice(left, left + width), slice(top, top + height))
    return resize_bilinear(pixels, width=new_width, height=new_height, window=window), Placement(
        left=-left / width, top=-top / height, width=new_width / width, height=new_height / height
    )


class _Fit(Protocol):
    def __call__(self, pixels: Pixels, *, width: int, height: int) -> tuple[Tensor, Placement]: ...


_DARKNET: dict[str, _Fit] = {
    "stretch": stretch,
    "letterbox": letterbox,
    "letterbox_top_left": partial(letterbox, top_left=True),
    "crop": crop,
}


def resize_bilinear(
    pixels: Pixels, *, width: int, height: int, window: tuple[slice, slice] | None = None
) -> Tensor:
    """Darknet's bilinear resize of bytes [rows, columns, channels] to floats [channels, height, width].

    With a `window` (columns, rows), only this part of the result is computed and returned: the result of a
    long strip may be thousands of times as large.
    """
    rows, columns, _ = pixels.shape
    across, down = window or (slice(0, width), slice(0, height))
    if (columns, rows) == (width, height):
        return np.ascontiguousarray(_unit(pixels[down, across]).transpose(2, 0, 1))
    left, right_weight = _taps(columns, width, across)
    top, below_weight = _taps(rows, height, down)
    # The first pass computes only the rows that the second pass reads.
    used, position = np.unique(np.concatenate([top, np.minimum(top + 1, rows - 1)]), return_inverse=True)
    source = pixels[used]
    weight = right_weight[:, None]
    part = (1 - weight) * _unit(source.take(left, axis=1))
    part += weight * _unit(source.take(np.minimum(left + 1, columns - 1), axis=1))
    if across.stop == width:
        part[:, -1] = _unit(source[:, -1])  # the last column is copied, not interpolated
    weight = below_weight[:, None, None]
    resized = (1 - weight) * part.take(position[: len(top)], axis=0)
    # As in Darknet, the last row has no second term.
    inner = len(top) - (down.stop == height)
    resized[:inner] += weight[:inner] * part.take(position[len(top) :][:inner], axis=0)
    return np.ascontiguousarray(resized.transpose(2, 0, 1))


def _unit(pixels: Pixels) -> npt.NDArray[np.float32]:
    """Bytes divided by 255 and rounded once, as in Darknet."""
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _taps(source: int, target: int, window: slice) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """For every target position in the window: the preceding source position, and the next one's weight."""
    scale = np.float32(source - 1) / np.float32(target - 1) if target > 1 else np.float32(0)
    position = np.arange(window.start, window.stop).astype(np.float32) * scale
    before = np.minimum(position.astype(np.intp), source - 1)
    return before, (position - before).astype(np.float32)
