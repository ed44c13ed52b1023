"""Reads a Darknet weights file layer by layer, as the engine does (engine/src/model/weights.cpp)."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.config.model_files import HEADERS
from harness.errors import ConfigurationError, file_error
from harness.files import open_regular

Floats = npt.NDArray[np.float32]

_VALUE = 4  # bytes
_TRANSPOSED = 1000  # what one of a version's numbers is above
EPSILON = float(np.float32(1e-5))  # of batch normalisation


class WeightsFile:
    """The values of a file, taken in the order of the layers."""

    def __init__(self, path: Path, parameters: int, cfg: str) -> None:
        """Reads the values, of which `cfg` needs so many. Raises ConfigurationError if the file has another
        size, with both sizes."""
        self.path = path
        try:
            with open_regular(path) as stream:
                start = stream.read(HEADERS[0])
                if len(start) < HEADERS[0]:
                    raise ConfigurationError(
                        f"{path}: cannot read a weights header of {HEADERS[0]} bytes; the file is truncated"
                    )
                major, minor, revision = struct.unpack("<iii", start[:12])
                # Very old Darknets wrote the weights of connected layers as [inputs][outputs].
                self.connected_transposed = major > _TRANSPOSED or minor > _TRANSPOSED
                size = stream.seek(0, 2)
                wanted = _VALUE * parameters
                short = major * 10 + minor < 2 or (
                    self.connected_transposed and size == HEADERS[0] + wanted  # Darknets disagree on these
                )
                header = HEADERS[0] if short else HEADERS[1]
                if size != header + wanted:
                    kind = "truncated" if size < header + wanted else "too long"
                    raise ConfigurationError(
                        f"{path}: {kind}: {cfg} needs {header + wanted} bytes "
                        f"(version {major}.{minor}.{revision}), the file has {size}",
                        hint="Check that cfg and weights belong together.",
                    )
                stream.seek(header)
                self._values = np.frombuffer(stream.read(wanted), "<f4").astype(np.float32, copy=False)
        except OSError as error:
            raise file_error(path, error) from None
        if len(self._values) != parameters:
            raise ConfigurationError(f"{path}: cannot be read: the file has shrunk")
        self._place = 0

    def take(self, *shape: int) -> Floats:
        """The next values."""
        first, self._place = self._place, self._place + math.prod(shape)
        return self._values[first : self._place].reshape(shape)

    def take_norm(self, channels: int) -> BatchNorm:
        """The next batch normalisation."""
        return BatchNorm(*(self.take(channels) for _ in range(3)))


class BatchNorm:
    """scale * (x - mean) / sqrt(variance + epsilon), to be folded into the layer before it."""

    def __init__(self, scales: Floats, means: Floats, variances: Floats) -> None:
        with np.errstate(all="ignore"):  # values that are not finite are reported with their layer
            self._factors = scales / np.sqrt(variances.astype(np.float64) + EPSILON)
        self._means = means

    def folded(self, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Weights [channels, ...] and bias, computed in double and rounded once."""
        factors = self._factors.reshape(-1, *[1] * (weights.ndim - 1))
        with np.errstate(all="ignore"):
            return (
                (weights * factors).astype(np.float32),
                (bias - self._means * self._factors).astype(np.float32),
            )
