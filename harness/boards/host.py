"""This machine as a board: programs run here, files stay where they are."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.boards.board import Completed, RunTimeoutError
from harness.boards.instruction_counter import prepare_counter, read_count
from harness.boards.sensors import BoardPaths
from harness.errors import ConfigurationError, HarnessError
from harness.files import write_atomically

if TYPE_CHECKING:
    from harness.configuration.targets import Target


class HostBoard:
    """Runs programs on this machine, each as a process group of its own."""

    emulated = False

    def __init__(self, target: Target) -> None:
        self.name = "host"
        self.target = target
        self.sensors = BoardPaths()
        self.undo = str(Path.home() / ".harness-undo")
        self._running: set[int] = set()  # process groups

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends what still runs, as when another thread gives up the sweep."""
        for group in list(self._running):
            _kill_group(group)

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """The files' own paths."""
        for path in files.values():
            if not path.is_file():
                raise ConfigurationError(f"{path}: there is no such file to deploy")
        return {name: str(path.resolve()) for name, path in files.items()}

    def run(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                env=os.environ | environment if environment else None,
            )
        except OSError as error:
            raise HarnessError(f"{argv[0]}: cannot be started: {error.strerror}") from None
        self._running.add(process.pid)
        with process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise RunTimeoutError(f"{argv[0]}: did not end within {timeout:g} s on {self.name}") from None
            finally:
                self._running.discard(process.pid)
                if process.returncode is None:  # out of time, or interrupted
                    _kill_group(process.pid)
        return Completed(status=process.returncode, stdout=stdout, stderr=stderr)

    def profile(
        self,
        argv: Sequence[str],  # noqa: ARG002
        output: Path,  # noqa: ARG002
        *,
        timeout: float,  # noqa: ARG002
        environment: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> Completed | None:
        """Nothing profiles on the host."""
        return None

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int] | None:
        counter = prepare_counter()
        with tempfile.TemporaryDirectory(prefix="harness-count-") as folder:
            output = Path(folder) / "count"
            completed = self.run(counter.command(argv, environment or {}, output), timeout=timeout)
            return completed, read_count(output) if completed.status == 0 else 0

    def scratch(self, name: str) -> str:
        return str(Path(tempfile.gettempdir()) / f"harness-{os.getpid()}-{name}")

    def fetch(self, remote: str, local: Path) -> None:
        try:
            data = Path(remote).read_bytes()
        except OSError as error:
            raise HarnessError(f"{remote}: cannot be read on {self.name}: {error.strerror}") from None
        write_atomically(local, data)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
