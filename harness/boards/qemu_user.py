"""A target's core under QEMU on this machine, without a container.

It profiles programs that need nothing of a board's system but the C library, such as the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from harness.boards.base import Completed
from harness.boards.host import HostBoard
from harness.build.emulator import arm64_root
from harness.config.targets import Target
from harness.errors import BuildError
from harness.qemu.profiler import (
    BlockProfiler,
    prepare_profiler,
    profiling_failed,
    profiling_missing,
    without_marks,
)


def qemu_user_missing() -> list[str]:
    """What must be installed before a `QemuUserBoard` can be entered, one line each."""
    missing = profiling_missing()
    if arm64_root() is None:
        missing.append("no arm64 C library found: apt-get install libc6-arm64-cross")
    return missing


class QemuUserBoard(HostBoard):
    """Profiles programs of a target. Its own `run` starts programs of this machine."""

    emulated = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.name = f"{target.name} (emulated)"
        self._emulator: tuple[BlockProfiler, Path] | None = None

    def __enter__(self) -> Self:
        profiler, root = prepare_profiler(), arm64_root()
        if profiler is None or root is None:
            raise BuildError(f"{self.target.name} cannot be emulated here: {'; '.join(qemu_user_missing())}")
        self._emulator = profiler, root
        self.profiler = self
        return super().__enter__()

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed:
        assert self._emulator is not None  # else self.profiler is None
        profiler, root = self._emulator
        command = profiler.command(
            self.target, argv, environment or {}, str(output), folder=profiler.folder, root=root
        )
        result = self.run(command, timeout=timeout)
        if result.status != 0:
            raise profiling_failed(self.name, result.status, result.stderr)
        if not output.is_file():
            raise without_marks(self.name, result.stderr)
        return result
