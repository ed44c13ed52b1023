"""The outputs of a cfg: Darknet's detection heads with anchors, or what an imported model's cfg states.

The engine returns the raw tensor before a yolo or region layer. The keys for decoding it are read from the
cfg as in Darknet (numbers as by C's `atoi` and `atof`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.accuracy.picture_rules import StatedPictures, stated_pictures
from harness.accuracy.stated_outputs import StatedOutputs, stated_outputs
from harness.config.darknet_cfg import Section, read_cfg, sections_of
from harness.errors import ConfigurationError

_NMS_KINDS = ("greedynms", "diounms")  # as in Darknet, any other word means the default


@dataclass(frozen=True, kw_only=True)
class DetectionHead:
    """One yolo or region layer."""

    layer: int  # its index; its input is the output of the layer before
    kind: str  # "yolo" or "region"
    anchors: npt.NDArray[np.float32]  # [n, 2] width, height; yolo: network pixels, region: grid cells
    classes: int
    scale_x_y: float
    new_coords: bool
    softmax: bool  # region only: class scores are logits
    nms_kind: str  # "default", "greedynms" or "diounms"
    beta_nms: float

    @property
    def source(self) -> int:
        """The layer that computes this head's tensor."""
        return self.layer - 1

    @property
    def channels(self) -> int:
        """Channels that the head's tensor must have."""
        return len(self.anchors) * (5 + self.classes)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a cfg states about a network's pictures and outputs."""

    heads: tuple[DetectionHead, ...]  # Darknet's
    letter_box: bool  # [net] letter_box=1: the network was trained on letterboxed pictures
    pictures: StatedPictures | None  # of an imported model
    stated: StatedOutputs | None  # of an imported model; without it and without heads, Darknet's classifier
    size: tuple[int, int, int]  # channels, height, width of the input


def read_outputs(cfg: Path, origin: Path | None = None) -> Outputs:
    """What a cfg states; `origin` is the user's own if `cfg` is a copy with a policy.

    Raises ConfigurationError with file and line.
    """
    sections = sections_of(read_cfg(cfg).text, str(cfg))
    heads = tuple(
        _head(cfg, section, index)
        for index, section in enumerate(sections[1:])
        if section.name in ("yolo", "region")
    )
    if len({head.classes for head in heads}) > 1:
        raise ConfigurationError(
            f"{cfg}: the heads have different numbers of classes: "
            + ", ".join(f"{head.classes} (layer {head.layer})" for head in heads)
        )
    net = sections[0]
    return Outputs(
        heads=heads,
        letter_box=net.integer("letter_box", 0) != 0,
        pictures=stated_pictures(net),
        stated=None if heads else stated_outputs(origin or cfg, sections),
        size=(net.integer("channels", 3), net.integer("height", 0), net.integer("width", 0)),
    )


def _head(cfg: Path, section: Section, index: int) -> DetectionHead:
    def wrong(key: str, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{cfg}:{section.option_lines.get(key, section.line)}: [{section.name}], layer {index}: {what}"
        )

    if index == 0:
        raise wrong("", "a head cannot be the first layer")
    if "tree" in section.options:
        raise wrong("tree", "class trees (YOLO9000) are not supported")
    count = section.integer("num", 1)
    classes = section.integer("classes", 20)
    if not 0 < count <= 1000 or not 0 < classes <= 100_000:
        raise wrong("num", f"num={count} and classes={classes} must be positive")
    if section.integer("coords", 4) != 4:
        raise wrong("coords", "only coords=4 is supported")
    given = section.reals("anchors") if "anchors" in section.options else None
    # Darknet's default anchor is half a unit wide and high.
    flat = [0.5] * (2 * count) if given is None else given[: 2 * count]
    if len(flat) < 2 * count:
        raise wrong("anchors", f"num={count} needs {2 * count} numbers in anchors, found {len(flat)}")
    anchors = np.asarray(flat, np.float32).reshape(count, 2)
    if section.name == "yolo" and "mask" in section.options:
        chosen = [int(value) for value in section.reals("mask")]
        if not chosen or min(chosen) < 0 or max(chosen) >= count:
            raise wrong("mask", f"mask must name anchors from 0 to {count - 1}, not {chosen}")
        anchors = anchors[chosen]
    nms_kind = section.options.get("nms_kind", "default")
    return DetectionHead(
        layer=index,
        kind=section.name,
        anchors=anchors,
        classes=classes,
        scale_x_y=section.real("scale_x_y", 1.0),
        new_coords=section.integer("new_coords", 0) != 0,
        softmax=section.integer("softmax", 0) != 0,
        nms_kind=nms_kind if nms_kind in _NMS_KINDS else "default",
        beta_nms=section.real("beta_nms", 0.6),
    )
