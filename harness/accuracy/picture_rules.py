"""How a picture becomes a network's input: the keys of [net] that imported models have.

    mean=, std=    of the channels of a picture in 0..255, in the network's order: input = (x - mean) / std;
                   one number or one a channel
    colors=        rgb or bgr: the order in which the network takes the channels
    resize=        stretch, letterbox, letterbox_top_left or crop
    fill=          0..255, what a letterbox leaves free

A cfg without any of them is Darknet's, whose resizing differs (preprocess.py); the others are resized by
Pillow, as in the pipelines of the frameworks that they come from (pillow_resize.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from harness.config.darknet_cfg import Section
from harness.errors import ConfigurationError

RESIZES = ("stretch", "letterbox", "letterbox_top_left", "crop")
COLORS = ("rgb", "bgr")
FRAMEWORK_KEYS = ("mean", "std", "colors", "resize", "fill", "decoder", "outputs")
GREY = 127.5  # half of white, Darknet's letterbox


@dataclass(frozen=True, kw_only=True)
class PictureRules:
    """How a network takes pictures."""

    resize: str = ""  # one of RESIZES; "" where the cfg states none
    darknet: bool = True  # resized as Darknet does, else by Pillow
    mean: tuple[float, ...] = (0.0,)  # one, or one a channel
    std: tuple[float, ...] = (255.0,)
    colors: str = "rgb"
    fill: float = GREY

    def resized_by(self, asked: str | None, default: str) -> PictureRules:
        """The rules with the method of resizing that is asked for, else the cfg's, else the default.

        Raises ConfigurationError for an unknown method.
        """
        if asked is not None and asked not in RESIZES:
            raise ConfigurationError(f"unknown resize {asked}: choose from {', '.join(RESIZES)}")
        return replace(self, resize=asked or self.resize or default)


def picture_rules(net: Section) -> PictureRules:
    """The rules of a cfg's [net]. Raises ConfigurationError with file and line."""
    if not any(key in net.options for key in FRAMEWORK_KEYS):
        return PictureRules()
    channels = net.integer("channels", 3)
    std = _numbers(net, "std", channels, 255.0)
    if not all(value > 0 for value in std):
        raise _wrong(net, "std", "expected positive numbers")
    fill = _numbers(net, "fill", 1, GREY)[0]
    if not 0 <= fill <= 255:
        raise _wrong(net, "fill", "expected a number from 0 to 255")
    return PictureRules(
        resize=_word(net, "resize", RESIZES, ""),
        darknet=False,
        mean=_numbers(net, "mean", channels, 0.0),
        std=std,
        colors=_word(net, "colors", COLORS, "rgb"),
        fill=fill,
    )


def _word(net: Section, key: str, words: tuple[str, ...], default: str) -> str:
    word = net.options.get(key, default)
    if key in net.options and word not in words:
        raise _wrong(net, key, f"expected {', '.join(words[:-1])} or {words[-1]}")
    return word


def _numbers(net: Section, key: str, channels: int, default: float) -> tuple[float, ...]:
    """One number, or one for each channel."""
    if key not in net.options:
        return (default,)
    words = net.options[key].split(",")
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError:
        raise _wrong(net, key, "expected numbers") from None
    if len(numbers) not in (1, channels) or not all(map(math.isfinite, numbers)):
        raise _wrong(net, key, f"expected one number or {channels}, one for each channel")
    return numbers


def _wrong(net: Section, key: str, what: str) -> ConfigurationError:
    return net.error(f"{key}={net.options[key][:60]}: {what}", line=net.option_lines[key])
