"""The programs of toolchains/checks/: built for a target and run on its board; their output is compared.

Layout below the cache: checks/<target>/<program>/<key>/ holds one finished program.
"""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.boards.base import RunTimeoutError, library_path
from harness.build.elf import check_fits, read_needs
from harness.build.lock import exclusive
from harness.build.request import BuildRequest
from harness.build.toolchain import Toolchain, load_toolchain
from harness.config.document import read_document
from harness.config.validation import Choice, Field, ListOf, Record, Text, from_dataclass
from harness.errors import BuildError, TargetMismatchError
from harness.resources import cache_directory, resource
from harness.sdk.layout import Sdk
from harness.sdk.pin import read_pin
from harness.sdk.wheel import LIBRARIES, tensorflow_sdk
from harness.temporary import fresh_folder, temporary_folder

if TYPE_CHECKING:
    from harness.boards.base import Board, Completed
    from harness.config.targets import Target

RUN_SECONDS = 300.0  # loading libtensorflow takes QEMU a quarter of a minute
_TOOLCHAIN = "zig"
_TAIL = 20  # lines of the compiler's output that a failure shows


class WrongOutputError(TargetMismatchError):
    """The output of a check on the board differs from the expected one."""

    def __init__(self, message: str, *, printed: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.printed = printed


@dataclass(frozen=True, kw_only=True)
class Check:
    """A program and its expected output."""

    name: str
    purpose: str
    source: str
    prints: str
    hint: str
    sdk: str = ""  # the SDK that it is linked with

    @property
    def program(self) -> str:
        return Path(self.source).stem

    def expected(self, target: Target) -> str:
        """The expected output for the target."""
        if self.sdk and target.tensorflow:
            return self.prints.replace("{tensorflow}", read_pin(target).version)
        return self.prints


_CHECK = Record(
    what="a check",
    make=from_dataclass(Check),
    fields={
        "name": Field(shape=Text(expected="a name"), help="the name", required=True),
        "purpose": Field(shape=Text(expected="a line"), help="what the program checks", required=True),
        "source": Field(
            shape=Text(expected="a C file", pattern=r"[a-z0-9_]+\.c"), help="C source", required=True
        ),
        "sdk": Field(
            shape=Choice(what="SDK", names=lambda: ("tensorflow",)), help="the SDK that it is linked with"
        ),
        "prints": Field(shape=Text(expected="text"), help="the expected output", required=True),
        "hint": Field(shape=Text(expected="a line"), help="what to do if it fails", required=True),
    },
)
_FILE = Record(
    what="the checks",
    make=lambda _node, checks: checks,
    fields={"checks": Field(shape=ListOf(what="checks", item=_CHECK), help="programs", required=True)},
)


def read_checks() -> tuple[Check, ...]:
    """The checks of toolchains/checks/checks.yaml. Raises ConfigurationError with file and line."""
    checks: tuple[Check, ...] = _FILE.read(read_document(_sources() / "checks.yaml"))
    return checks


def build_check(check: Check, target: Target) -> Path:
    """Builds a check's program, or finds it in the cache. The target meets all requirements of the result.

    Raises BuildError or TargetMismatchError, and the errors of tensorflow_sdk. No files are left behind then.
    """
    toolchain = load_toolchain(_TOOLCHAIN)
    sdk = tensorflow_sdk(target) if check.sdk else None
    files = [_sources() / "CMakeLists.txt", _sources() / check.source, *toolchain.files]
    sources = {file.name: file.read_bytes() for file in files}
    sources |= {"sdk": sdk.folder.name.encode()} if sdk else {}
    request = BuildRequest(target=target, toolchain=toolchain, sources=sources)
    folder = cache_directory() / "checks" / target.name / check.program
    program = folder / request.key / check.program
    with exclusive(folder / "lock", f"another build of {check.source} for {target.name}"):
        if not program.is_file():
            for old in folder.glob(f"*/{check.program}"):
                shutil.rmtree(old.parent)
            with temporary_folder("check", within=folder) as aside, fresh_folder(program.parent) as result:
                made = _compile(check, target, toolchain, sdk, aside / "work")
                check_fits(read_needs(made), target, check.program, beside=LIBRARIES if sdk else ())
                made.rename(result / check.program)
    return program


def run_check(check: Check, target: Target, board: Board) -> str:
    """Runs a check on the board and returns its output, which is the expected one.

    Raises WrongOutputError if it differs, TargetMismatchError if the program did not run to its end.
    """
    files = {check.program: build_check(check, target)}
    if check.sdk:
        sdk = tensorflow_sdk(target)
        files |= {name: sdk.folder / "lib" / name for name in LIBRARIES}
    paths = board.deploy(files)
    environment = library_path(path for name, path in paths.items() if name != check.program)
    try:
        with console.progress(f"running {check.program} on {board.name}", None):
            done = board.run([paths[check.program]], timeout=RUN_SECONDS, environment=environment)
    except RunTimeoutError as error:
        raise TargetMismatchError(error.message, hint=check.hint) from None
    expected = check.expected(target)
    if done.status != 0:
        raise TargetMismatchError(
            f"{check.program} {_end(done)} on {board.name} instead of printing:\n{expected}".rstrip(),
            hint=check.hint,
        )
    if done.stdout != expected:
        raise WrongOutputError(
            f"{check.program} printed on {board.name}:\n{done.stdout.rstrip()}\n"
            f"instead of:\n{expected.rstrip()}",
            printed=done.stdout,
            hint=check.hint,
        )
    return done.stdout


def _end(done: Completed) -> str:
    """Describes the end of a failed process, with the end of its output."""
    if done.status < 0:
        try:
            how = f"was killed by {signal.Signals(-done.status).name}"
        except ValueError:
            how = f"was killed by signal {-done.status}"
    else:
        how = f"ended with status {done.status}"
    said = done.stderr.strip().splitlines()
    return f"{how} ({said[-1]})" if said else how


def _compile(check: Check, target: Target, toolchain: Toolchain, sdk: Sdk | None, work: Path) -> Path:
    """Runs CMake and Ninja in `work`. Returns the program."""
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": str(toolchain.files[0]),
        "CHECK_SOURCE": check.source,
    } | toolchain.definitions(target)
    if sdk:
        definitions["TensorFlow_DIR"] = str(sdk.folder / "lib" / "cmake" / "TensorFlow")
    with (
        console.progress(f"building {check.source} for {target.name}", None),
        toolchain.tools(target, work.parent) as tools,
    ):
        definitions["CMAKE_MAKE_PROGRAM"] = tools.ninja
        configure = [tools.cmake, "-S", str(_sources()), "-B", str(work), "-G", "Ninja"]
        configure += [f"-D{name}={value}" for name, value in definitions.items()]
        for command in (configure, [tools.ninja, "-C", str(work)]):
            printed: list[str] = []
            if tools.run(command, printed.append) != 0:
                tail = "\n".join(f"  | {line.rstrip()}" for line in printed[-_TAIL:])
                raise BuildError(f"{check.source} does not compile for {target.name}:\n{tail}")
    return work / check.program


def _sources() -> Path:
    return resource("toolchains", "checks")
