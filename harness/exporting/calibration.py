"""Reads a calibration file: ranges of tensors, or the grids of a model that was published as quantised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.model_files import LARGEST_CALIBRATION
from harness.errors import ConfigurationError
from harness.exporting.network import Network
from harness.exporting.quantization import LEAST, MOST, ChannelRanges, Grid, grid_of_range
from harness.exporting.weights_file import Floats
from harness.json_file import read_json


@dataclass(frozen=True, kw_only=True)
class TensorRange:
    """What a tensor was seen to hold."""

    low: float
    high: float
    grid: Grid  # that covers the range, or as published
    published: bool = False
    channels: ChannelRanges | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Entries by layer; NETWORK_INPUT is the network's input."""

    tensors: Mapping[int, TensorRange] = field(default_factory=dict)
    weight_scales: Mapping[int, Floats] = field(default_factory=dict)  # published ones, [output channels]


def read_calibration(path: Path, network: Network) -> Calibration:
    """Raises ConfigurationError if the file is damaged or belongs to another network."""
    data = read_json(path, limit=LARGEST_CALIBRATION, what="a calibration file")
    try:
        if data["format"] != "mpe-calibration" or data["version"] != 1:
            raise ValueError("it is of another format or version")
        described = data.get("network", {})
        shape = list(network.input_shape)
        if described.get("layers", len(network.layers)) != len(network.layers) or (
            described.get("input", shape) != shape
        ):
            raise ConfigurationError(
                f"{path}: made for a network with another input size or number of layers than {network.file}",
                hint="Record the ranges of this network with `harness calibrate`.",
            )
        tensors = {_layer(entry, network): _tensor(entry, network) for entry in data["tensors"]}
        weights = {_layer(entry, network): _scales(entry, network) for entry in data.get("weights", [])}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigurationError(
            f"{path}: not a calibration file: {reason}", hint="`harness calibrate` writes such files."
        ) from None
    return Calibration(tensors=tensors, weight_scales=weights)


def _layer(entry: Mapping[str, Any], network: Network) -> int:
    layer = int(entry["layer"])
    if not -1 <= layer < len(network.layers):
        raise ValueError(f"there is no layer {layer}")
    return layer


def _tensor(entry: Mapping[str, Any], network: Network) -> TensorRange:
    if "scale" in entry:
        zero_point = int(entry["zero_point"])
        if not LEAST <= zero_point <= MOST:
            raise ValueError(f"the zero point {zero_point} is outside {LEAST} to {MOST}")
        grid = Grid(scale=_step(entry["scale"]), zero_point=zero_point)
        low, high = (grid.scale * (end - zero_point) for end in (LEAST, MOST))
        return TensorRange(low=low, high=high, grid=grid, published=True)
    low, high = _number(entry["min"]), _number(entry["max"])
    ends = [np.asarray(entry.get(key, ()), np.float32) for key in ("channel_min", "channel_max")]
    count = network.shape_of(int(entry["layer"]))[0]
    if any(end.shape not in ((0,), (count,)) for end in ends) or len(ends[0]) != len(ends[1]):
        raise ValueError(f"layer {entry['layer']} has {count} channels, but not as many ranges")
    if low > high or not np.isfinite(ends).all() or (ends[0] > ends[1]).any():
        raise ValueError(f"layer {entry['layer']} has a minimum above its maximum")
    channels = ChannelRanges(low=ends[0], high=ends[1]) if len(ends[0]) else None
    return TensorRange(low=low, high=high, grid=grid_of_range(low, high), channels=channels)


def _scales(entry: Mapping[str, Any], network: Network) -> Floats:
    layer = network.layers[_layer(entry, network)]
    scales = np.array([_step(scale) for scale in entry["scales"]], np.float32)
    if not layer.weighted or len(scales) not in (1, layer.channels):
        raise ValueError(f"layer {layer.index} has not {len(scales)} scales of weights")
    return np.resize(scales, layer.channels)


def _step(value: Any) -> float:
    scale = _number(value)
    if not 1e-18 <= scale <= 1e18:
        raise ValueError(f"the scale {scale:g} is not from 1e-18 to 1e18")
    return scale


def _number(value: Any) -> float:
    number = float(np.float32(value))
    if not np.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number
