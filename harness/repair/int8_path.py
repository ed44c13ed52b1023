"""The tensors of a network in int8, as the engine computes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.darknet_cfg import NETWORK_INPUT, DarknetCfg, Layer, header_of, key_of, lines_of
from harness.config.policy import BUILT_IN, apply
from harness.exporting.quantization import grid_of_range
from harness.exporting.weights_file import Floats
from harness.repair.parameters import Parameters
from harness.runtimes.engine import EngineOptions, HostEngine

Document = Mapping[str, Any]  # a calibration file's content
Steps = Mapping[int, Sequence[float]]  # of the weights of layers, one for each output channel

_OUTPUT_KEYS = ("outputs", "output_shapes")  # of [net]


class Int8Path:
    """Runs a network in int8 up to any layer."""

    def __init__(
        self, engine: HostEngine, options: EngineOptions, folder: Path, calibration: Document
    ) -> None:
        """`folder` is for files that each run replaces."""
        self._engine = engine
        self._folder = folder
        self._calibration = calibration
        self._options = replace(options, calibration=folder / "path.json")

    def input_of(self, layer: Layer, parameters: Parameters, steps: Steps, pictures: Floats) -> Floats:
        """[pictures, channels, height, width] what the layer reads, as int8 stores it.

        `steps` are those of the weights of layers before it.
        """
        (source,) = layer.inputs
        if source == NETWORK_INPUT:
            return self._stored_input(pictures)
        cfg = self._folder / "path.cfg"
        text = apply(BUILT_IN["int8"], cut_behind(parameters.cfg, layer.index, output=source))
        cfg.write_text(text, encoding="latin-1", newline="")
        weights = cfg.with_suffix(".weights")
        weights.write_bytes(parameters.data(layer.index + 1))
        ranges = cut_ranges(with_weight_steps(self._calibration, steps), layer.index)
        cfg.with_suffix(".json").write_text(json.dumps(ranges))
        (tensor,) = self._engine.forward(cfg, weights, pictures, self._options).heads.values()
        return tensor

    def _stored_input(self, pictures: Floats) -> Floats:
        (entry,) = (each for each in self._calibration["tensors"] if each["layer"] == NETWORK_INPUT)
        grid = grid_of_range(entry["min"], entry["max"])
        stored = np.clip(np.rint(pictures / np.float32(grid.scale)) + grid.zero_point, -128, 127)
        values: Floats = ((stored - grid.zero_point) * np.float32(grid.scale)).astype(np.float32)
        return values


def cut_behind(cfg: DarknetCfg, last: int, *, output: int) -> str:
    """The text of a cfg up to a layer, with one output."""
    lines: list[str] = []
    index = -2  # the first header is [net], the second one layer 0
    for line in lines_of(cfg.text):
        opens = header_of(line) is not None
        index += opens
        if index > last:
            break
        if index == -1 and key_of(line) in _OUTPUT_KEYS:
            continue
        lines.append(line)
        if index == -1 and opens:
            lines.append(f"outputs={output}\n")
    return "".join(lines)


def cut_ranges(calibration: Document, last: int) -> Document:
    """A calibration for the network up to a layer."""
    kept = {key: value for key, value in calibration.items() if key != "network"}
    for key in ("tensors", "weights"):
        kept[key] = [entry for entry in calibration.get(key, ()) if entry["layer"] <= last]
    return kept


def with_weight_steps(calibration: Document, steps: Steps) -> Document:
    """A calibration with the steps of layers' weights."""
    entries = [{"layer": layer, "scales": list(scales)} for layer, scales in sorted(steps.items())]
    return {**calibration, **({"weights": entries} if entries else {})}
