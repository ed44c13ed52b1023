"""Exports a model in one of the formats of harness/config/export_formats.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.export_formats import FORMATS
from harness.exporting.network import Network
from harness.exporting.outputs import Output
from harness.exporting.precision_plan import LayerFormat
from harness.files import write_together


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """What a format's function writes.

    `metadata`: what a user of the file needs to know, as text by key.
    `tflite`: the quantisation of TensorFlow Lite, as in a Policy; "": as the formats of all layers say.
    `pictures`: writes those on which a converter may record ranges of its own, as .npy: float32 [n, channels,
    height, width]; None if there are none.
    """

    stem: str  # of the files' names
    network: Network
    formats: Sequence[LayerFormat]  # of the layers
    outputs: Sequence[Output]
    metadata: Mapping[str, str]
    pictures: Callable[[Path], None] | None = None
    tflite: str = ""


Writer = Callable[[ExportedModel], Mapping[str, bytes]]  # contents by name of file


def export_model(model: ExportedModel, name: str, folder: Path) -> list[Path]:
    """Writes all files of a format or, if one cannot be written, none. Files of the same names are replaced.

    Raises ConfigurationError for a layer that the format cannot express, or a folder that cannot be written.
    """
    module, _, function = FORMATS[name].partition(":")
    write: Writer = getattr(importlib.import_module(module), function)
    return write_together(folder, write(model))
