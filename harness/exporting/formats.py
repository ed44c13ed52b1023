"""Exports a model in one of the formats of harness/config/export_formats.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.export_formats import FORMATS
from harness.errors import ConfigurationError, file_error
from harness.exporting.network import Network
from harness.exporting.outputs import Output
from harness.exporting.precision_plan import LayerFormat
from harness.temporary import temporary_folder


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """What a format's module writes.

    `metadata`: what a user of the file needs to know, as text by key.
    """

    stem: str  # of the files' names
    network: Network
    formats: Sequence[LayerFormat]  # of the layers
    outputs: Sequence[Output]
    metadata: Mapping[str, str]


Writer = Callable[[ExportedModel], Mapping[str, bytes]]  # `files` of a module: contents by name


def export_model(model: ExportedModel, name: str, folder: Path) -> list[Path]:
    """Writes all files of a format or, if one cannot be written, none. Files of the same names are replaced.

    Raises ConfigurationError for a layer that the format cannot express, or a folder that cannot be written.
    """
    write: Writer = importlib.import_module(FORMATS[name]).files
    contents = write(model)
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder}: is not a folder", hint="Name another folder with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_folder("export", within=folder) as private:
            for file, content in contents.items():
                (private / file).write_bytes(content)
            for file in contents:
                (private / file).replace(folder / file)
    except OSError as error:
        raise file_error(folder, error, doing="cannot be written") from None
    return [folder / file for file in contents]
