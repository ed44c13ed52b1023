"""What a sweep needs of a board, whichever kind it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
MOST_OUTPUT = 4 << 20  # bytes that a program on a board may print, if nothing else is said


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A process that ended on a board; a negative status is minus the number of the signal that ended it."""

    status: int
    stdout: str
    stderr: str


class RunEndedError(CellsFailedError):
    """A process on a board did what it may not, and was killed with its children."""


class RunTimeoutError(RunEndedError):
    """A process on a board took longer than it was given; it and its children were killed."""


class TooMuchOutputError(RunEndedError):
    """A process on a board printed more than it may; it and its children were killed."""

    def __init__(self, program: str, board: str, most_output: int) -> None:
        super().__init__(
            f"{program}: printed more than {most_output >> 20} MB on {board}",
            hint="Run it there by hand, and look at what it prints.",
        )


def library_path(libraries: Iterable[str]) -> dict[str, str]:
    """Variables by which a board's loader finds libraries that were deployed, each in a folder of its own.

    Raises ConfigurationError for folders that the loader would take for others.
    """
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in libraries)
    for folder in folders:
        if set(folder) & set(":;$"):
            raise ConfigurationError(
                f"{printable(folder)}: no library can be loaded from a folder with : ; or $ in its name",
                hint="Give the board another folder in the boards file.",
            )
    return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}


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
        """Where it keeps its clocks, temperatures and governors."""
        ...

    @property
    def undo(self) -> str:
        """The path there of a script, if any, that puts back what was set there and is no file of ours.

        The board runs it when the connection ends, however that ends; what fails goes to the next holder of
        the board's lock. This machine does not: there it stays for whoever looks for it next
        (harness.boards.sensors.governor).
        """
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """Brings files to the board and returns each one's path there.

        What is already there with the same content is not sent again; the content is verified there.
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

        `environment` is added to the variables that programs have there.

        Raises RunTimeoutError, and TooMuchOutputError where it prints more than `most_output` bytes on
        standard output and standard error together, after it has killed the program and all it started.
        """
        ...

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed | None:
        """Runs a program that makes marks, as `mpe bench --mark` does, and writes to `output` which blocks of
        instructions it executed between them and what its memory accesses missed.

        None where nothing profiles: only an emulator does. The thread that makes the marks is profiled
        alone; give the program one thread. Raises HarnessError where it fails or makes no marks.
        """
        ...

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int] | None:
        """Runs a program that makes marks, as `mpe bench --mark` does, under an emulator of the board's own
        kind, and counts the instructions between them.

        None where nothing does that. Raises HarnessError with the hint where it should, but cannot be done.
        """
        ...

    def scratch(self, name: str) -> str:
        """A path there for a file of one's own; what is left at it goes when the connection ends."""
        ...

    def fetch(self, remote: str, local: Path) -> None:
        """Copies a file of at most MOST_FETCHED bytes from the board; `local` is written whole or not at
        all."""
        ...
