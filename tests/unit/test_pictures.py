"""Pictures of every kind that Pillow opens: what they come to in 8 bits, and what is refused."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from harness.accuracy import pictures
from harness.accuracy.pictures import MOST_PIXELS, read_picture
from harness.errors import ConfigurationError

GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)
COLOURS = np.stack([GREY, GREY[::-1], GREY.T], axis=-1)


def three(grey: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.repeat(grey[..., None], 3, axis=-1)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def with_alpha(mode: str) -> Image.Image:
    image = Image.fromarray(COLOURS).convert(mode)
    image.putalpha(Image.fromarray(GREY))
    return image


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tif", "webp", "pgm"])
def test_grey_of_8_bits_stays_as_it_is(tmp_path: Path, suffix: str) -> None:
    path = saved(
        tmp_path / f"a.{suffix}", Image.fromarray(GREY), **({"lossless": True} if suffix == "webp" else {})
    )
    assert np.array_equal(read_picture(path), three(GREY))
    assert np.array_equal(read_picture(path, 1), GREY[..., None])


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_use_the_high_eight(tmp_path: Path, suffix: str) -> None:
    """As in stb_image. Pillow cuts such values off at 255, which makes all but the darkest white."""
    values = (GREY.astype(np.uint16) << 8) + GREY[::-1]
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(values))
    assert np.array_equal(read_picture(path), three(GREY))
    assert np.array_equal(read_picture(path, 1), GREY[..., None])


def test_16_bits_in_the_other_order_of_bytes(tmp_path: Path) -> None:
    values = (GREY.astype(">u2") << 8) + 7
    path = saved(tmp_path / "a.tif", Image.frombytes("I;16B", (16, 16), values.astype(">u2").tobytes()))
    with Image.open(path) as image:
        assert image.mode == "I;16B"
    assert np.array_equal(read_picture(path), three(GREY))


def png(colour_type: int, depth: int, rows: bytes, *, size: int = 16) -> bytes:
    """A PNG file of rows without a filter, for kinds that Pillow does not write."""
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", size, size, depth, colour_type, 0, 0, 0)
    width = len(rows) // size
    lines = b"".join(b"\0" + rows[y * width : (y + 1) * width] for y in range(size))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("colour_type", "channels"), [(2, 3), (6, 4), (4, 2)], ids=["RGB", "RGBA", "LA"])
def test_16_bit_colours_use_the_high_eight(tmp_path: Path, colour_type: int, channels: int) -> None:
    values = np.random.default_rng(1).integers(0, 65536, (16, 16, channels)).astype(">u2")
    (tmp_path / "a.png").write_bytes(png(colour_type, 16, values.tobytes()))
    high = (values >> 8).astype(np.uint8)
    expected = high[..., :3] if channels > 2 else three(high[..., 0])
    assert np.array_equal(read_picture(tmp_path / "a.png"), expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_fewer_bits_reach_from_black_to_white(tmp_path: Path, depth: int) -> None:
    values = np.arange(256).reshape(16, 16) % (1 << depth)
    bits = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., -depth:]
    (tmp_path / "a.png").write_bytes(png(0, depth, np.packbits(bits.reshape(16, -1), axis=-1).tobytes()))
    expected = (values * (255 // ((1 << depth) - 1))).astype(np.uint8)
    assert np.array_equal(read_picture(tmp_path / "a.png"), three(expected))


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("RGBA", "png"), ("RGBA", "tif"), ("RGBA", "webp"), ("LA", "png"), ("LA", "tif")],
)
def test_transparency_is_ignored(tmp_path: Path, mode: str, suffix: str) -> None:
    """stb_image drops the fourth channel, and the second of two; it paints nothing over a background."""
    image = with_alpha(mode)
    options = {"lossless": True, "exact": True} if suffix == "webp" else {}
    path = saved(tmp_path / f"a.{suffix}", image, **options)
    assert np.array_equal(
        read_picture(path),
        np.asarray(image)[..., : 3 if mode == "RGBA" else 1].repeat(1 if mode == "RGBA" else 3, axis=-1),
    )


@pytest.mark.parametrize("transparency", [3, bytes(range(256))], ids=["a colour", "each colour"])
def test_a_palette_gives_its_colours_transparent_or_not(tmp_path: Path, transparency: int | bytes) -> None:
    image = Image.frombytes("P", (16, 16), GREY.tobytes())
    image.putpalette(COLOURS.reshape(-1, 3).tobytes())
    path = saved(tmp_path / "a.png", image, transparency=transparency)
    assert np.array_equal(read_picture(path), COLOURS.reshape(-1, 3)[GREY])


def test_a_transparent_colour_changes_no_pixel(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS), transparency=(0, 255, 0))
    assert np.array_equal(read_picture(path), COLOURS)
    path = saved(tmp_path / "b.png", Image.fromarray(GREY), transparency=3)
    assert np.array_equal(read_picture(path), three(GREY))


def test_cmyk_comes_to_rgb_as_in_stb_image(tmp_path: Path) -> None:
    inks = np.stack([GREY, GREY[::-1], GREY.T, np.full_like(GREY, 64)], axis=-1)
    path = saved(tmp_path / "a.tif", Image.frombytes("CMYK", (16, 16), inks.tobytes()))
    expected = (255 - inks[..., :3].astype(int)) * (255 - 64) / 255
    assert np.abs(read_picture(path) - expected).max() <= 1


def test_orientation_is_ignored_as_in_stb_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS[:8]), exif=exif)
    assert np.array_equal(read_picture(path), COLOURS[:8])


def test_the_first_of_several_frames_is_used(tmp_path: Path) -> None:
    frames = [Image.fromarray(GREY), Image.fromarray(GREY[::-1].copy())]
    for name in ("a.gif", "a.tif"):
        path = saved(tmp_path / name, frames[0], save_all=True, append_images=frames[1:])
        assert np.array_equal(read_picture(path), three(GREY))


def test_a_jpeg_of_several_pictures_is_read_as_jpeg(tmp_path: Path) -> None:
    smooth = Image.fromarray(COLOURS).resize((64, 64), Image.Resampling.BILINEAR)
    several = saved(tmp_path / "a.mpo", smooth, save_all=True, append_images=[smooth], quality=90)
    single = saved(tmp_path / "a.jpg", smooth, quality=90)
    assert np.array_equal(read_picture(several.rename(tmp_path / "b.jpg")), read_picture(single))


@pytest.mark.parametrize(
    ("image", "what"),
    [
        (Image.fromarray(GREY.astype(np.float32)), "floating-point numbers"),
        (Image.fromarray(GREY.astype(np.int32)), "numbers outside 0 to 65535"),
        (Image.frombytes("LAB", (16, 16), COLOURS.tobytes()), "colours of the space LAB"),
    ],
)
def test_pixels_of_unknown_range_are_refused(tmp_path: Path, image: Image.Image, what: str) -> None:
    path = saved(tmp_path / "a.tif", image)
    with pytest.raises(ConfigurationError) as caught:
        read_picture(path)
    assert f"{path}: the pixels are {what}" in caught.value.message
    assert caught.value.hint == "Save the picture with 8 bits a value."


@pytest.mark.parametrize("tags", [{262: 0}, {258: 12}], ids=["0 is white", "12 bits"])
def test_16_bits_of_another_meaning_are_refused(tmp_path: Path, tags: dict[int, int]) -> None:
    path = saved(tmp_path / "a.tif", Image.fromarray(GREY.astype(np.uint16)))
    data = bytearray(path.read_bytes())
    (directory,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, directory)
    for entry in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind, number, _ = struct.unpack_from("<HHII", data, entry)
        if tag in tags:
            struct.pack_into("<HHII", data, entry, tag, kind, number, tags[tag])
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"outside 0 to 65535|cannot decode the picture"):
        read_picture(path)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_strips_give_the_same_pixels_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, channels: int
) -> None:
    image = (
        Image.fromarray(GREY.astype(np.uint16) << 8)
        if mode == "I;16"
        else Image.fromarray(COLOURS).convert(mode)
    )
    path = saved(tmp_path / "a.tif", image)
    whole = read_picture(path, channels)
    monkeypatch.setattr(pictures, "_STRIP", 16 * 5)  # three strips of five rows, and one of one
    assert np.array_equal(read_picture(path, channels), whole)


# --- what is no picture, or a dangerous one


def test_no_format_that_starts_a_program_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(ConfigurationError, match=r"unknown format; supported are JPEG, PNG, .*PPM\)"):
        read_picture(path)


def test_too_many_pixels_are_refused_before_any_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 20000 20000 255\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ConfigurationError, match=r"a\.ppm: has 20000 x 20000 pixels, more than 200 million"
        ):
            read_picture(path)
    assert MOST_PIXELS < 20000 * 20000


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(ConfigurationError, match="is a named pipe, not a regular file"):
        read_picture(tmp_path / "a.jpg")


def encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(COLOURS).resize((64, 48)).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_a_truncated_picture_is_one_error(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    whole = encoded(kind)
    for size in (len(whole) * 3 // 5, 40, 9):
        path.write_bytes(whole[:size])
        with pytest.raises(ConfigurationError, match="a: cannot decode the picture") as caught:
            read_picture(path)
        assert caught.value.message.count("\n") == 0
    assert capfd.readouterr() == ("", "")


KINDS = {kind: encoded(kind) for kind in ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), max_size=6),
)
def test_damaged_pictures_are_read_or_refused(
    tmp_path: Path, kind: str, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(KINDS[kind])
    for place, value in changes:
        data[place % min(len(data), 1 << 10)] = value
    (tmp_path / "a").write_bytes(data)
    try:
        pixels = read_picture(tmp_path / "a")
    except ConfigurationError as error:
        message = error.message
    else:
        message = f"{tmp_path / 'a'}: {pixels.dtype} in {pixels.shape[2]} channels"
        assert message.endswith("uint8 in 3 channels")
    assert message.startswith(f"{tmp_path / 'a'}: ")


def test_damaged_metadata_gives_no_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Pillow warns of it, in words about its own parser."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x1a\x01\x05\0\x01\0\0\0\xff\xff\0\0\0\0\0\0"
    path = saved(tmp_path / "a.jpg", Image.fromarray(COLOURS), exif=exif)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_picture(path).shape == (16, 16, 3)
    assert capfd.readouterr() == ("", "")


PEAK = """
import resource, sys
from pathlib import Path
from harness.accuracy.pictures import read_picture
import simplejpeg, PIL.Image
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_picture(Path(sys.argv[1]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize(("suffix", "most"), [("jpg", 6), ("png", 9)])
def test_memory_stays_near_that_of_the_pixels(tmp_path: Path, suffix: str, most: int) -> None:
    """Bytes a pixel: three of them are the result. Whole planes of 32 bits took sixty."""
    side = 4000
    path = saved(tmp_path / f"a.{suffix}", Image.new("RGB", (side, side), (90, 120, 40)))
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) / side**2 < most
