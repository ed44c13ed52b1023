"""A model for the accuracy stage: files, input shape, and how to read its outputs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.accuracy.boxes import Floats
from harness.accuracy.decoders.base import Shape
from harness.accuracy.decoders.registry import shown
from harness.accuracy.heads import Outputs, read_outputs
from harness.accuracy.picture_rules import PictureRules, check_resize
from harness.accuracy.reading import DarknetBoxes, Reading, Scores, reading_of, usual_pictures
from harness.accuracy.stated_outputs import StatedOutputs
from harness.config.darknet_cfg import read_cfg
from harness.config.file_kind import expect_weights
from harness.config.policy import BUILT_IN, apply
from harness.errors import ConfigurationError
from harness.runtimes.engine import HostEngine
from harness.temporary import temporary_folder


@dataclass(frozen=True, kw_only=True)
class Model:
    """A cfg with its weights."""

    cfg: Path
    weights: Path
    input: tuple[int, int, int]  # channels, height, width
    layers: tuple[dict[str, Any], ...]  # the rows of `mpe info`
    outputs: Outputs
    reading: Reading
    shapes: tuple[Shape, ...] = ()  # of the outputs that an imported model's cfg states

    @property
    def classes(self) -> int:
        """The number of classes; 0 if the outputs are neither boxes nor scores."""
        return self.reading.classes

    @property
    def mixed(self) -> bool:
        """Whether the cfg requests another precision than fp32 for any layer."""
        return any(layer["precision"] in ("fp16", "int8", "int16") for layer in self.layers)

    def pictures(self, asked: str | None) -> PictureRules:
        """How pictures are fitted: as requested, as the cfg states, else as usual for such networks.

        Raises ConfigurationError for an unknown method of resizing.
        """
        check_resize(asked)
        if self.outputs.pictures is not None:
            return self.outputs.pictures.resolved(asked, usual_pictures(self.reading), self.input[0])
        if isinstance(self.reading, Scores):
            default = "crop"
        else:
            default = "letterbox" if self.outputs.letter_box else "stretch"
        return PictureRules(resize=asked or default, darknet=True)

    def arrays(self, heads: dict[int, Floats], image: int) -> list[Floats]:
        """One image's outputs in the model's order and shapes, of the engine's tensors of a batch."""
        if isinstance(self.reading, DarknetBoxes):
            # Other runtimes than the engine have an axis for the batch.
            sources = [head.source for head in self.reading.heads]
            return [heads[source][image].reshape(self.layers[source]["out"]) for source in sources]
        if self.outputs.stated is None:
            # The last tensor from the engine is the network's output.
            return [heads[max(heads)][image].reshape(-1)]
        return [
            heads[layer][image].reshape(shape)
            for layer, shape in zip(self.outputs.stated.layers, self.shapes, strict=True)
        ]


def load_model(engine: HostEngine, cfg: Path, weights: Path, *, origin: Path | None = None) -> Model:
    """Reads a model's shape; the engine checks the cfg. Raises ConfigurationError with file and line.

    `origin` is the user's cfg if `cfg` is a copy with a policy's precisions: labels are beside it.
    """
    expect_weights(weights)
    info = engine.info(cfg)
    if (count := len(info["inputs"])) > 1:
        raise ConfigurationError(
            f"{(origin or cfg).name}: the network has {count} inputs, and pictures fit networks with one",
            hint="`harness predict`, and `harness run` without `dataset`, take networks with several inputs.",
        )
    return described_model(cfg, weights, info["layers"], origin=origin)


def described_model(
    cfg: Path, weights: Path, layers: Sequence[dict[str, Any]], *, origin: Path | None = None
) -> Model:
    """The same without the engine. `layers` has a row with `out` for each layer, as of `mpe info`."""
    outputs = read_outputs(cfg, origin)
    shapes: tuple[Shape, ...] = ()
    if outputs.stated is not None:
        given = [layers[layer]["out"] for layer in outputs.stated.layers]
        shapes = outputs.stated.shapes or tuple(map(_shape, given))
        _check_shapes(cfg, outputs.stated, shapes, given)
    return Model(
        cfg=cfg,
        weights=weights,
        input=outputs.size,
        layers=tuple(layers),
        outputs=outputs,
        reading=_reading(outputs, shapes, layers),
        shapes=shapes,
    )


def known_reading(outputs: Outputs) -> Reading | None:
    """The reading as far as a cfg alone tells it: None where only the engine knows the outputs' shapes.

    The number of a Darknet classifier's classes is among what only the engine knows.
    """
    if outputs.heads:
        return DarknetBoxes(heads=outputs.heads, network=outputs.size)
    if outputs.stated is not None and outputs.stated.shapes is not None:
        return _reading(outputs, outputs.stated.shapes, ())
    return None


def _reading(outputs: Outputs, shapes: Sequence[Shape], layers: Sequence[dict[str, Any]]) -> Reading:
    if outputs.heads:
        return DarknetBoxes(heads=outputs.heads, network=outputs.size)
    if outputs.stated is None:
        return Scores(outputs=math.prod(layers[-1]["out"]))
    return reading_of(outputs.stated, shapes, outputs.size)


def _check_shapes(
    cfg: Path, stated: StatedOutputs, shapes: Sequence[Shape], given: Sequence[Sequence[int]]
) -> None:
    """Raises ConfigurationError if a stated shape has another number of values than the engine's."""
    for name, shape, out in zip(stated.names, shapes, given, strict=True):
        if math.prod(shape) != math.prod(out):
            raise ConfigurationError(
                f"{cfg}: the output {name} has {math.prod(out)} values, "
                f"not those of the shape {shown([shape])}",
                hint="Correct output_shapes, or import the model again.",
            )


def _shape(out: Sequence[int]) -> Shape:
    """The model's own shape behind the engine's channels, height, width: of tables and vectors the engine's
    further axes have length one."""
    channels, height, width = out
    if height == 1:
        return (channels,) if width == 1 else (channels, width)
    return channels, height, width


@contextlib.contextmanager
def in_fp32(model: Model) -> Iterator[Model]:
    """The same model with every layer in fp32, for comparison."""
    if not model.mixed:
        yield model
        return
    with temporary_folder("fp32") as folder:
        cfg = folder / model.cfg.name
        cfg.write_text(apply(BUILT_IN["fp32"], read_cfg(model.cfg).text), encoding="latin-1", newline="")
        yield replace(model, cfg=cfg)
