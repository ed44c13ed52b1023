"""A runtime that only prints: all that a new runtime needs besides a line in harness/config/runtimes.py."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.boards.base import Board
from harness.config.sweep import Build
from harness.config.targets import Target
from harness.errors import HarnessError, TargetMismatchError
from harness.file_digest import file_digest
from harness.runtimes.base import (
    BenchResult,
    Command,
    Execution,
    Files,
    LayerResult,
    Program,
    Runtime,
    Workload,
)


class PrintingRuntime(Runtime):
    def prepare(self, target: Target, build: Build, algorithms: Collection[str | None] = ()) -> Program:
        path = Path("/bin/echo")
        return Program(path=path, sha256=file_digest(path))

    def execution(
        self, board: Board, paths: Mapping[str, str], environment: Mapping[str, str], workload: Workload
    ) -> Execution:
        return PrintingExecution(paths["program"])


@dataclass
class PrintingExecution(Execution):
    program: str

    def bench(self, *, warmup: int, runs: int, min_seconds: float) -> Command[BenchResult]:
        printed = json.dumps({"samples": [2_000_000] * runs})
        return Command(name="echo", argv=[self.program, printed], read=_read, failure=_failure)


def _read(printed: str, seconds: float) -> BenchResult:
    layer = LayerResult(
        index=0,
        type="convolutional",
        precision="int8",
        executed="fp32",
        isa="paper",
        algorithm="print",
        ns=7,
        conversion_ns=0,
        bytes=1,
    )
    return BenchResult(samples_ns=json.loads(printed)["samples"], layers=[layer])


def _failure(status: int, errors: str) -> HarnessError:
    return HarnessError(f"echo ended with status {status}: {errors}")


@dataclass
class ShellExecution(Execution):
    """Executes a script in place of a model."""

    script: str

    def bench(self, *, warmup: int, runs: int, min_seconds: float) -> Command[BenchResult]:
        return Command(name="echo", argv=["sh", "-c", self.script], read=_read, failure=_failure)


class CrashingRuntime(PrintingRuntime):
    def execution(self, *_: object) -> Execution:
        return ShellExecution("kill -ABRT $$")


class HangingRuntime(PrintingRuntime):
    def execution(self, *_: object) -> Execution:
        return ShellExecution("sleep 60")


class AbsentRuntime(PrintingRuntime):
    def deployed_files(self, files: Files, board: Board) -> Mapping[str, Path]:
        raise TargetMismatchError(f"{board.name} has no Python 3")
