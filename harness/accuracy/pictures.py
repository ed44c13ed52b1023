"""Picture files to the same 8-bit pixels as Darknet's decoder (stb_image), or as other frameworks'.

Transparency and orientation tags are ignored. Values of 16 bits are cut to the high eight. Of several frames
or pages the first is used. Formats without a rule for 8 bits, such as floating-point pixels, are refused.
"""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.accuracy import jpeg
from harness.errors import ConfigurationError, HarnessError, file_error
from harness.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PIL import Image

Pixels = npt.NDArray[np.uint8]  # [height, width, channels]

# Pillow's names. Unlike EPS's, none of these decoders starts a program.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
LARGEST_FILE = 1 << 30  # bytes
MOST_PIXELS = 200_000_000  # the largest phone cameras

_STRIP = 1 << 20  # pixels that are converted at once
# Larger pictures need hundreds of megabytes each and are decoded one at a time.
_LARGE = 1 << 24  # pixels
_one_large = threading.Lock()

# Modes of Pillow's that it converts to grey and to RGB by what their values mean.
_EIGHT_BITS = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr")

# A tag of TIFF: how many bits a value has, and whether 0 is black.
_BITS, _PHOTOMETRIC, _BLACK_IS_ZERO = 258, 262, 1

_PILLOW = r"PIL\."
_filtering = threading.Lock()
logging.getLogger("PIL").addHandler(logging.NullHandler())  # keeps its log off stderr


def read_picture(path: Path, channels: int = 3, *, darknet: bool = True) -> Pixels:
    """Decodes a picture to [height, width, channels], with 1 (grey) or 3 channels.

    Without `darknet`, JPEG is decoded by Pillow, as other frameworks do: colours differ by a few steps.
    Raises ConfigurationError if the file is missing, not a picture, damaged or too large.
    """
    if channels not in (1, 3):
        raise ConfigurationError(f"{path}: the network needs {channels} channels, but pictures have 1 or 3")
    try:
        with open_regular(path) as stream:
            data = stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: the picture does not exist") from None
    except OSError as error:
        raise file_error(path, error) from None
    if len(data) > LARGEST_FILE:
        raise ConfigurationError(f"{path}: larger than {LARGEST_FILE >> 20} MiB")
    with _decoding(path), _opened(data) as picture:
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise ConfigurationError(
                f"{path}: has {width} x {height} pixels, more than {MOST_PIXELS // 1_000_000} million",
                hint="Scale the picture down or split it.",
            )
        with _one_large if width * height > _LARGE else contextlib.nullcontext():
            # Of the formats above, MPO is JPEG with more pictures after the first.
            is_jpeg = darknet and picture.format in ("JPEG", "MPO") and channels == 3
            exact = jpeg.decode(data) if is_jpeg else None
            return _converted(path, picture, channels) if exact is None else exact


@contextlib.contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Turns any exception of a decoder into an error about the picture."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged data makes Pillow raise many types
        raise ConfigurationError(
            f"{path}: cannot decode the picture ({_reason(error)})", hint="Replace or remove it."
        ) from None


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return f"unknown format; supported are {', '.join(FORMATS)}"
    if isinstance(error, MemoryError):
        return "not enough memory"
    text = str(error).split("\n")[0][:120]
    return "the file ends too early" if "truncated" in text.lower() else text or type(error).__name__


def _opened(data: bytes) -> Image.Image:
    """The picture with its header read, but nothing decoded."""
    from PIL import Image

    _ignore_warnings()
    Image.MAX_IMAGE_PIXELS = None  # MOST_PIXELS replaces Pillow's own limit
    return Image.open(io.BytesIO(data), formats=FORMATS)


def _ignore_warnings() -> None:
    """Ignores Pillow's warnings about metadata, which do not affect pixels. One filter serves all threads."""
    with _filtering:
        if all(getattr(rule[3], "pattern", None) != _PILLOW for rule in warnings.filters):
            warnings.filterwarnings("ignore", module=_PILLOW)


def _converted(path: Path, picture: Image.Image, channels: int) -> Pixels:
    """The pixels, in strips: a copy of the whole picture in another mode would double the memory."""
    picture.load()
    # Without it, Pillow does not try to convert a transparent colour, which can fail.
    picture.info.pop("transparency", None)
    convert = _conversion(path, picture, channels)
    width, height = picture.size
    if width * height <= _STRIP:
        return convert(picture).reshape(height, width, channels)
    pixels = np.empty((height, width, channels), np.uint8)
    rows = max(1, _STRIP // width)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        strip = convert(picture.crop((0, top, width, bottom)))
        pixels[top:bottom] = strip.reshape(bottom - top, width, channels)
    return pixels


def _conversion(path: Path, picture: Image.Image, channels: int) -> Callable[[Image.Image], Pixels]:
    """A function from a part of the picture to pixels; grey ones may lack the last axis."""
    if picture.mode in _EIGHT_BITS:
        mode = "L" if channels == 1 else "RGB"
        # Avoid Pillow's copy of pixels that are already in that mode.
        return lambda part: np.asarray(part if part.mode == mode else part.convert(mode))
    if _has_sixteen_bits(picture):
        return lambda part: np.repeat((np.asarray(part) >> 8).astype(np.uint8)[..., None], channels, axis=2)
    what = {"F": "floating-point numbers", "LAB": "colours of the space LAB"}
    kind = what.get(picture.mode, "numbers outside 0 to 65535")
    raise ConfigurationError(
        f"{path}: the pixels are {kind}, with an unknown value for white",
        hint="Save the picture with 8 bits a value.",
    )


def _has_sixteen_bits(picture: Image.Image) -> bool:
    """Whether the pixels are grey from 0, black, to 65535, white."""
    if picture.format == "TIFF":
        tags: dict[int, Any] = getattr(picture, "tag_v2", {})
        return (
            picture.mode.startswith("I;16")
            and not picture.mode.endswith("S")
            and tags.get(_BITS) == (16,)
            and tags.get(_PHOTOMETRIC) == _BLACK_IS_ZERO
        )
    return picture.mode == "I" or picture.mode.startswith("I;16")
