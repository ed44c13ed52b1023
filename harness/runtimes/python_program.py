"""The program for runtimes that are Python packages, and the interpreter of a board that executes it."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from harness import console
from harness.errors import BoardFaultError, HarnessError, TargetMismatchError
from harness.files import write_atomically
from harness.sdk.layout import sdk_directory
from harness.sdk.packages import UNPACKED, Packages, Python, add_file
from harness.sdk.portable_python import portable_archive, read_portable_python
from harness.text import brief, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.boards.base import Board

# Neither variables nor packages of the system or the user, and no files with bytecode.
ISOLATED = ("-I", "-S", "-B")

_FOLDER = Path(__file__).with_name("on_board")
_PROBE_SECONDS = 60.0
_UNPACK_SECONDS = 600.0
# Whole or not at all. Arguments: the archive, the folder, a free path on the same file system.
_UNPACK = """
mkdir "$3" && tar -xf "$1" -C "$3" && { test -d "$2" || mv "$3" "$2"; }
status=$?
rm -rf "$3"
exit $status
"""
# Also for the oldest Python 3.
_PROBE = """
import json, os, platform, struct, sys
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (OSError, ValueError):
    libc = ""
print(json.dumps({
    "executable": sys.executable, "version": "%d.%d" % sys.version_info[:2],
    "implementation": platform.python_implementation(), "machine": platform.machine(),
    "bits": 8 * struct.calcsize("P"), "libc": libc}))
"""


@dataclass(frozen=True, kw_only=True)
class _Probe:
    executable: Annotated[str, Meta(pattern=r"\A/[^\0]*\Z", max_length=4096)]
    version: Annotated[str, Meta(pattern=r"\A[0-9]{1,3}\.[0-9]{1,3}\Z")]
    implementation: Annotated[str, Meta(max_length=64)]
    machine: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_]{1,32}\Z")]
    bits: int
    libc: Annotated[str, Meta(pattern=r"\A(glibc [0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?)?\Z")]


@dataclass(frozen=True, kw_only=True)
class BoardPython:
    """A Python on a board."""

    command: tuple[str, ...]  # that starts it
    python: Python


_known: WeakKeyDictionary[Board, BoardPython] = WeakKeyDictionary()
_portable: WeakKeyDictionary[Board, BoardPython] = WeakKeyDictionary()


@cache
def program_file() -> Path:
    """The program in the cache: one archive, which Python executes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(_FOLDER.glob("*.py")):
            add_file(archive, path, path.name if path.name == "__main__.py" else f"on_board/{path.name}")
    content = buffer.getvalue()
    path = sdk_directory() / f"program-{hashlib.sha256(content).hexdigest()[:12]}.pyz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return path


class _NoAnswerError(Exception):
    """A Python that does not start, with what was said."""


def python_for(board: Board, packages: Packages) -> BoardPython:
    """The Python of a board for these packages: its own, else a portable one, which arm64 boards get.

    Raises TargetMismatchError if neither fits, and BuildError if the portable one cannot be fetched.
    """
    try:
        own = python_of(board)
        packages.fitting(own.python)
    except TargetMismatchError as error:
        portable = read_portable_python()
        if board.target.is_host or board.target.architecture != portable.python.machine:
            raise
        try:
            packages.fitting(portable.python)
        except TargetMismatchError:
            raise error from None
        if board not in _portable:
            console.log(f"{printable(error.message)}; it gets a portable Python {portable.version}")
            _portable[board] = _provided(board)
        return _portable[board]
    return own


def _provided(board: Board) -> BoardPython:
    """The portable Python, on the board."""
    portable = read_portable_python()
    archive = board.deploy({"python": portable_archive(portable)})["python"]
    folder = archive + UNPACKED
    if board.run(["test", "-d", folder], timeout=_PROBE_SECONDS).status != 0:
        words = ["sh", "-c", _UNPACK, "unpack", archive, folder, board.scratch("python")]
        with console.progress(f"unpacking Python on {printable(board.name)}", None):
            completed = board.run(words, timeout=_UNPACK_SECONDS)
        if completed.status != 0:
            raise BoardFaultError(
                f"{board.name}: the portable Python cannot be unpacked: {brief(completed.stderr)}",
                hint="Check the board's free space (df), and that it has tar.",
            )
    try:
        return _asked(board, portable.command(archive))
    except _NoAnswerError as error:
        raise TargetMismatchError(
            f"{board.name} cannot start the portable Python: {error}",
            hint="It needs Linux 3.7 or newer on a 64-bit processor.",
        ) from None


def python_of(board: Board) -> BoardPython:
    """A board's own Python, which is asked once. Raises TargetMismatchError if it has none for wheels."""
    if board not in _known:
        try:
            _known[board] = _asked(board, (sys.executable if board.target.is_host else "python3",))
        except _NoAnswerError as error:
            raise TargetMismatchError(
                f"{board.name} has no Python 3: {error}",
                hint="Install python3 on the board, for example with apt-get install python3.",
            ) from None
    return _known[board]


def _asked(board: Board, command: Sequence[str]) -> BoardPython:
    completed = board.run([*command, *ISOLATED, "-c", _PROBE], timeout=_PROBE_SECONDS)
    if completed.status != 0:
        raise _NoAnswerError(brief(completed.stderr) or f"status {completed.status}")
    try:
        found = msgspec.json.decode(completed.stdout, type=_Probe)
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{board.name}: implausible answer of its Python: {error}") from None
    if found.implementation != "CPython" or found.bits != 64:
        raise TargetMismatchError(
            f"{board.name} has {found.implementation} {found.version} with {found.bits} bits; "
            "wheels are for CPython with 64"
        )
    return BoardPython(
        command=(*command[:-1], found.executable),
        python=Python(version=found.version, machine=found.machine, glibc=found.libc.removeprefix("glibc ")),
    )
