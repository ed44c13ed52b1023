"""Detections drawn on the picture."""

from __future__ import annotations

import colorsys
import io
from pathlib import Path
from typing import TYPE_CHECKING

from harness.accuracy.pictures import read_picture
from harness.errors import ConfigurationError
from harness.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence


def draw(picture: Path, found: Sequence[tuple[int, str, list[float]]], out: Path) -> None:
    """Writes `picture` to `out` with a frame and a caption for each (class, caption, box).

    Boxes are left, top, width, height in pixels. The format follows `out`'s suffix.
    """
    from PIL import Image, ImageDraw, ImageFont

    formats = Image.registered_extensions()
    if formats.get(out.suffix.lower()) not in Image.SAVE:
        raise ConfigurationError(
            f"{out}: cannot write pictures as {out.suffix or 'a file without suffix'}: use .png"
        )
    image = Image.fromarray(read_picture(picture))
    canvas = ImageDraw.Draw(image)
    line = max(1, round(min(image.size) / 200))
    font = ImageFont.load_default(size=max(10, round(min(image.size) / 32)))
    # Draw the most confident last, on top.
    for class_id, caption, (left, top, width, height) in reversed(found):
        colour = _colour(class_id)
        canvas.rectangle((left, top, left + width, top + height), outline=colour, width=line)
        _, _, text_width, text_height = canvas.textbbox((0, 0), caption, font=font)
        corner = (max(left, 0), max(top - text_height - 2 * line, 0))
        canvas.rectangle(
            (*corner, corner[0] + text_width + 2 * line, corner[1] + text_height + 2 * line), fill=colour
        )
        canvas.text((corner[0] + line, corner[1]), caption, fill="black", font=font)
    encoded = io.BytesIO()
    image.save(encoded, format=picture_format(out))
    write_atomically(out, encoded.getvalue())


def picture_format(path: Path) -> str:
    """Pillow's name for the format of a file's suffix. Raises ConfigurationError."""
    from PIL import Image

    name = Image.registered_extensions().get(path.suffix.lower(), "")
    if name not in Image.SAVE:
        raise ConfigurationError(f'{path}: unknown picture format "{path.suffix}"', hint="Use .png or .jpg.")
    return name


def _colour(class_id: int) -> tuple[int, int, int]:
    """A colour per class: hues in steps of the golden ratio differ for neighbouring classes."""
    red, green, blue = colorsys.hsv_to_rgb(class_id * 0.618034 % 1, 0.75, 1)
    return round(red * 255), round(green * 255), round(blue * 255)
