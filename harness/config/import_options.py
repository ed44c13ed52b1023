"""What a user may say about a model to import: options of commands, and keys of a sweep's models.

A list is written with commas in an option, as 104,117,123; in a sweep file also as a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.config.decoders import DECODERS
from harness.config.preprocessing import COLORS, Preprocessing


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Preprocessing):
    """What the user says takes the place of what the model says."""

    input_shape: tuple[int, ...] | None = None  # batch, channels, height, width
    decoder: str | None = None  # one of DECODERS


@dataclass(frozen=True, kw_only=True)
class ImportKey:
    """A field of ImportOptions as users write it."""

    help: str  # without capital and full stop
    absent: str = "as the model says"  # what holds without the key
    example: object  # as YAML gives it
    metavar: str | None = None
    words: tuple[str, ...] = ()  # one of these; if there are none, `read` takes the text
    expected: str = ""
    read: Callable[[str], object] = str  # raises ValueError if the text is not what is expected
    in_cfg: str  # the keys of [net] that say the same of a cfg


def _sizes(written: str) -> tuple[int, ...]:
    words = written.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 8 and int(word) for word in words):
        raise ValueError(written)
    return tuple(map(int, words))


def _numbers(written: str) -> tuple[float, ...]:
    numbers = tuple(float(word) for word in written.split(","))
    if not all(map(math.isfinite, numbers)):
        raise ValueError(written)
    return numbers


def _positive_numbers(written: str) -> tuple[float, ...]:
    numbers = _numbers(written)
    if min(numbers) <= 0:
        raise ValueError(written)
    return numbers


def _brightness(written: str) -> float:
    number = float(written)
    if not 0 <= number <= 255:
        raise ValueError(written)
    return number


IMPORT_KEYS: Mapping[str, ImportKey] = {
    "input_shape": ImportKey(
        help="shape of the input, where the model leaves it open",
        example=[1, 3, 224, 224],
        metavar="N,C,H,W",
        expected="sizes, as 1,3,224,224",
        read=_sizes,
        in_cfg="channels=, height= and width=",
    ),
    "mean": ImportKey(
        help="mean of a picture's values from 0 to 255, one number or one for each channel",
        example=[123.7, 116.3, 103.5],
        metavar="M[,M,M]",
        expected="a number, or one for each channel, as 104,117,123",
        read=_numbers,
        in_cfg="mean=",
    ),
    "std": ImportKey(
        help="standard deviation of these values, one number or one for each channel",
        example=[58.4, 57.1, 57.4],
        metavar="S[,S,S]",
        expected="a number above 0, or one for each channel, as 58.4,57.1,57.4",
        read=_positive_numbers,
        in_cfg="std=",
    ),
    "colors": ImportKey(
        help="order of the channels that the model takes", example="bgr", words=COLORS, in_cfg="colors="
    ),
    "fill": ImportKey(
        help="value from 0 to 255 beside a letterbox",
        example=114,
        metavar="V",
        expected="a number from 0 to 255",
        read=_brightness,
        in_cfg="fill=",
    ),
    "decoder": ImportKey(
        help="how the outputs are read, a word of docs/decoders.md",
        absent="chosen by their shapes",
        example="yolox",
        metavar="D",
        words=DECODERS,
        in_cfg="decoder=",
    ),
}
