"""Formats to export to that a runtime's own converter makes of the ONNX export: MNN's, and ncnn's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.exporting import onnx_files
from harness.exporting.formats import ExportedModel
from harness.exporting.layer import NetworkLayer
from harness.exporting.metadata import metadata_file
from harness.exporting.precision_plan import LayerFormat
from harness.runtimes.mnn_runtime import MnnRuntime
from harness.runtimes.ncnn_int8 import int8_table
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.runtimes.on_board.ncnn_file import read_graph
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.runtimes.python_runtime import PythonRuntime


def mnn_files(model: ExportedModel) -> Mapping[str, bytes]:
    """A model, and what else is known of it. Raises ConfigurationError for a layer that cannot be exported,
    HarnessError if the converter fails."""
    with _quantised(model) if _int8_layers(model) else _converted(MnnRuntime(), model) as path:
        return {f"{model.stem}.mnn": path.read_bytes(), **metadata_file(model.stem, model.metadata)}


def ncnn_files(model: ExportedModel) -> Mapping[str, bytes]:
    """The graph and the weights, with the names of inputs and outputs, and the scales if layers are int8.
    Raises as `mnn_files`."""
    for layer in _int8_layers(model):
        if model.formats[layer.index].dynamic:
            raise layer.error(
                "is int8 with quantize=1, but ncnn does not measure ranges at run time",
                key="quantize",
                hint="Use int8 with quantize=0 and a calibration, or --format onnx.",
            )
    inputs = [model.network.input, *(each.tensor for each in model.network.layers if each.kind == "input")]
    names = {f"in{place}": name for place, name in enumerate(inputs)}
    names |= {f"out{place}": output.name for place, output in enumerate(model.outputs)}
    with _converted(NcnnRuntime(), model) as path:
        graph, _, end = read_graph(str(path))
        weights = path.read_bytes()[:end]
        table = int8_table(graph, weights) if _int8_layers(model) else ""
        return {
            f"{model.stem}.param": _renamed(graph, names).encode(),
            f"{model.stem}.bin": weights,
            **({f"{model.stem}.table": table.encode()} if table else {}),
            **metadata_file(model.stem, model.metadata),
        }


def _int8_layers(model: ExportedModel) -> list[NetworkLayer]:
    needed = model.network.needed()
    return [layer for layer in needed if layer.weighted and model.formats[layer.index].executed == "int8"]


@contextlib.contextmanager
def _converted(runtime: PythonRuntime, model: ExportedModel) -> Iterator[Path]:
    """What the runtime's converter writes."""
    with temporary_folder("converted") as folder:
        source = folder / "model.onnx"
        source.write_bytes(onnx_files.content(model))
        converted = folder / runtime.converted_name(source)
        runtime.convert(source, converted)
        yield converted


@contextlib.contextmanager
def _quantised(model: ExportedModel) -> Iterator[Path]:
    """What MNN's quantiser writes. It records ranges of its own."""
    import onnx

    runtime = MnnRuntime()
    for layer in model.network.needed():
        executed = model.formats[layer.index].executed
        if layer.weighted and (executed not in ("int8", "fp32") or (executed == "int8" and layer.quantize)):
            raise layer.error(
                f"is {executed}{' with quantize=1' if executed == 'int8' else ''}, but MNN's quantiser mixes "
                "none but int8 with quantize=0 and fp32",
                key="int8",
                hint="Use --format onnx, which takes all precisions.",
            )
    if model.pictures is None:
        raise _int8_layers(model)[0].error(
            "is int8 with quantize=0: MNN's quantiser records ranges of its own, and has no pictures",
            key="int8",
            hint="Give `harness export` some with --dataset. A sweep has them if its model has a dataset and "
            "no calibration file.",
        )
    plain = replace(model, formats=[LayerFormat() for _ in model.formats])
    left = {layer.tensor for layer in model.network.needed() if layer.weighted}
    left -= {layer.tensor for layer in _int8_layers(model)}
    with temporary_folder("quantised") as folder:
        source, pictures, made = folder / "model.onnx", folder / "pictures.npy", folder / "model.mnn"
        source.write_bytes(onnx_files.content(plain))
        model.pictures(pictures)
        nodes = onnx.load(str(source), load_external_data=False).graph.node
        weights = {f"{tensor}/weights" for tensor in left}
        in_float = [node.output[0] for node in nodes if weights.intersection(node.input)]
        runtime.quantise(source, made, pictures, in_float)
        yield made


def _renamed(graph: str, names: Mapping[str, str]) -> str:
    """A graph of ncnn with other names for tensors. pnnx numbers those of inputs and outputs."""
    magic, counts, *lines = graph.splitlines()
    for place, line in enumerate(lines):
        words = line.split()
        tensors = slice(4, 4 + int(words[2]) + int(words[3]))  # behind type, name and the two numbers
        words[tensors] = [names.get(word, word) for word in words[tensors]]
        lines[place] = " ".join(words)
    return "\n".join([magic, counts, *lines, ""])
