"""TensorFlow, by the C library that harness packages for boards, on the CPU."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.file_kind import Kind
from harness.config.targets import load_target
from harness.runtimes.python_runtime import PythonRuntime
from harness.sdk.pin import read_pin
from harness.sdk.wheel import LIBRARIES, tensorflow_sdk

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.sweep import Build, Options
    from harness.config.targets import Target
    from harness.runtimes.base import Files, Program

# The program needs the names of the graph's tensors as JSON, which other SavedModels do not have.
_EXPORTED = Kind("a SavedModel that harness exported")


class TensorFlowRuntime(PythonRuntime):
    """libtensorflow, without TensorFlow's Python package: only NumPy comes from a wheel."""

    name = "tensorflow"
    session = "on_board.tensorflow_session"
    formats = (_EXPORTED,)
    export = "saved-model"

    @property
    def fingerprint(self) -> str:
        both = f"{super().fingerprint} {read_pin(load_target('host')).sha256}"
        return hashlib.sha256(both.encode()).hexdigest()

    def prepare(self, target: Target, build: Build, algorithms: Collection[str | None] = ()) -> Program:
        read_pin(target)  # a target without TensorFlow is an error before anything is measured
        return super().prepare(target, build, algorithms)

    def libraries(self, target: Target, options: Options) -> Sequence[Path]:
        folder = tensorflow_sdk(target).folder / "lib"
        return [folder / name for name in LIBRARIES]

    def libraries_sha256(self, target: Target, options: Options) -> str:
        return read_pin(target).sha256

    def deployed_files(self, files: Files, board: Board) -> Mapping[str, Path]:
        return {**super().deployed_files(files, board), **{path.name: path for path in files.libraries}}

    def arguments(self, paths: Mapping[str, str], threads: int, options: Options) -> list[str]:
        # The second is one that the first needs, and is found only if it is there already.
        libraries = [f"--option=library={paths[name]}" for name in reversed(LIBRARIES)]
        return [*super().arguments(paths, threads, options), *libraries]

    def _host_paths(self, model: Path) -> Mapping[str, str]:
        folder = tensorflow_sdk(load_target("host")).folder / "lib"
        return {**super()._host_paths(model), **{name: str(folder / name) for name in LIBRARIES}}
