"""How a picture becomes a network's input: the keys of [net] that imported models have.

    mean=, std=    of the channels of a picture in 0..255, in the network's order: input = (x - mean) / std;
                   one number or one a channel
    colors=        rgb or bgr: the order in which the network takes the channels
    resize=        stretch, letterbox, letterbox_top_left or crop
    fill=          0..255, what a letterbox leaves free

What a model does not say is taken as usual in its family of networks (the decoders' `pictures`). A cfg
without any of the keys is Darknet's, whose resizing differs (preprocess.py). The others' pictures are resized
by Pillow, as in the pipelines of the frameworks that they come from (pillow_resize.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.config.darknet_cfg import Section
from harness.config.preprocessing import COLORS, RESIZES, Preprocessing
from harness.errors import ConfigurationError

FRAMEWORK_KEYS = ("mean", "std", "colors", "resize", "fill", "decoder", "outputs")

_GREY = 127.5  # half of white, Darknet's letterbox
_FIT_KEYS = ("mean", "std", "colors", "resize")  # without which a picture is fitted by assumption


@dataclass(frozen=True, kw_only=True)
class PictureRules:
    """How a network takes pictures."""

    resize: str  # one of RESIZES
    darknet: bool = False  # resized as Darknet does, else by Pillow
    mean: tuple[float, ...] = (0.0,)  # one, or one a channel
    std: tuple[float, ...] = (255.0,)
    colors: str = "rgb"
    fill: float = _GREY


@dataclass(frozen=True, kw_only=True)
class StatedPictures(Preprocessing):
    """What the cfg of an imported model says of them; None where it says nothing."""

    @property
    def assumed(self) -> tuple[str, ...]:
        """The keys that are not there, and are taken as usual."""
        return tuple(key for key in _FIT_KEYS if getattr(self, key) is None)

    def resolved(self, asked: str | None, usual: PictureRules, channels: int) -> PictureRules:
        """The rules: as asked, as the cfg says, else as usual (averaged for grey pictures)."""
        mean, std = usual.mean, usual.std
        if channels == 1:
            mean, std = (sum(mean) / len(mean),), (sum(std) / len(std),)
        return PictureRules(
            resize=asked or self.resize or usual.resize,
            mean=mean if self.mean is None else self.mean,
            std=std if self.std is None else self.std,
            colors=self.colors or usual.colors,
            fill=usual.fill if self.fill is None else self.fill,
        )


def check_resize(asked: str | None) -> None:
    """Raises ConfigurationError for an unknown method."""
    if asked is not None and asked not in RESIZES:
        raise ConfigurationError(f"unknown resize {asked}: choose from {', '.join(RESIZES)}")


def stated_pictures(net: Section) -> StatedPictures | None:
    """The keys of a cfg's [net]; None for Darknet's cfgs. Raises ConfigurationError with file and line."""
    if not any(key in net.options for key in FRAMEWORK_KEYS):
        return None
    channels = net.integer("channels", 3)
    std = _numbers(net, "std", channels)
    if std is not None and min(std) <= 0:
        raise _wrong(net, "std", "expected positive numbers")
    fill = _numbers(net, "fill", 1)
    if fill is not None and not 0 <= fill[0] <= 255:
        raise _wrong(net, "fill", "expected a number from 0 to 255")
    return StatedPictures(
        resize=_word(net, "resize", RESIZES),
        mean=_numbers(net, "mean", channels),
        std=std,
        colors=_word(net, "colors", COLORS),
        fill=fill[0] if fill else None,
    )


def _word(net: Section, key: str, words: tuple[str, ...]) -> str | None:
    word = net.options.get(key)
    if word is not None and word not in words:
        raise _wrong(net, key, f"expected {', '.join(words[:-1])} or {words[-1]}")
    return word


def _numbers(net: Section, key: str, channels: int) -> tuple[float, ...] | None:
    """One number, or one for each channel."""
    if key not in net.options:
        return None
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
