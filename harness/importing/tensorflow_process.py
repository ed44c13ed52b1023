"""Runs TensorFlow in a process of its own: it takes seconds, memory, and prints much."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from harness.errors import ConfigurationError, HarnessError
from harness.process_group import process_group

_TAIL, _WIDTH = 12, 300  # lines of TensorFlow's log that a failure shows, and characters of each
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "2",  # errors
    "TF_USE_LEGACY_KERAS": "0",
}


def run_tensorflow(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of this project, which imports TensorFlow."""
    with process_group() as group:
        return subprocess.run(
            # -P: modules are not taken from the program's folder, which is the package's.
            [sys.executable, "-P", str(program), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            check=False,
            env=os.environ | ENVIRONMENT,
            process_group=group,
        )


def tensorflow_failure(model: object, done: subprocess.CompletedProcess[str], hint: str = "") -> HarnessError:
    """The error of a program that has failed, with the end of its log."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return HarnessError(
            f"{model}: TensorFlow's converter was ended by {name}",
            hint="The memory may be too small for this model." if name == "SIGKILL" else "",
        )
    lines = [line.rstrip()[:_WIDTH] for line in done.stdout.splitlines() if line.strip()]
    log = "\n".join(f"  | {line}" for line in lines[-_TAIL:])
    return ConfigurationError(f"{model}: TensorFlow cannot convert it:\n{log}", hint=hint)
