"""The files of a model that a command has changed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ConfigurationError


def check_changeable(arguments: argparse.Namespace, calibration: Path | None) -> None:
    """Raises ConfigurationError for a model that brings ranges in place of `calibration`, the user's, and if
    the files would replace the model."""
    if arguments.calibration != calibration:
        raise ConfigurationError(
            f"{arguments.model}: is quantised already", hint="Take the model in float that it was made from."
        )
    if arguments.out.resolve() == arguments.cfg.resolve().parent:
        raise ConfigurationError(
            f"{arguments.out}: holds the model, whose files would be replaced",
            hint="Name another folder with --out.",
        )


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
