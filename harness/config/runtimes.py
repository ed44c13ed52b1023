"""The runtimes of sweeps. A new runtime needs a class in its own file and a line here."""

from __future__ import annotations

RUNTIMES = {  # name: module and class, imported when a sweep uses it
    "armnn": "harness.runtimes.armnn_runtime:ArmNnRuntime",
    "engine": "harness.runtimes.engine_runtime:EngineRuntime",
    "litert": "harness.runtimes.litert_runtime:LiteRtRuntime",
    "mnn": "harness.runtimes.mnn_runtime:MnnRuntime",
    "ncnn": "harness.runtimes.ncnn_runtime:NcnnRuntime",
    "onnxruntime": "harness.runtimes.onnxruntime_runtime:OnnxRuntime",
    "openvino": "harness.runtimes.openvino_runtime:OpenVinoRuntime",
    "tensorflow": "harness.runtimes.tensorflow_runtime:TensorFlowRuntime",
}
