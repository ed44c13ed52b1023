"""Picture files to pixels of 8 bits, as Darknet's decoder (stb_image) gives them.

Transparency and orientation tags are ignored, of 16 bits a value the high eight count, and of several
frames or pages the first. What no rule of the format turns into 8 bits, as floating-point pixels, is refused.
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

# Pillow's names. None of these decoders starts a program, as that of EPS does.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
LARGEST_FILE = 1 << 30  # bytes
MOST_PIXELS = 200_000_000  # what the largest sensors in phones give

_STRIP = 1 << 20  # pixels that are converted at once
# Pictures above this size, which need hundreds of megabytes each, are decoded one at a time.
_LARGE = 1 << 24  # pixels
_one_large = threading.Lock()

# Modes of Pillow's that it converts to grey and to RGB by what their values mean.
_EIGHT_BITS = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr")

# A tag of TIFF: how many bits a value has, and whether 0 is black.
_BITS, _PHOTOMETRIC, _BLACK_IS_ZERO = 258, 262, 1

_PILLOW = r"PIL\."
_filtering = threading.Lock()
logging.getLogger("PIL").addHandler(logging.NullHandler())  # what it logs would go to stderr


def read_picture(path: Path, channels: int = 3) -> Pixels:
    """Decodes a picture to [height, width, channels], with 1 (grey) or 3 channels.

    Raises ConfigurationError where the file is missing, no picture, damaged, or too large.
    """
    if channels not in (1, 3):
        raise ConfigurationError(f"{path}: the network wants {channels} channels, pictures have 1 or 3")
    try:
        with open_regular(path) as stream:
            data = stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such picture") from None
    except OSError as error:
        raise file_error(path, error) from None
    if len(data) > LARGEST_FILE:
        raise ConfigurationError(f"{path}: is larger than {LARGEST_FILE >> 20} MiB: not a picture")
    with _decoding(path), _opened(data) as picture:
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise ConfigurationError(
                f"{path}: has {width} x {height} pixels, more than {MOST_PIXELS // 1_000_000} million",
                hint="Scale the picture down, or cut it into several.",
            )
        with _one_large if width * height > _LARGE else contextlib.nullcontext():
            # Of the formats above, MPO is JPEG with more pictures after the first.
            is_jpeg = picture.format in ("JPEG", "MPO") and channels == 3
            exact = jpeg.decode(data) if is_jpeg else None
            return _converted(path, picture, channels) if exact is None else exact


@contextlib.contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Whatever a decoder raises becomes an error about the picture."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:  # noqa: BLE001 - of damaged data Pillow raises whatever it runs into
        raise ConfigurationError(
            f"{path}: not a readable picture ({_reason(error)})", hint="Replace it or take it out."
        ) from None


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return f"its format is not recognised; known are {', '.join(FORMATS)}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    text = str(error).split("\n")[0][:120]
    return "the file ends too early" if "truncated" in text.lower() else text or type(error).__name__


def _opened(data: bytes) -> Image.Image:
    """The picture with its header read, but nothing decoded."""
    from PIL import Image

    _ignore_warnings()
    Image.MAX_IMAGE_PIXELS = None  # it warns and raises in its own words; MOST_PIXELS is checked here
    return Image.open(io.BytesIO(data), formats=FORMATS)


def _ignore_warnings() -> None:
    """Pillow warns of metadata, which changes no pixel. One filter serves all threads."""
    with _filtering:
        if all(getattr(rule[3], "pattern", None) != _PILLOW for rule in warnings.filters):
            warnings.filterwarnings("ignore", module=_PILLOW)


def _converted(path: Path, picture: Image.Image, channels: int) -> Pixels:
    """The pixels, in strips: a copy of the whole picture in another mode would double the memory."""
    picture.load()
    # With it, Pillow converts a transparent colour as well, which it cannot always.
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
    """What makes pixels of a part of the picture; those of one channel may lack the last axis."""
    if picture.mode in _EIGHT_BITS:
        mode = "L" if channels == 1 else "RGB"
        # Pillow would copy pixels that are in that mode already.
        return lambda part: np.asarray(part if part.mode == mode else part.convert(mode))
    if _has_sixteen_bits(picture):
        return lambda part: np.repeat((np.asarray(part) >> 8).astype(np.uint8)[..., None], channels, axis=2)
    what = {"F": "floating-point numbers", "LAB": "colours of the space LAB"}
    kind = what.get(picture.mode, "numbers of another range than 0 to 65535")
    raise ConfigurationError(
        f"{path}: its pixels are {kind}, and the file does not say which value is white",
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
