"""Where a picture lies in a network's input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The position of the whole picture in the network's input, as fractions of that input."""

    left: float = 0.0
    top: float = 0.0
    width: float = 1.0
    height: float = 1.0

    def to_picture(self, boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Boxes [k, 4] (centre x, y, width, height) from fractions of the input to those of the picture."""
        shift = np.array([self.left, self.top, 0, 0], np.float32)
        scale = np.array([self.width, self.height, self.width, self.height], np.float32)
        return np.asarray((boxes - shift) / scale, np.float32)
