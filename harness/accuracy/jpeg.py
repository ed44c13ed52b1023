"""JPEG to the same pixels as Darknet's decoder (stb_image).

libjpeg, which Pillow uses, and stb_image agree on the planes of luma and chroma. They differ in the
upsampling of shared chroma (libjpeg's rounding alternates between two directions, stb_image always rounds to
the nearest) and in the fixed-point conversion to RGB. This changes one value in ten by a level or two, and
the confidence of a detection by up to two points. Therefore libjpeg decodes the planes, and this module does
the rest like stb_image (`stbi__resample_row_*` and `stbi__YCbCr_to_RGB_row`, version 2.30).
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.int32]

# Rows and columns of pixels that share a chroma value, by the name of the subsampling.
SHARED = {"440": (2, 1), "422": (1, 2), "420": (2, 2)}

_STRIP = 1 << 19  # pixels


def decode(data: bytes) -> Pixels | None:
    """Pixels [height, width, 3] of a JPEG file's bytes; None if Pillow has to decode them.

    Pillow decodes pictures without chroma subsampling, other formats and other colour models.
    """
    import simplejpeg

    try:
        _, _, model, subsampling = simplejpeg.decode_jpeg_header(data)
        if model != "YCbCr" or subsampling not in SHARED:
            return None
        luma = simplejpeg.decode_jpeg(data, "GRAY")[..., 0]
        # Without interpolation every pixel gets the chroma value in the file.
        pixels: Pixels = simplejpeg.decode_jpeg(data, "RGB", fastupsample=True)
    except ValueError:  # not a JPEG file, or a damaged one that Pillow tolerates
        return None
    down, across = SHARED[subsampling]
    # In strips: whole planes of 32 bits would take ten times the picture's memory. Blue and red are read
    # before any pixel is overwritten, because a strip needs the chroma of the rows around it.
    height, width = luma.shape
    rows = max(1, _STRIP // (width * down)) * down
    strips = [slice(top, min(top + rows, height)) for top in range(0, height, rows)]
    blue, red = (
        np.concatenate(
            [_chroma_of(pixels[strip, :, channel], luma[strip], factor, down, across) for strip in strips]
        )
        for channel, factor in ((2, 1.772), (0, 1.402))
    )
    for strip in strips:
        planes = (_full_size(plane, strip, width, down, across) for plane in (blue, red))
        pixels[strip] = to_rgb(luma[strip].astype(np.int32), *planes)
    return pixels


def _chroma_of(channel: Pixels, luma: Pixels, factor: float, down: int, across: int) -> npt.NDArray[np.int16]:
    """The chroma of some rows of red or blue."""
    return chroma(channel.astype(np.int32) - luma, factor, down, across).astype(np.int16)


def _full_size(plane: npt.NDArray[np.int16], strip: slice, width: int, down: int, across: int) -> Plane:
    """A strip of rows of the picture, from the plane of its chroma."""
    first, last = strip.start // down, -(-strip.stop // down)
    above = min(first, 1)  # enlarging needs one row before the strip
    enlarged = enlarge(plane[first - above : last + 1].astype(np.int32), down, across)
    return enlarged[above * down :][: strip.stop - strip.start, :width]


def chroma(difference: Plane, factor: float, down: int, across: int) -> Plane:
    """Chroma shared by `down` times `across` pixels: red or blue is luma plus `factor` times chroma.

    Both factors exceed 1, so a difference belongs to one chroma value. If red or blue was clipped, its
    difference is too small; the pixel with the largest difference gives the value.
    """
    height, width = difference.shape
    padded = np.pad(difference, ((0, -height % down), (0, -width % across)), "edge")
    shares = np.stack([padded[i::down, j::across] for i, j in product(range(down), range(across))])
    furthest = np.take_along_axis(shares, np.abs(shares).argmax(0)[None], 0)[0]
    return np.asarray(np.rint(furthest / factor), np.int32) + 128


def enlarge(plane: Plane, down: int, across: int) -> Plane:
    """A plane [rows, columns] at `down` times its height and `across` times its width, 1 or 2 each.

    Every value is three parts of the nearest and one part of the next to nearest, rounded once at the end.
    """
    for axis, factor in ((0, down), (1, across)):
        if factor == 2:
            plane = _interleave(plane, axis)
    parts = 4 ** ((down == 2) + (across == 2))
    return np.asarray((plane + parts // 2) // parts, np.int32)


def _interleave(plane: Plane, axis: int) -> Plane:
    """Four times the enlarged values along the axis; edge values are repeated outwards."""
    padded = np.moveaxis(np.pad(plane, [(1, 1) if i == axis else (0, 0) for i in (0, 1)], "edge"), axis, 0)
    near = 3 * padded[1:-1]
    pairs = np.stack([near + padded[:-2], near + padded[2:]], axis=1)
    return np.moveaxis(pairs.reshape(-1, padded.shape[1]), 0, axis)


def to_rgb(luma: Plane, blue: Plane, red: Plane) -> Pixels:
    """Pixels [height, width, 3] of three planes [height, width], in stb_image's fixed point of 20 bits."""

    def fixed(factor: float) -> int:
        return int(factor * 4096 + 0.5) << 8

    light, blue, red = (luma << 20) + (1 << 19), blue - 128, red - 128
    pixels = np.empty((*luma.shape, 3), np.uint8)
    green = light - red * fixed(0.71414) + ((-fixed(0.34414) * blue) & ~0xFFFF)
    for channel, value in enumerate((light + red * fixed(1.40200), green, light + blue * fixed(1.77200))):
        np.clip(value >> 20, 0, 255, out=pixels[..., channel], casting="unsafe")
    return pixels
