"""What the cfg of an imported model states about its outputs, in [net].

outputs=         names or indices of the layers whose outputs are the network's, in the model's order
output_shapes=   their shapes without the batch, as in 3549x85,80x80x3; else those of the engine
decoder=         a word of decoders/registry.py; guessed from the shapes if missing
labels=          a file of class names, relative to the cfg
anchors=         widths and heights in pixels, for decoders that need others than their family's own
nms=             the IoU above which boxes of a class are suppressed
detections=      the most detections per picture

Shapes, and what TensorFlow Lite's post-process needs, are also in the file that an import writes beside the
cfg (import_description.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.accuracy.import_description import PostProcess, import_description
from harness.accuracy.picture_rules import FRAMEWORK_KEYS
from harness.config.darknet_cfg import Section
from harness.errors import ConfigurationError

Shape = tuple[int, ...]

_SHAPE = re.compile(r"[0-9]{1,9}(x[0-9]{1,9})*")
_INDEX = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class StatedOutputs:
    """The outputs of an imported model, in its order."""

    layers: tuple[int, ...]  # that compute them
    names: tuple[str, ...]  # of these layers; their indices where they have none
    shapes: tuple[Shape, ...] | None = None  # without the batch
    decoder: str | None = None
    where: str = ""  # the line with the decoder, for messages
    labels: Path | None = None
    anchors: tuple[float, ...] = ()
    overlap: float | None = None  # for suppression
    most: int | None = None  # detections per picture
    post_process: PostProcess | None = None  # of TensorFlow Lite, which the network ends before


def stated_outputs(cfg: Path, sections: Sequence[Section]) -> StatedOutputs | None:
    """Reads [net], the first of a cfg's sections; None for Darknet's cfgs, which have none of these keys.

    `cfg` is the path of the user's cfg: what the import wrote beside it counts where the keys say nothing.
    Raises ConfigurationError with file and line.
    """
    net, layers = sections[0], sections[1:]
    if not any(key in net.options for key in FRAMEWORK_KEYS):
        return None
    indices = tuple(_layer(net, word, layers) for word in _words(net, "outputs")) or (len(layers) - 1,)
    described = import_description(cfg)
    shapes = tuple(_shape(net, word) for word in _words(net, "output_shapes")) or None
    if shapes is not None and len(shapes) != len(indices):
        raise _wrong(net, "output_shapes", f"expected {len(indices)} shapes, one for each output")
    overlap = _numbers(net, "nms")
    if overlap and not 0 < overlap[0] <= 1:
        raise _wrong(net, "nms", "expected an overlap above 0 and up to 1")
    most = net.integer("detections", 0)
    labels = net.options.get("labels")
    post_process = described.post_process if described else None
    if shapes is None and described is not None and len(described.shapes) == len(indices):
        shapes = described.shapes
    return StatedOutputs(
        layers=indices,
        names=tuple(layers[index].options.get("name", str(index)) for index in indices),
        shapes=shapes,
        decoder=net.options.get("decoder"),
        where=f"{net.file}:{net.option_lines.get('decoder', net.line)}",
        labels=cfg.parent / labels if labels else None,
        anchors=_numbers(net, "anchors"),
        overlap=overlap[0] if overlap else post_process.overlap if post_process else None,
        most=most if most > 0 else post_process.most if post_process else None,
        post_process=post_process,
    )


def _words(net: Section, key: str) -> list[str]:
    return [word for word in net.options.get(key, "").split(",") if word]


def _layer(net: Section, word: str, layers: Sequence[Section]) -> int:
    """The index of the layer that a word names."""
    if _INDEX.fullmatch(word):
        index = int(word) + (len(layers) if word.startswith("-") else 0)
        if 0 <= index < len(layers):
            return index
        raise _wrong(net, "outputs", f"there is no layer {word}; the last is {len(layers) - 1}")
    for index, layer in enumerate(layers):
        if layer.options.get("name") == word:
            return index
    raise _wrong(net, "outputs", f"no layer has the name {word[:60]}")


def _shape(net: Section, word: str) -> Shape:
    if not _SHAPE.fullmatch(word):
        raise _wrong(net, "output_shapes", "expected shapes such as 3549x85,80x80x3")
    return tuple(int(size) for size in word.split("x"))


def _numbers(net: Section, key: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(word) for word in _words(net, key))
    except ValueError:
        raise _wrong(net, key, "expected numbers") from None
    if not all(map(math.isfinite, numbers)):
        raise _wrong(net, key, "expected finite numbers")
    return numbers


def _wrong(net: Section, key: str, what: str) -> ConfigurationError:
    return net.error(f"{key}={net.options[key][:60]}: {what}", line=net.option_lines[key])
