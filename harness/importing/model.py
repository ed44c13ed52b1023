"""Imports a model file: reads it, rewrites its graph, and writes it as sections of a cfg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from harness.config.document import nearest_file
from harness.config.file_kind import BINARY, CFG, HDF5, KERAS, ONNX, SAVED_MODEL, TFLITE, Kind, kind_of
from harness.errors import ConfigurationError
from harness.importing.graph import MOST_OUTPUTS, Cut, Graph, Shape
from harness.importing.lower import Output, lower
from harness.importing.passes.activations import recognise_activations
from harness.importing.passes.convolutions import fold_into_convolutions, matrices_to_convolutions
from harness.importing.passes.fusing import clip_by_grids, fuse_activations
from harness.importing.passes.grids import spread_grids
from harness.importing.passes.identities import remove_identities, remove_repeated
from harness.importing.passes.layer_norm import recognise_layer_norms
from harness.importing.passes.powers import expand_functions
from harness.importing.passes.transposes import move_transposes
from harness.importing.sections import Sections


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """A model as sections of a cfg, with what the cfg does not say."""

    source: Path
    format: str  # "onnx", "tflite", "keras", "hdf5" or "saved_model"
    sections: Sections
    outputs: tuple[Output, ...]
    cuts: tuple[Cut, ...]
    warnings: tuple[str, ...]
    metadata: Mapping[str, str]  # what the model says about itself
    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None  # mean and deviation that it names


def import_model(path: Path, input_shape: Shape | None = None) -> ImportedModel:
    """Imports an ONNX, TensorFlow Lite or Keras file or a SavedModel; `input_shape` replaces the one that the
    model declares.

    Raises ConfigurationError if the file is of another kind, is damaged, or has something that cannot be
    imported: the message names file, operator, node and reason.
    """
    # Infinite numbers are no error of the import: NumPy has not to print about them.
    with _named(path), np.errstate(all="ignore"):
        graph, name = _read(path, input_shape)
        if not 1 <= len(graph.outputs) <= MOST_OUTPUTS:
            raise ConfigurationError(f"{path}: the model has {len(graph.outputs)} outputs")
        simplify(graph)
        sections, outputs = lower(graph)
        if not sections.found:
            raise ConfigurationError(f"{path}: the model has no operations")
    return ImportedModel(
        source=path,
        format=name,
        sections=sections,
        outputs=outputs,
        cuts=tuple(graph.cuts),
        warnings=(*graph.warnings, *sections.all_warnings()),
        metadata=graph.metadata,
        normalization=graph.normalization,
    )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Names the file in errors that do not: a sweep imports several."""
    try:
        yield
    except ConfigurationError as error:
        if str(path) in error.message:
            raise
        raise ConfigurationError(f"{path}: {error.message}", hint=error.hint, where=str(path)) from None


def _read(path: Path, input_shape: Shape | None) -> tuple[Graph, str]:
    """The graph of a file, by its content, and the name of its format."""
    kind = kind_of(path)
    if kind == BINARY and path.suffix == ".onnx":
        kind = ONNX  # written by a program that orders fields differently
    if kind not in (ONNX, TFLITE, KERAS, HDF5, SAVED_MODEL):
        raise _not_importable(path, kind)
    package = "onnx" if kind == ONNX else "tflite"
    if find_spec(package) is None:
        raise ConfigurationError(
            f"{path}: the Python package {package} is not installed",
            hint="Install it with `pip install 'harness[import]'`.",
        )
    if kind == ONNX:
        from harness.importing.onnx_reader import read_onnx

        return read_onnx(path, input_shape), "onnx"
    from harness.importing.tflite_file import parse_flat_model, read_flat_model
    from harness.importing.tflite_reader import graph_of

    if kind == TFLITE:
        return graph_of(read_flat_model(path), str(path), input_shape), "tflite"
    from harness.importing.tensorflow_models import FORMATS, converted

    content = converted(path, kind, input_shape)
    return graph_of(parse_flat_model(content, str(path)), str(path), input_shape), FORMATS[kind]


def simplify(graph: Graph) -> None:
    """All passes, in their order. Raises ConfigurationError for a graph with a circle."""
    graph.prune()
    spread_grids(graph)
    remove_identities(graph)
    spread_grids(graph)
    recognise_activations(graph)
    expand_functions(graph)
    recognise_layer_norms(graph)
    matrices_to_convolutions(graph)
    move_transposes(graph)
    fold_into_convolutions(graph)
    fuse_activations(graph)
    clip_by_grids(graph)
    move_transposes(graph)
    remove_repeated(graph)
    graph.prune()


def _not_importable(path: Path, kind: Kind | None) -> ConfigurationError:
    """The error for a file of another kind, with the command that exports it to ONNX."""
    if not path.exists():
        near = nearest_file(path)
        return ConfigurationError(f"{path}: no such file", hint=f"Did you mean {near}?" if near else "")
    if kind == CFG:
        return ConfigurationError(f"{path}: is a Darknet cfg already", hint="Give it as --cfg.")
    name = kind.name if kind else "empty or of no known kind"
    return ConfigurationError(
        f"{path}: is {name}; ONNX, TensorFlow Lite and Keras models and SavedModels can be imported",
        hint=kind.hint if kind else "",
    )
