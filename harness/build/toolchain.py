"""Compilers for a target. Each toolchain is one CMake file in toolchains/ and one class here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from harness.config.document import suggestion
from harness.config.targets import Target, host_architecture
from harness.errors import BuildError, ConfigurationError
from harness.process_group import end_group, process_group
from harness.resources import cache_directory, resource
from harness.text import printable

Place = Literal["host", "image"]

_UNUSABLE = '"$*:;<>?[]\\|'
_FLAGS = ("CFLAGS", "CXXFLAGS", "LDFLAGS")


class Tools(Protocol):
    """CMake, Ninja and the compiler: their paths, and a way to run them."""

    @property
    def cmake(self) -> str: ...
    @property
    def ninja(self) -> str: ...
    @property
    def slow(self) -> bool:
        """Whether they take long enough that their output should be shown."""

    def record(self) -> dict[str, str]:
        """Their versions for the manifest: compiler, cmake, ninja and built_in."""

    def run(self, command: Sequence[str], on_line: Callable[[str], None]) -> int:
        """Runs one of them to its end and passes on each line of output. Returns the exit status."""


class Toolchain(Protocol):
    """A compiler, described for CMake."""

    @property
    def name(self) -> str: ...
    @property
    def place(self) -> Place:
        """Whether it runs on this machine or in the target's image."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The CMake toolchain file, and the files that it includes."""

    def version(self, target: Target) -> str:
        """The compiler and its version, for the manifest. Raises BuildError if it is missing."""

    def compiles_for(self, target: Target) -> dict[str, str]:
        """Everything in a target's data that a program depends on, as CMake variables. Two targets with equal
        values share a program."""

    def definitions(self, target: Target) -> dict[str, str]:
        """The variables of the toolchain file: `compiles_for`, and the path of the compiler."""

    def identity(self, target: Target) -> dict[str, str]:
        """The properties of the compiler that a program depends on, for the key of a build."""

    def tools(self, target: Target, folder: Path) -> AbstractContextManager[Tools]:
        """The tools, able to read and write below `folder`. Raises BuildError if one is missing."""


class HostToolchain(ABC):
    """A compiler of this machine, run as a process, with CMake and Ninja from PyPI."""

    name: str
    place: Place = "host"

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]: ...
    @abstractmethod
    def version(self, target: Target) -> str: ...
    @abstractmethod
    def compiles_for(self, target: Target) -> dict[str, str]: ...
    @abstractmethod
    def definitions(self, target: Target) -> dict[str, str]: ...

    def environment(self) -> dict[str, str]:
        """Variables for every process of the build."""
        return {}

    def identity(self, target: Target) -> dict[str, str]:
        return {"compiler": self.version(target), "cmake": package_version("cmake")}

    @contextlib.contextmanager
    def tools(self, target: Target, folder: Path) -> Iterator[Tools]:  # noqa: ARG002 - all of the disk
        cmake, ninja = build_tool("cmake"), build_tool("ninja")
        for program in (cmake, ninja):
            check_path(program, hint=f"Install {program.name} below another folder.")
        yield HostTools(
            compiler=self.version(target),
            cmake=str(cmake),
            ninja=str(ninja),
            environment=self.environment(),
        )


@dataclass(frozen=True, kw_only=True)
class HostTools:
    """Tools of this machine."""

    compiler: str
    cmake: str
    ninja: str
    environment: dict[str, str]
    slow: bool = False

    def record(self) -> dict[str, str]:
        return {
            "compiler": self.compiler,
            "cmake": package_version("cmake"),
            "ninja": package_version("ninja"),
            "built_in": "host",
        }

    def run(self, command: Sequence[str], on_line: Callable[[str], None]) -> int:
        # Flags in the caller's environment must not get into the program.
        kept = {key: value for key, value in os.environ.items() if key not in _FLAGS}
        with process_group(gently=True) as group:
            try:
                process = subprocess.Popen(
                    command,
                    env=kept | self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    process_group=group,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                raise BuildError(f"{command[0]}: cannot be started: {error.strerror}") from None
            with process:
                assert process.stdout is not None
                try:
                    for line in process.stdout:
                        on_line(line)
                except BaseException:
                    end_group(group)  # with its children: do not wait for a compiler
                    raise
        return process.returncode


class Zig(HostToolchain):
    """Zig's C++ compiler from PyPI. It needs no system packages and links for any glibc version."""

    name = "zig"

    @property
    def files(self) -> tuple[Path, ...]:
        return (resource("toolchains", "zig.cmake"),)

    def version(self, target: Target) -> str:  # noqa: ARG002 - one compiler for all
        return f"zig {package_version('ziglang')}"

    def compiles_for(self, target: Target) -> dict[str, str]:
        return {"TARGET_ARCHITECTURE": target.architecture, "TARGET_GLIBC": str(target.glibc)}

    def definitions(self, target: Target) -> dict[str, str]:
        import ziglang

        executable = Path(ziglang.__file__).parent / "zig"
        if not executable.is_file():
            raise BuildError(
                f"{executable}: Zig's compiler is missing", hint="Run `pip install --force ziglang`."
            )
        check_path(executable, also="'", hint="Install ziglang below another folder.")
        # Its linker replaces every % in the name of its output.
        check_path(cache_directory(), also="%", hint="Set HARNESS_CACHE to another folder.")
        return {"ZIG_EXECUTABLE": str(executable)} | self.compiles_for(target)

    def environment(self) -> dict[str, str]:
        # Zig compiles its C++ library once per glibc version and keeps it here.
        cache = str(cache_directory() / "zig")
        return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


@dataclass(frozen=True, kw_only=True)
class SystemCompiler(HostToolchain):
    """A compiler that is installed on this machine."""

    name: str
    program: str  # for this machine's architecture
    cross_program: str  # for another architecture, which replaces {architecture}
    packages: str  # Debian's, for arm64; "" if no distribution has it

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(resource("toolchains", f"{name}.cmake") for name in (self.name, "system_compiler"))

    def executable(self, target: Target) -> str:
        """The compiler's path. Raises BuildError with what to install."""
        native = target.architecture == host_architecture()
        program = self.program if native else self.cross_program.format(architecture=target.architecture)
        path = shutil.which(program)
        if path is None:
            hint = (
                f"On Debian or Ubuntu: `apt-get install {self.packages}`; or"
                if self.packages
                else "Install it, or"
            )
            raise BuildError(
                f"{program}, the compiler of the toolchain {self.name} for {target.name}, is not installed",
                hint=f"{hint} build with `--toolchain zig`.",
            )
        return path

    def version(self, target: Target) -> str:
        done = subprocess.run(
            [self.executable(target), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines:
            raise BuildError(f"`{self.executable(target)} --version` fails: {done.stderr.strip()}")
        return lines[0].strip()

    def compiles_for(self, target: Target) -> dict[str, str]:
        values: dict[str, str] = {"TARGET_ARCHITECTURE": target.architecture}
        return values | ({"TARGET_SYSROOT": target.sysroot} if target.sysroot else {})

    def definitions(self, target: Target) -> dict[str, str]:
        executable = self.executable(target)
        check_path(Path(executable), hint="Install the compiler below another folder.")
        if target.sysroot:
            check_path(Path(target.sysroot), hint="Give the target's sysroot another name.")
        return {"CXX_EXECUTABLE": executable} | self.compiles_for(target)


TOOLCHAINS: dict[str, HostToolchain] = {
    toolchain.name: toolchain
    for toolchain in (
        Zig(),
        SystemCompiler(
            name="gcc",
            program="g++",
            cross_program="{architecture}-linux-gnu-g++",
            packages="g++-aarch64-linux-gnu",
        ),
        SystemCompiler(
            name="clang",
            program="clang++",
            cross_program="clang++",
            packages="clang g++-aarch64-linux-gnu",
        ),
        SystemCompiler(name="armclang", program="armclang++", cross_program="armclang++", packages=""),
    )
}


def ready_toolchains(target: Target) -> list[str]:
    """The toolchains that are installed here and can compile for the target."""
    ready = []
    for toolchain in TOOLCHAINS.values():
        with contextlib.suppress(BuildError):
            toolchain.version(target)
            ready.append(toolchain.name)
    return ready


def load_toolchain(name: str) -> HostToolchain:
    """A toolchain of this machine by name. Raises ConfigurationError."""
    try:
        return TOOLCHAINS[name]
    except KeyError:
        raise ConfigurationError(f"unknown toolchain {name}: {suggestion(name, TOOLCHAINS)}") from None


def check_path(path: Path, *, hint: str, also: str = "") -> None:
    """Raises BuildError for a path that CMake, Ninja or a compiler would misread."""
    found = {letter for letter in str(path) if letter in _UNUSABLE + also or not letter.isprintable()}
    if found:
        shown = " ".join(map(printable, sorted(found)))
        raise BuildError(f"{printable(str(path))}: a build cannot have {shown} in its paths", hint=hint)


def package_version(name: str) -> str:
    """The version of an installed PyPI package. Raises BuildError if it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"the Python package {name} is not installed", hint=f"Run `pip install {name}`."
        ) from None


def build_tool(package: str) -> Path:
    """The program `cmake` or `ninja` of its PyPI package. Raises BuildError."""
    package_version(package)
    programs = [
        Path(str(file.locate()))
        for file in importlib.metadata.files(package) or []
        if file.name == package and "bin" in file.parts
    ]
    # The package of cmake also has a Python script with the program's name, which starts more slowly.
    programs.sort(key=lambda program: "data" not in program.parts)
    for program in programs:
        if os.access(program, os.X_OK):
            return program
    raise BuildError(
        f"the Python package {package} is installed, but its program is missing",
        hint=f"Run `pip install --force-reinstall {package}`.",
    )
