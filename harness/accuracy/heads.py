"""What a cfg says about its outputs: detection heads with anchors, or a classifier.

The engine hands back the raw tensor before a yolo or region layer; the keys that say how to read it
stay in the cfg, and are read here as Darknet reads them (numbers as C's `atoi` and `atof` do, the
first of two equal keys wins).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_NMS_KINDS = ("greedynms", "diounms")  # every other word means the default to Darknet, too


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
        """The layer whose output the engine writes for this head."""
        return self.layer - 1

    @property
    def channels(self) -> int:
        """Channels that the head's tensor must have."""
        return len(self.anchors) * (5 + self.classes)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """How a network's outputs are to be read."""

    heads: tuple[DetectionHead, ...]  # empty: a classifier
    letter_box: bool  # [net] letter_box=1: the network was trained on letterboxed pictures

    @property
    def detects(self) -> bool:
        """True for a detector, false for a classifier."""
        return bool(self.heads)


@dataclass(frozen=True, kw_only=True)
class _Section:
    name: str
    line: int
    keys: dict[str, tuple[str, int]]  # key -> value, line

    def text(self, key: str, default: str) -> str:
        return self.keys[key][0] if key in self.keys else default

    def number(self, key: str, default: float) -> float:
        """As `atof` reads it: the number at the front, 0 where there is none."""
        if key not in self.keys:
            return default
        found = _NUMBER.match(self.keys[key][0])
        return float(found[1]) if found else 0.0

    def numbers(self, key: str) -> list[float] | None:
        """A list with commas, up to a `#`."""
        if key not in self.keys:
            return None
        words = self.keys[key][0].split("#")[0].split(",")
        return [float(found[1]) if (found := _NUMBER.match(word)) else 0.0 for word in words if word.strip()]

    def line_of(self, key: str) -> int:
        return self.keys[key][1] if key in self.keys else self.line


def read_outputs(cfg: Path) -> Outputs:
    """The heads of a cfg. Raises ConfigurationError with file and line where they make no sense."""
    sections = _sections(cfg)
    heads = tuple(
        _head(cfg, section, index)
        for index, section in enumerate(sections[1:])
        if section.name in ("yolo", "region")
    )
    if len({head.classes for head in heads}) > 1:
        raise ConfigurationError(
            f"{cfg}: its heads have different numbers of classes: "
            + ", ".join(f"{head.classes} (layer {head.layer})" for head in heads)
        )
    letter_box = bool(sections and int(sections[0].number("letter_box", 0)))
    return Outputs(heads=heads, letter_box=letter_box)


def _sections(cfg: Path) -> list[_Section]:
    try:
        lines = cfg.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConfigurationError(f"{cfg}: cannot be read: {error.strerror}") from None
    sections: list[_Section] = []
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            sections.append(_Section(name=line[1:].split("]")[0].strip(), line=number, keys={}))
        elif "=" in line and sections:
            key, value = line.split("=", 1)
            sections[-1].keys.setdefault(key.strip(), (value.strip(), number))
    return sections


def _head(cfg: Path, section: _Section, index: int) -> DetectionHead:
    def wrong(key: str, what: str) -> ConfigurationError:
        return ConfigurationError(f"{cfg}:{section.line_of(key)}: [{section.name}], layer {index}: {what}")

    if index == 0:
        raise wrong("", "a head needs a layer before it")
    if "tree" in section.keys:
        raise wrong("tree", "class trees (YOLO9000) are not supported")
    count = int(section.number("num", 1))
    classes = int(section.number("classes", 20))
    if not 0 < count <= 1000 or not 0 < classes <= 100_000:
        raise wrong("num", f"num={count} and classes={classes} must be positive")
    if int(section.number("coords", 4)) != 4:
        raise wrong("coords", "only coords=4 is supported")
    given = section.numbers("anchors")
    # Darknet's default anchor is half a unit wide and high.
    flat = [0.5] * (2 * count) if given is None else given[: 2 * count]
    if len(flat) < 2 * count:
        raise wrong("anchors", f"num={count} wants {2 * count} numbers in anchors, there are {len(flat)}")
    anchors = np.asarray(flat, np.float32).reshape(count, 2)
    mask = section.numbers("mask") if section.name == "yolo" else None
    if mask is not None:
        chosen = [int(value) for value in mask]
        if not chosen or min(chosen) < 0 or max(chosen) >= count:
            raise wrong("mask", f"mask must name anchors from 0 to {count - 1}, not {chosen}")
        anchors = anchors[chosen]
    nms_kind = section.text("nms_kind", "default")
    return DetectionHead(
        layer=index,
        kind=section.name,
        anchors=anchors,
        classes=classes,
        scale_x_y=section.number("scale_x_y", 1.0),
        new_coords=bool(int(section.number("new_coords", 0))),
        softmax=bool(int(section.number("softmax", 0))),
        nms_kind=nms_kind if nms_kind in _NMS_KINDS else "default",
        beta_nms=section.number("beta_nms", 0.6),
    )
