"""The formats that `harness export` writes. A new format needs a function and a line here."""

from __future__ import annotations

FORMATS = {  # word of --format: module and function, imported when it is used
    "mnn": "harness.runtimes.converted_files:mnn_files",
    "ncnn": "harness.runtimes.converted_files:ncnn_files",
    "onnx": "harness.exporting.onnx_files:files",
    "saved-model": "harness.exporting.tensorflow_files:saved_model_files",
    "tflite": "harness.exporting.tensorflow_files:tflite_files",
}
CHANNELS_LAST = frozenset({"saved-model", "tflite"})  # formats that move them there in tensors of four axes
