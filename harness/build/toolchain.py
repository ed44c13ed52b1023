"""What compiles for a target. Each toolchain is one CMake file in toolchains/ and one class here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.configuration.document import suggestion
from harness.configuration.targets import Target, host_architecture
from harness.errors import BuildError, ConfigurationError
from harness.resources import cache_directory, resource


class Toolchain(Protocol):
    """A compiler as CMake is told of it."""

    @property
    def name(self) -> str: ...
    @property
    def files(self) -> tuple[Path, ...]:
        """The CMake toolchain file, and what it includes."""

    def version(self, target: Target) -> str:
        """The compiler and its version, as the manifest states it. Raises BuildError where it is missing."""

    def definitions(self, target: Target) -> dict[str, str]:
        """What the toolchain file wants to know of the target: CMake variables."""

    def environment(self) -> dict[str, str]:
        """Variables for every process of the build."""


class Zig:
    """Zig's C++ compiler from PyPI: nothing of the system is used, and glibc's version is a choice."""

    name = "zig"

    @property
    def files(self) -> tuple[Path, ...]:
        return (resource("toolchains", "zig.cmake"),)

    def version(self, target: Target) -> str:  # noqa: ARG002 - one compiler for all
        return f"zig {package_version('ziglang')}"

    def definitions(self, target: Target) -> dict[str, str]:
        import ziglang

        executable = Path(ziglang.__file__).parent / "zig"
        if not executable.is_file():
            raise BuildError(
                f"{executable}: Zig's compiler is missing", cure="Run `pip install --force ziglang`."
            )
        values = {
            "ZIG_EXECUTABLE": str(executable),
            "TARGET_ARCHITECTURE": target.architecture,
            "TARGET_GLIBC": str(target.glibc),
        }
        return values | ({"TARGET_CPU": target.cpu} if target.cpu else {})

    def environment(self) -> dict[str, str]:
        # Zig compiles its C++ library once per glibc version and keeps it here.
        cache = str(cache_directory() / "zig")
        return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


@dataclass(frozen=True, kw_only=True)
class SystemCompiler:
    """A compiler that is installed on this machine."""

    name: str
    program: str  # of this machine's own architecture
    cross_program: str  # of another architecture, which replaces {architecture}
    packages: str  # Debian's, for arm64; "" for what no distribution has

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(resource("toolchains", f"{name}.cmake") for name in (self.name, "system_compiler"))

    def executable(self, target: Target) -> str:
        """The compiler's path. Raises BuildError with what to install."""
        native = target.architecture == host_architecture()
        program = self.program if native else self.cross_program.format(architecture=target.architecture)
        path = shutil.which(program)
        if path is None:
            cure = (
                f"On Debian or Ubuntu: `apt-get install {self.packages}`; or"
                if self.packages
                else "Install it, or"
            )
            raise BuildError(
                f"{program}, the toolchain {self.name}'s compiler for {target.name}, is not installed",
                cure=f"{cure} build with `--toolchain zig`.",
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

    def definitions(self, target: Target) -> dict[str, str]:
        values = {"CXX_EXECUTABLE": self.executable(target), "TARGET_ARCHITECTURE": target.architecture}
        values |= {"TARGET_CPU": target.cpu} if target.cpu else {}
        return values | ({"TARGET_SYSROOT": target.sysroot} if target.sysroot else {})

    def environment(self) -> dict[str, str]:
        return {}


TOOLCHAINS: dict[str, Toolchain] = {
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
    """The toolchains whose compiler for the target is installed here."""
    ready = []
    for toolchain in TOOLCHAINS.values():
        with contextlib.suppress(BuildError):
            toolchain.version(target)
            ready.append(toolchain.name)
    return ready


def load_toolchain(name: str) -> Toolchain:
    """A toolchain by name. Raises ConfigurationError."""
    try:
        return TOOLCHAINS[name]
    except KeyError:
        raise ConfigurationError(f"unknown toolchain {name}: {suggestion(name, TOOLCHAINS)}") from None


def package_version(name: str) -> str:
    """The version of an installed package of PyPI. Raises BuildError where it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"the Python package {name} is not installed", cure=f"Run `pip install {name}`."
        ) from None


def build_tool(package: str) -> Path:
    """The program `cmake` or `ninja` that its PyPI package brought. Raises BuildError."""
    package_version(package)
    programs = [
        Path(str(file.locate()))
        for file in importlib.metadata.files(package) or []
        if file.name == package and "bin" in file.parts
    ]
    # Beside the program itself cmake's package has a Python script of that name, which takes longer to start.
    programs.sort(key=lambda program: "data" not in program.parts)
    for program in programs:
        if os.access(program, os.X_OK):
            return program
    raise BuildError(
        f"the Python package {package} is here, but its program is not",
        cure=f"Run `pip install --force-reinstall {package}`.",
    )
