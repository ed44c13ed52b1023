"""A SavedModel and TensorFlow Lite as formats to export to, by TensorFlow in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from harness.config.policy import TFLITE
from harness.errors import ConfigurationError
from harness.exporting import onnx_files
from harness.exporting.float_operators import float_operators
from harness.exporting.formats import ExportedModel
from harness.exporting.layer import NetworkLayer
from harness.exporting.metadata import metadata_file
from harness.exporting.precision_plan import LayerFormat
from harness.importing.tensorflow_process import run_tensorflow, tensorflow_failure
from harness.importing.tflite_file import parse_flat_model
from harness.json_file import read_json
from harness.temporary import temporary_folder

_PROGRAM = Path(__file__).with_name("tensorflow_program.py")
_LARGEST_REASON = 1 << 20  # bytes
_FLOAT, _INT8 = "float", "integer-with-float-fallback"
_QUANTISATIONS = {  # of TensorFlow Lite's converter, by the precision of all layers with weights
    "fp32": _FLOAT,
    "fp16": "float16",
    "int8 with quantize=1": "dynamic-range",
    "int8": _INT8,
}
_INTEGER_ONLY = "full-integer"
_WITHOUT_PICTURES = (_FLOAT, "float16", "dynamic-range")


def saved_model_files(model: ExportedModel) -> Mapping[str, bytes]:
    """The files of a folder, in fp32. Raises ConfigurationError for a layer that cannot be expressed, or if
    TensorFlow is not installed."""
    for layer in _weighted(model):
        if _precision(model, layer) != "fp32":
            raise layer.error(
                f"is {_precision(model, layer)}, but a SavedModel is float32",
                key="int8",
                hint="Use the policy fp32, or --format tflite.",
            )
    found = _converted(model, "saved-model")
    return {
        **{f"{model.stem}/{name}": content for name, content in found.items()},
        **metadata_file(model.stem, model.metadata),
    }


def tflite_files(model: ExportedModel) -> Mapping[str, bytes]:
    """A file in one of TensorFlow Lite's own precisions.

    Raises as `saved_model_files`, and if operators of a file in integers alone would compute in float.
    """
    flavour, in_float = (model.tflite, ()) if model.tflite else _flavour(model)
    if flavour not in _WITHOUT_PICTURES and model.pictures is None:
        raise _without_pictures(model)
    (content,) = _converted(model, flavour, in_float).values()
    if flavour == _INTEGER_ONLY and (left := float_operators(parse_flat_model(content, model.network.file))):
        raise ConfigurationError(
            f"{model.stem}: TensorFlow's converter has no int8 for {', '.join(sorted(left))}",
            hint="Use the quantisation integer-with-float-fallback.",
        )
    return {f"{model.stem}.tflite": content, **metadata_file(model.stem, model.metadata)}


def _without_pictures(model: ExportedModel) -> ConfigurationError:
    reason = "TensorFlow's converter records ranges of its own, and has no pictures"
    hint = (
        "Give `harness export` some with --dataset. A sweep has them if its model has a dataset and no "
        "calibration file."
    )
    if model.tflite:
        return ConfigurationError(f"{model.stem}: for {model.tflite}, {reason}", hint=hint)
    first = next(layer for layer in _weighted(model) if _precision(model, layer) == "int8")
    return first.error(f"is int8 with quantize=0: {reason}", key="int8", hint=hint)


def _flavour(model: ExportedModel) -> tuple[str, Sequence[NetworkLayer]]:
    """What the converter does to the whole model, and the layers that it leaves in float beside int8."""
    first, flavour = None, _FLOAT
    asked = {_QUANTISATIONS.get(_precision(model, layer)) for layer in _weighted(model)}
    if asked == {_FLOAT, _INT8}:
        return _INT8, [layer for layer in _weighted(model) if _precision(model, layer) == "fp32"]
    for layer in _weighted(model):
        precision = _precision(model, layer)
        if precision not in _QUANTISATIONS:
            raise layer.error(
                f"is {precision}, which is not exported to TensorFlow Lite",
                key="int8",
                hint="It takes fp32, fp16 and int8. ONNX takes all precisions.",
            )
        if first is None:
            first, flavour = layer, _QUANTISATIONS[precision]
        elif _QUANTISATIONS[precision] != flavour:
            raise layer.error(
                f"is {precision} and layer {first.index} is {_precision(model, first)}: "
                "TensorFlow's converter mixes none but fp32 and int8 with quantize=0",
                hint="Use a policy with one precision. ONNX takes several.",
            )
    return flavour, ()


def _weighted(model: ExportedModel) -> list[NetworkLayer]:
    return [layer for layer in model.network.needed() if layer.weighted]


def _precision(model: ExportedModel, layer: NetworkLayer) -> str:
    """As the policy asks: the engine converts nothing at run time where an input arrives as int8."""
    executed = model.formats[layer.index].executed
    return executed + (" with quantize=1" if executed == "int8" and layer.quantize else "")


def _converted(model: ExportedModel, kind: str, in_float: Sequence[NetworkLayer] = ()) -> Mapping[str, bytes]:
    """The files that the program writes, by their paths."""
    if find_spec("tensorflow") is None:
        raise ConfigurationError(
            "the Python package tensorflow, which writes this format, is not installed",
            hint="Install it with `pip install 'harness[import,train]'`.",
        )
    plain = replace(model, formats=[LayerFormat() for _ in model.formats])
    with temporary_folder("tensorflow") as folder:
        source, made = folder / "model.onnx", folder / "made"
        made.mkdir()
        source.write_bytes(onnx_files.content(plain))
        words = [kind, str(source), str(made)]
        if kind in TFLITE and kind not in _WITHOUT_PICTURES and model.pictures is not None:
            pictures = folder / "pictures.npy"
            model.pictures(pictures)
            words.append(str(pictures))
            if in_float:
                left = folder / "float.json"
                left.write_text(json.dumps(_nodes_of(in_float, model, source)), encoding="utf-8")
                words.append(str(left))
        done = run_tensorflow(_PROGRAM, *words)
        refused = made / "refused.json"
        if refused.exists():
            reason = read_json(refused, limit=_LARGEST_REASON, what="the reason of a refusal")
            raise _layer_of(model, reason["node"]).error(reason["message"], hint="Use --format onnx.")
        if done.returncode:
            raise tensorflow_failure(model.network.file, done)
        root = made / "model" if kind == "saved-model" else made
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def _nodes_of(layers: Sequence[NetworkLayer], model: ExportedModel, source: Path) -> list[str]:
    """The names of the nodes that were written for some layers."""
    import onnx

    wanted = {layer.index for layer in layers}
    nodes = onnx.load(str(source), load_external_data=False).graph.node
    return [node.name for node in nodes if _layer_of(model, node.name).index in wanted]


def _layer_of(model: ExportedModel, node: str) -> NetworkLayer:
    """The layer that a node was written for. Its name begins with that of the layer's tensor."""
    fitting = [
        layer for layer in model.network.needed() if node.startswith((f"{layer.tensor}/", f"{layer.tensor}:"))
    ]
    return max(fitting, key=lambda layer: len(layer.tensor), default=model.network.layers[-1])
