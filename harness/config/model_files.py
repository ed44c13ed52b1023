"""Checks the files of a model without the engine: mistakes are reported before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

from harness.config.darknet_cfg import DarknetCfg, read_cfg
from harness.config.file_kind import expect_weights
from harness.errors import ConfigurationError, file_error
from harness.files import read_regular

# Three numbers of a version, and the number of images in training, of 32 or 64 bits.
HEADERS = (16, 20)
_PARAMETER = 4  # bytes
LARGEST_CALIBRATION = 64 << 20  # bytes


def check_model(cfg: Path, weights: Path, calibration: Path | None = None) -> DarknetCfg:
    """Reads a model's cfg and checks its other files.

    Raises ConfigurationError if a file is missing, of another kind, or does not belong to the cfg.
    """
    network = read_cfg(cfg)
    check_weights(network, weights)
    if calibration is not None:
        check_calibration(network, calibration)
    return network


def check_weights(network: DarknetCfg, weights: Path) -> None:
    """The same for weights alone. The engine checks networks with connected layers: their number of weights
    depends on sizes that only the engine computes."""
    expect_weights(weights)
    parameters = 0
    for layer in network.layers:
        if layer.parameters is None:
            return
        parameters += layer.parameters
    found = weights.stat().st_size
    sizes = [header + _PARAMETER * parameters for header in HEADERS]
    if found not in sizes:
        raise ConfigurationError(
            f"{weights}: has {found} bytes, but {network.file} needs {sizes[1]} "
            f"({sizes[0]} with the older header)",
            hint="The file is damaged or belongs to another cfg.",
        )


def check_calibration(network: DarknetCfg, calibration: Path) -> None:
    """The same for a calibration file alone: its format, and its number of layers."""
    try:
        data = json.loads(read_regular(calibration, limit=LARGEST_CALIBRATION, what="a calibration file"))
    except OSError as error:
        raise file_error(calibration, error) from None
    except (ValueError, RecursionError):
        raise _no_calibration(calibration, "it is not JSON") from None
    if not isinstance(data, dict) or data.get("format") != "mpe-calibration":
        raise _no_calibration(calibration, 'it has no "format": "mpe-calibration"')
    described = data.get("network")
    layers = described.get("layers") if isinstance(described, dict) else None
    if isinstance(layers, int) and layers != len(network.layers):
        raise ConfigurationError(
            f"{calibration}: was recorded on {layers} layers, but {network.file} has {len(network.layers)}",
            hint="Record the ranges of this network with `harness calibrate`.",
        )


def _no_calibration(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: not a calibration file: {reason}", hint="`harness calibrate` writes such files."
    )
