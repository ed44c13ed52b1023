"""Arm NN over the Arm Compute Library, on the CPU."""

from __future__ import annotations

from harness.config.file_kind import TFLITE
from harness.runtimes.python_runtime import PythonRuntime


class ArmNnRuntime(PythonRuntime):
    """Debian's packages: PyPI has no wheel of it."""

    name = "armnn"
    session = "on_board.armnn_session"
    formats = (TFLITE,)
    has_profile = True
