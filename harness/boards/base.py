"""The interface of all boards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from harness.errors import CellsFailedError, ConfigurationError
from harness.text import printable

if TYPE_CHECKING:
    from harness.boards.paths import BoardPaths
    from harness.config.targets import Target


MOST_FETCHED = 64 << 20  # bytes of a file that is copied from a board
MOST_OUTPUT = 4 << 20  # bytes that a program on a board may print by default


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A finished process on a board; a negative status is minus the number of the signal that killed it."""

    status: int
    stdout: str
    stderr: str


class RunEndedError(CellsFailedError):
    """A process on a board exceeded a limit and was killed with its children."""


class RunTimeoutError(RunEndedError):
    """A process on a board exceeded its timeout; it and its children were killed."""

    def __init__(self, argv: Sequence[str], board: str, timeout: float) -> None:
        super().__init__(f"{_program(argv)}: did not end within {timeout:g} s on {board}")


class TooMuchOutputError(RunEndedError):
    """A process on a board printed too much; it and its children were killed."""

    def __init__(self, argv: Sequence[str], board: str, most_output: int) -> None:
        super().__init__(
            f"{_program(argv)}: printed more than {most_output >> 20} MB on {board}",
            hint="Run it on the board by hand to see its output.",
        )


def _program(argv: Sequence[str]) -> str:
    """The name of a program; of a shell script its $0."""
    name = argv[3] if list(argv[:2]) == ["sh", "-c"] and len(argv) > 3 else argv[0]
    return printable(PurePosixPath(name).name)


def library_path(libraries: Iterable[str]) -> dict[str, str]:
    """Environment variables with which the board's loader finds deployed libraries, each in its own folder.

    Raises ConfigurationError for folders with characters that the loader treats specially.
    """
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in libraries)
    for folder in folders:
        if set(folder) & set(":;$"):
            raise ConfigurationError(
                f"{printable(folder)}: a library folder must not have : ; or $ in its name",
                hint="Give the board another folder in the boards file.",
            )
    return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}


class Profiler(Protocol):
    """A board that profiles programs: only an emulator does."""

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed:
        """Runs a program that makes marks, as `mpe bench --mark` does. Writes to `output` the executed blocks
        of instructions and the cache misses between these marks.

        Only the thread that makes the marks is profiled: give the program one thread. Raises HarnessError if
        the program fails or makes no marks.
        """
        ...


class InstructionCounter(Protocol):
    """A board that counts instructions under an emulator of its own architecture."""

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int]:
        """Runs a program that makes marks, as `mpe bench --mark` does, and counts the instructions between
        them. Raises HarnessError if the emulator is missing or fails.
        """
        ...


class Board(Protocol):
    """One device. It is connected from `__enter__` to `__exit__`.

    Every method raises BoardUnreachableError when the device does not answer or stops answering.
    """

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def sensors(self) -> BoardPaths:
        """The paths of its clocks, temperatures and governors."""
        ...

    @property
    def profiler(self) -> Profiler | None:
        """None if the board cannot profile."""
        ...

    @property
    def instruction_counter(self) -> InstructionCounter | None:
        """None if the board cannot count instructions."""
        ...

    @property
    def restore_script(self) -> str:
        """The path on the board of a script that restores changed settings, such as CPU governors.

        A remote board runs this script when the connection ends for any reason. If the script fails, the next
        holder of the board's lock runs it again. On this machine the next measurement runs it
        (harness.boards.sensors.governor).
        """
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def lock(self, pause: Callable[[float], object]) -> AbstractContextManager[None]:
        """Keeps other harnesses from measuring on the board while the block runs.

        `pause` sleeps that many seconds between two attempts; its exceptions end the wait. Raises
        BoardBusyError if another harness holds the lock for too long.
        """
        ...

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """Copies files to the board and returns their paths there.

        Files that the board already has with the same content are not sent again. The board verifies the
        content.
        """
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        """Runs a program to its end, at most `timeout` seconds.

        `environment` is added to the board's environment variables.

        Raises RunTimeoutError, and TooMuchOutputError for more than `most_output` bytes on standard output
        and standard error together. The program and its children are killed first.
        """
        ...

    def scratch(self, name: str) -> str:
        """A path on the board for a temporary file, which is removed when the connection ends."""
        ...

    def fetch(self, remote: str, local: Path) -> None:
        """Copies a file of at most MOST_FETCHED bytes from the board; `local` is written atomically."""
        ...
