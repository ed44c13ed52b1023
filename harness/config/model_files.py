"""The files of a model, checked without the engine, so that a mistake is told before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

from harness.config.darknet_cfg import DarknetCfg, read_cfg
from harness.config.file_kind import expect_weights
from harness.errors import ConfigurationError, file_error
from harness.files import read_regular

# Three numbers of a version and how many images the network has seen, in 32 or in 64 bits.
HEADERS = (16, 20)
_PARAMETER = 4  # bytes
_LARGEST_CALIBRATION = 64 << 20  # bytes


def check_model(cfg: Path, weights: Path, calibration: Path | None = None) -> DarknetCfg:
    """Reads a model's cfg and looks at its other files.

    Raises ConfigurationError where a file is missing, is of another kind, or does not belong to the cfg.
    """
    network = read_cfg(cfg)
    check_weights(network, weights)
    if calibration is not None:
        check_calibration(network, calibration)
    return network


def check_weights(network: DarknetCfg, weights: Path) -> None:
    """The same for weights alone. Networks with connected layers are left to the engine: how many weights
    these have depends on sizes that only the engine computes."""
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
            f"{weights}: has {found} bytes, {network.file} takes {sizes[1]} "
            f"({sizes[0]} with the older header)",
            hint="The file is damaged or belongs to another cfg.",
        )


def check_calibration(network: DarknetCfg, calibration: Path) -> None:
    """The same for a calibration file alone: that it is one, and is of a network of as many layers."""
    try:
        data = json.loads(read_regular(calibration, limit=_LARGEST_CALIBRATION, what="a calibration file"))
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
            f"{calibration}: is of a network of {layers} layers, {network.file} has {len(network.layers)}",
            hint="Record the ranges of this network with `harness calibrate`.",
        )


def _no_calibration(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: is no calibration file: {reason}", hint="`harness calibrate` writes such files."
    )
