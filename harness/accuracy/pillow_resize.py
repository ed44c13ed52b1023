"""Pictures to network input with Pillow's bilinear resize, which averages where it makes a picture smaller.

- stretch: resized to the network's size, ignoring the aspect ratio;
- letterbox: resized with the aspect ratio kept (sizes rounded), centred;
- letterbox_top_left: the same with sizes rounded down, at the top left;
- crop: the short side resized to 8/7 of the network's with the aspect ratio kept, then the centre cropped.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.pictures import Pixels
from harness.accuracy.placement import Placement

Tensor = npt.NDArray[np.float32]  # [channels, height, width]

_CROPPED = 0.875  # the share of the short side that a crop keeps
_MOST_PIXELS = 1 << 22  # that are computed to be cropped


def fit(pixels: Pixels, rules: PictureRules, *, width: int, height: int) -> tuple[Tensor, Placement]:
    """A picture [rows, columns, channels] as the network takes it, and its place there."""
    rows, columns, channels = pixels.shape
    new_width, new_height = _size(rules.resize, columns, rows, width, height)
    left, top = _corner(rules.resize, width - new_width, height - new_height)
    placement = Placement(
        left=left / width, top=top / height, width=new_width / width, height=new_height / height
    )
    if rules.resize == "crop":
        canvas = _cropped(pixels, (new_width, new_height), -left, -top, width, height).astype(np.float32)
    else:
        canvas = np.full((height, width, channels), rules.fill, np.float32)
        canvas[top : top + new_height, left : left + new_width] = _resized(pixels, new_width, new_height)
    if rules.colors == "bgr":
        canvas = canvas[..., ::-1]
    canvas -= np.array(rules.mean, np.float32)
    canvas /= np.array(rules.std, np.float32)
    return np.ascontiguousarray(canvas.transpose(2, 0, 1)), placement


def _size(resize: str, columns: int, rows: int, width: int, height: int) -> tuple[int, int]:
    """Width and height of the resized picture."""
    if resize == "stretch":
        return width, height
    if resize == "crop":
        short = round(max(width, height) / _CROPPED)
        share = short / min(columns, rows)
        return (short, round(rows * share)) if columns < rows else (round(columns * share), short)
    scale = min(width / columns, height / rows)
    if resize == "letterbox_top_left":
        size = int(columns * scale), int(rows * scale)
    else:
        size = round(columns * scale), round(rows * scale)
    # A strip has at least a row, and rounding does not exceed the input.
    return min(max(size[0], 1), width), min(max(size[1], 1), height)


def _corner(resize: str, free_width: int, free_height: int) -> tuple[int, int]:
    """Left and top of the resized picture in the input; negative where it is cropped."""
    if resize == "letterbox_top_left":
        return 0, 0
    if resize == "crop":
        return -(-free_width // 2), -(-free_height // 2)
    return free_width // 2, free_height // 2


def _cropped(pixels: Pixels, size: tuple[int, int], left: int, top: int, width: int, height: int) -> Pixels:
    """The part of a resized picture that begins at left and top."""
    if size[0] * size[1] <= _MOST_PIXELS:
        return _resized(pixels, *size)[top : top + height, left : left + width]
    # Of a long strip, which would become thousands of times as large, only that part is resized. Pillow then
    # rounds some positions differently: some values differ by one.
    across, down = pixels.shape[1] / size[0], pixels.shape[0] / size[1]
    part = (left * across, top * down, (left + width) * across, (top + height) * down)
    return _resized(pixels, width, height, part)


def _resized(
    pixels: Pixels, width: int, height: int, part: tuple[float, float, float, float] | None = None
) -> Pixels:
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    resized = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, box=part))
    return resized.reshape(height, width, -1)
