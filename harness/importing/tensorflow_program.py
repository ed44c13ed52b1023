"""Converts a Keras model or a SavedModel to TensorFlow Lite, by TensorFlow's own converter.

A program of its own, which imports nothing of harness: TensorFlow takes seconds, memory, and prints much.

    tensorflow_program.py keras|hdf5|saved_model MODEL FOLDER [N,C,H,W]

It writes FOLDER/model.tflite or, if it refuses the model, FOLDER/refused.json with `message` and `hint`.
Everything else that goes wrong ends it with an exception.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Older versions execute code from some files in spite of the safe mode: CVE-2025-9905, CVE-2025-9906.
_OLDEST_KERAS = (3, 12)
_IMAGE_CHANNELS = (1, 3, 4)
_LARGEST_CONFIG = 256 << 20  # bytes
_EXPORT = "Where the model was made, write a SavedModel, which has no Python code: `model.export('FOLDER')`."

Sizes = Sequence[int | None]


class RefusedError(Exception):
    """The model cannot be converted, and the reason is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def main(kind: str, model: Path, folder: Path, wanted: str = "") -> int:
    """Returns the exit status."""
    sizes = tuple(map(int, wanted.split(","))) if wanted else None
    try:
        content = (
            _from_saved_model(model, sizes) if kind == "saved_model" else _from_keras(kind, model, sizes)
        )
    except RefusedError as refusal:
        reason = {"message": refusal.message, "hint": refusal.hint}
        (folder / "refused.json").write_text(json.dumps(reason), encoding="utf-8")
        return 1
    (folder / "model.tflite").write_bytes(content)
    return 0


def _from_keras(kind: str, path: Path, wanted: Sequence[int] | None) -> bytes:
    import keras
    import tensorflow as tf

    check_version(keras.__version__)
    check_layers(_zip_config(path) if kind == "keras" else _hdf5_config(path))
    model = keras.models.load_model(path, compile=False, safe_mode=True)
    shapes = all_fixed([tuple(tensor.shape) for tensor in model.inputs], wanted)
    specs = [
        tf.TensorSpec(shape, tensor.dtype, name=tensor.name)
        for shape, tensor in zip(shapes, model.inputs, strict=True)
    ]

    def called(*values: Any) -> Any:
        return model(keras.tree.pack_sequence_as(model.input, values), training=False)

    function = tf.function(called, input_signature=specs)
    return _converted(function.get_concrete_function())


def _from_saved_model(path: Path, wanted: Sequence[int] | None) -> bytes:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    names = list(loaded.signatures)
    if "serving_default" not in names and len(names) != 1:
        raise RefusedError(
            f"the model has no signature serving_default, but {', '.join(names) or 'none'}",
            "Save it again with `model.export('FOLDER')`, or with one signature.",
        )
    signature = loaded.signatures["serving_default" if "serving_default" in names else names[0]]
    inputs = signature.structured_input_signature[1]
    names = sorted(inputs, key=numbered)
    if any(inputs[name].shape.rank is None for name in names):
        raise RefusedError("the number of axes of its input is not fixed")
    shapes = all_fixed([tuple(inputs[name].shape) for name in names], wanted)
    specs = [
        tf.TensorSpec(shape, inputs[name].dtype, name=name) for shape, name in zip(shapes, names, strict=True)
    ]
    outputs = sorted(signature.structured_outputs, key=numbered)

    def ordered(*values: Any) -> list[Any]:
        found = signature(**dict(zip(names, values, strict=True)))
        return [found[output] for output in outputs]

    function = tf.function(ordered, input_signature=specs)
    return _converted(function.get_concrete_function())


def numbered(name: str) -> list[tuple[int, str]]:
    """For sorting: output_2 comes before output_10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _converted(function: Any) -> bytes:
    """The content of a TensorFlow Lite file. The caller keeps the function's variables alive."""
    import tensorflow as tf

    # With the owner of its variables, the converter would put the outputs into an order of its own.
    content: bytes = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    return content


def check_version(version: str) -> None:
    """Raises RefusedError for a Keras that is too old to open files of others."""
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_KERAS:
        needed = ".".join(map(str, _OLDEST_KERAS))
        raise RefusedError(
            f"Keras {version} may execute code from model files; {needed} or newer is needed",
            f"Install it with `pip install -U 'keras>={needed}'`.",
        )


def check_layers(config: object) -> None:
    """Raises RefusedError for a model with Python code in it. Keras's safe mode refuses it less clearly."""
    for entry in _dictionaries(config):
        if entry.get("class_name") == "Lambda":
            details = entry.get("config")
            name = details.get("name") if isinstance(details, dict) else None
            raise RefusedError(
                f"the layer {name!r} is a Lambda layer: Python code, which is not executed", _EXPORT
            )


def _dictionaries(found: object) -> Iterator[dict[str, Any]]:
    """All that are anywhere in a JSON document."""
    waiting = [found]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield entry
            waiting.extend(entry.values())
        elif isinstance(entry, list):
            waiting.extend(entry)


def _zip_config(path: Path) -> object:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("config.json").file_size > _LARGEST_CONFIG:
            raise RefusedError("its config.json is too large")
        return json.loads(archive.read("config.json"))


def _hdf5_config(path: Path) -> object:
    import h5py

    with h5py.File(path) as file:
        config = file.attrs.get("model_config")
    if config is None:
        raise RefusedError(
            "it holds weights alone, or is no Keras model",
            "Save the whole model: `model.save('model.keras')`.",
        )
    return json.loads(config)


def all_fixed(declared: Sequence[Sizes], wanted: Sequence[int] | None) -> list[tuple[int, ...]]:
    """The shapes of all inputs; `wanted` is for the first that may hold pictures, as in the import."""
    if not declared:
        raise RefusedError("the model has no input")
    picture = next((place for place, shape in enumerate(declared) if len(shape) == 4), 0)
    return [fixed(shape, wanted if place == picture else None) for place, shape in enumerate(declared)]


def fixed(declared: Sizes, wanted: Sequence[int] | None) -> tuple[int, ...]:
    """A shape with a batch of one and, in place of the other open sizes, those that the user wants.

    `wanted` has channels before rows and columns. Raises RefusedError if a size stays open.
    """
    order: Sequence[int] = range(len(declared))
    # As in the reader of TensorFlow Lite: images have their channels last unless the shape says otherwise.
    if len(declared) == 4 and (declared[3] in _IMAGE_CHANNELS or declared[1] not in _IMAGE_CHANNELS):
        order = (0, 2, 3, 1)
    shape = [1 if axis == 0 and size is None else size for axis, size in enumerate(declared)]
    if wanted is not None and len(wanted) == len(shape):
        shape = [wanted[order[axis]] if size is None else size for axis, size in enumerate(shape)]
    if any(size is None for size in shape):
        shown = ",".join("?" if size is None else str(size) for size in shape)
        usual = ("1", "3", "H", "W") if len(shape) == 4 else ("N",) * len(shape)
        example = list(usual)
        for axis, size in enumerate(shape):
            example[order[axis]] = usual[order[axis]] if size is None else str(size)
        raise RefusedError(
            f"the size of its input is not fixed: {shown}",
            f"Give it: --input-shape {','.join(example)}, or in a sweep input_shape: [{', '.join(example)}].",
        )
    return tuple(size for size in shape if size is not None)


if __name__ == "__main__":
    sys.tracebacklimit = 0  # the reason is in the exception, not in the lines of TensorFlow
    _kind, _model, _folder, *_wanted = sys.argv[1:]
    sys.exit(main(_kind, Path(_model), Path(_folder), *_wanted))
