"""The files of a model that a command has changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def model_contents(
    cfg: Path, *, text: str, weights: bytes, calibration: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files by name: with those that stand beside the cfg and describe it."""
    from harness.accuracy.calibrate import calibration_text

    beside = {
        path.name: path.read_bytes()
        for path in (cfg.with_suffix(".import.json"), cfg.with_suffix(".names"))
        if path.is_file()
    }
    return beside | {
        f"{cfg.stem}.weights": weights,
        f"{cfg.stem}.calibration.json": calibration_text(calibration).encode(),
        cfg.name: text.encode("latin-1"),
    }
