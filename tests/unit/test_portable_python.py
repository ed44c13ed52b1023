"""The Python that arm64 boards get if their own does not fit a runtime's packages."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fake_boards import FakeBoard
from test_debian_packages import make_deb

from harness.boards.base import MOST_OUTPUT, Completed
from harness.config.runtimes import RUNTIMES
from harness.config.targets import load_target
from harness.errors import BoardFaultError, TargetMismatchError
from harness.runtimes import python_program
from harness.runtimes.base import find_runtime
from harness.runtimes.python_program import python_for
from harness.runtimes.python_runtime import PythonRuntime
from harness.sdk import debs
from harness.sdk.packages import UNPACKED, Packages, Python
from harness.sdk.portable_python import PortablePython, portable_archive, read_portable_python
from harness.sdk.wheels import WheelPin

LOADER = "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
ANSWER = {
    "version": "3.6",
    "implementation": "CPython",
    "machine": "aarch64",
    "bits": 64,
    "libc": "glibc 2.27",
}


def wheel(python: str, glibc: str = "2_28") -> WheelPin:
    platform = f"manylinux_{glibc}_aarch64"
    return WheelPin(package="net", version="1", python=python, platform=platform, sha256="0" * 64)


def packages(*wheels: WheelPin) -> Packages:
    return Packages(version="1", wheels=wheels)


class BoardOfShell(FakeBoard):
    """This machine's shell and tar, and a Python of its own, which may be missing."""

    def __init__(self, folder: Path, own: Mapping[str, object] | None) -> None:
        super().__init__(target=load_target("jetson-nano"))
        self.folder, self.own = folder, own
        self.unpacked = 0

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        return {name: str(path) for name, path in files.items()}

    def scratch(self, name: str) -> str:
        return str(self.folder / name)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        if argv[0] == "python3":
            if self.own is None:
                return Completed(status=127, stdout="", stderr="sh: python3: not found")
            return Completed(status=0, stdout=json.dumps(self.own), stderr="")
        self.unpacked += argv[0] == "sh"
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
        return Completed(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Instead of the portable Python, one whose loader answers as it would."""
    answer = ANSWER | {"version": "3.11", "libc": "glibc 2.36"}
    loader = tmp_path / "made" / LOADER
    loader.parent.mkdir(parents=True)
    loader.write_text(
        f"#!/bin/sh\nexecutable=$3\necho '{json.dumps(answer)[:-1]}', '\"executable\": \"'$3'\"}}'\n"
    )
    loader.chmod(0o755)
    path = tmp_path / "python.tar"
    with tarfile.open(path, "w") as file:
        file.add(tmp_path / "made", ".")
    monkeypatch.setattr(python_program, "portable_archive", lambda _: path)
    return path


@pytest.mark.parametrize(
    "own",
    [None, ANSWER | {"executable": "/usr/bin/python3"}],
    ids=["no Python", "one that is too old"],
)
def test_a_board_without_a_fitting_python_gets_one(
    own: Mapping[str, object] | None, archive: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # the second session finds it unpacked
        board = BoardOfShell(tmp_path, own)
        found = python_for(board, packages(wheel("3.11")))
        assert found.python == Python(version="3.11", machine="aarch64", glibc="2.36")
        folder = f"{archive}{UNPACKED}"
        libraries = f"{folder}/lib/aarch64-linux-gnu:{folder}/usr/lib/aarch64-linux-gnu"
        program = f"{folder}/usr/bin/python3.11"
        assert found.command == (f"{folder}/{LOADER}", "--library-path", libraries, program)
    assert board.unpacked == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "python.tar", f"python.tar{UNPACKED}"]


def test_a_board_keeps_its_own_python_where_that_fits(tmp_path: Path) -> None:
    board = BoardOfShell(tmp_path, ANSWER | {"executable": "/usr/bin/python3"})
    found = python_for(board, packages(wheel("3.6", "2_17"), wheel("3.11")))
    assert (found.command, found.python.version) == (("/usr/bin/python3",), "3.6")


def test_packages_for_neither_python_name_the_boards_own(tmp_path: Path) -> None:
    board = BoardOfShell(tmp_path, ANSWER | {"executable": "/usr/bin/python3"})
    with pytest.raises(TargetMismatchError, match=r"no pinned wheel for Python 3\.6 on aarch64"):
        python_for(board, packages(wheel("3.14")))


def test_a_portable_python_that_does_not_start_says_why(archive: Path, tmp_path: Path) -> None:
    loader = tmp_path / "made" / LOADER
    loader.write_text("#!/bin/sh\necho 'FATAL: kernel too old' >&2\nexit 127\n")
    with tarfile.open(archive, "w") as file:
        file.add(tmp_path / "made", ".")
    with pytest.raises(TargetMismatchError, match="cannot start the portable Python: FATAL: kernel too old"):
        python_for(BoardOfShell(tmp_path, None), packages(wheel("3.11")))


def test_a_board_that_cannot_unpack_python_is_at_fault_and_keeps_nothing(
    archive: Path, tmp_path: Path
) -> None:
    archive.write_bytes(archive.read_bytes()[:700])
    with pytest.raises(BoardFaultError, match="the portable Python cannot be unpacked: tar: "):
        python_for(BoardOfShell(tmp_path, None), packages(wheel("3.11")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "python.tar"]


def test_the_portable_python_fits_every_runtime() -> None:
    python = read_portable_python().python
    runtimes = [runtime for runtime in map(find_runtime, RUNTIMES) if isinstance(runtime, PythonRuntime)]
    assert len(runtimes) > 1
    for runtime in runtimes:
        assert runtime.packages.fitting(python)


def test_its_libraries_have_the_names_that_programs_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {
        "./lib/aarch64-linux-gnu/libz.so.1.2.13": b"z",
        f"./{LOADER}": b"loader",
        "./usr/lib/aarch64-linux-gnu/libffi.so.8.1.2": b"ffi",
        "./usr/bin/python3.11": b"python",
        "./usr/lib/python3.11/pydoc_data/topics.py": b"left out",
        "./usr/share/doc/net/copyright": b"PSF",
    }
    pin = make_deb(tmp_path / "archive" / "pool" / "net_1_arm64.deb", contents)
    monkeypatch.setattr(debs, "MIRROR", (tmp_path / "archive").as_uri())
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    portable = PortablePython(version="3.11", glibc="2.36", debs=(pin,), without=("*/pydoc_data/*",))
    made = portable_archive(portable)
    assert portable_archive(portable) == made
    with tarfile.open(made) as file:
        names = {member.name.removeprefix("./"): member for member in file if member.isfile()}
    assert set(names) == {
        "lib/aarch64-linux-gnu/libz.so.1",
        LOADER,
        "usr/lib/aarch64-linux-gnu/libffi.so.8",
        "usr/bin/python3.11",
        "usr/share/doc/net/copyright",
    }
    assert {member.uname for member in names.values()} == {""}
    folder = made.with_name(made.name + UNPACKED)
    assert (folder / "lib" / "aarch64-linux-gnu" / "libz.so.1").read_bytes() == b"z"
