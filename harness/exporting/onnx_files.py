"""ONNX as a format to export to."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from harness.errors import ConfigurationError
from harness.exporting.formats import ExportedModel


def files(model: ExportedModel) -> Mapping[str, bytes]:
    """One file. Raises ConfigurationError for a layer that cannot be exported."""
    return {f"{model.stem}.onnx": content(model)}


def content(model: ExportedModel) -> bytes:
    """That of the file, of which converters make other formats. Raises as `files`."""
    if find_spec("onnx") is None:
        raise ConfigurationError(
            "the Python package onnx is not installed",
            hint="Install it with `pip install 'harness[import]'`.",
        )
    from harness.exporting.onnx_writer import onnx_model

    return onnx_model(model.network, model.formats, model.outputs, model.metadata)
