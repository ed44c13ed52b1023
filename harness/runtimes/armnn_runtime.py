"""Arm NN over the Arm Compute Library, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.config.file_kind import TFLITE
from harness.errors import ConfigurationError
from harness.runtimes.python_runtime import PythonRuntime


class ArmNnRuntime(PythonRuntime):
    """Debian's packages: PyPI has no wheel of it."""

    name = "armnn"
    session = "on_board.armnn_session"
    formats = (TFLITE,)
    export = "tflite"
    has_profile = True
    fallback_backend = "CpuRef"

    def converted_name(self, path: Path) -> str:
        """Nothing is converted. Raises ConfigurationError for weights that Arm NN takes only beside inputs of
        their own type, and that this file has beside float32."""
        from harness.importing.tflite_file import read_flat_model

        model = read_flat_model(path)
        for operator in model.operators:
            given = [model.tensors[place] for place in operator.inputs if place >= 0]
            constants = {tensor.type for tensor in given if tensor.data is not None}
            half = operator.name == "DEQUANTIZE" and "float16" in constants
            if half or ("int8" in constants and any(tensor.type == "float32" for tensor in given)):
                raise ConfigurationError(
                    f"{self.name}: {path.name} has {'float16' if half else 'int8'} weights and computes in "
                    "float32, which its parser does not read",
                    hint="Use the policy fp32, or int8 with calibration pictures.",
                )
        return ""

    def float_operators(self, path: Path) -> Mapping[str, int] | None:
        from harness.exporting.float_operators import left_in_float
        from harness.importing.tflite_file import read_flat_model

        return left_in_float(read_flat_model(path))
