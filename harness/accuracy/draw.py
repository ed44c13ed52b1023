"""Detections drawn on the picture."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.accuracy.pictures import read_picture
from harness.errors import ConfigurationError
from harness.files import write_atomically

if TYPE_CHECKING:
    from PIL import ImageFont
    from PIL.Image import Image

_MARK = "red"  # no class has it: their colours are lighter


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One detection to draw."""

    class_id: int
    caption: str
    box: Sequence[float]  # left, top, width, height in pixels
    marked: bool = False  # framed in thick red, on top


def draw(picture: Path, frames: Sequence[Frame], out: Path) -> None:
    """Writes `picture` to `out` with its frames, most confident first. The format follows `out`'s suffix."""
    from PIL import Image

    format_name = picture_format(out)
    image = Image.fromarray(read_picture(picture))
    _draw_frames(image, frames)
    _write(image, out, format_name)


def draw_beside(picture: Path, sides: Sequence[tuple[str, Sequence[Frame]]], out: Path) -> None:
    """Writes `picture` to `out` once for each (title, frames), side by side below the titles."""
    from PIL import Image, ImageDraw

    format_name = picture_format(out)
    pixels = read_picture(picture)
    height, width, _ = pixels.shape
    font = _font(min(width, height))
    head = 2 * int(font.getbbox("Ag")[3])
    gap = max(2, width // 100)
    sheet = Image.new("RGB", (len(sides) * (width + gap) - gap, height + head), "white")
    canvas = ImageDraw.Draw(sheet)
    for number, (title, frames) in enumerate(sides):
        image = Image.fromarray(pixels)
        _draw_frames(image, frames)
        left = number * (width + gap)
        sheet.paste(image, (left, head))
        canvas.text((left + gap, head // 4), title, fill="black", font=font)
    _write(sheet, out, format_name)


def picture_format(path: Path) -> str:
    """Pillow's name for the format of a file's suffix. Raises ConfigurationError."""
    from PIL import Image

    name = Image.registered_extensions().get(path.suffix.lower(), "")
    if name not in Image.SAVE:
        raise ConfigurationError(f'{path}: unknown picture format "{path.suffix}"', hint="Use .png or .jpg.")
    return name


def _draw_frames(image: Image, frames: Sequence[Frame]) -> None:
    from PIL import ImageDraw

    canvas = ImageDraw.Draw(image)
    line = max(1, round(min(image.size) / 200))
    font = _font(min(image.size))
    # The most confident are on top, and the marked ones above all.
    least_first = frames[::-1]
    for frame in sorted(least_first, key=lambda frame: frame.marked):
        left, top, width, height = frame.box
        colour = _MARK if frame.marked else _colour(frame.class_id)
        canvas.rectangle(
            (left, top, left + width, top + height), outline=colour, width=2 * line if frame.marked else line
        )
        _, _, text_width, text_height = canvas.textbbox((0, 0), frame.caption, font=font)
        corner = (max(left, 0), max(top - text_height - 2 * line, 0))
        canvas.rectangle(
            (*corner, corner[0] + text_width + 2 * line, corner[1] + text_height + 2 * line), fill=colour
        )
        text = "white" if frame.marked else "black"
        canvas.text((corner[0] + line, corner[1]), frame.caption, fill=text, font=font)


def _write(image: Image, out: Path, format_name: str) -> None:
    encoded = io.BytesIO()
    image.save(encoded, format=format_name)
    write_atomically(out, encoded.getvalue())


def _font(shorter_side: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=max(10, round(shorter_side / 32)))


def _colour(class_id: int) -> tuple[int, int, int]:
    """A colour per class: hues in steps of the golden ratio differ for neighbouring classes."""
    red, green, blue = colorsys.hsv_to_rgb(class_id * 0.618034 % 1, 0.75, 1)
    return round(red * 255), round(green * 255), round(blue * 255)
