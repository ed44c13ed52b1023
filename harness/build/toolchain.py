"""What compiles for a target. Each toolchain is one CMake file in toolchains/ and one class here."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Protocol

from harness.configuration.document import suggestion
from harness.configuration.targets import Target
from harness.errors import BuildError, ConfigurationError
from harness.resources import cache_directory, resource


class Toolchain(Protocol):
    """A compiler as CMake is told of it."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> Path:
        """The CMake toolchain file."""

    def version(self) -> str:
        """The compiler and its version, as the manifest states it."""

    def definitions(self, target: Target) -> dict[str, str]:
        """What the toolchain file wants to know of the target: CMake variables."""

    def environment(self) -> dict[str, str]:
        """Variables for every process of the build."""


class Zig:
    """Zig's C++ compiler from PyPI: nothing of the system is used, and glibc's version is a choice."""

    name = "zig"

    @property
    def file(self) -> Path:
        return resource("toolchains", "zig.cmake")

    def version(self) -> str:
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


TOOLCHAINS: dict[str, Toolchain] = {"zig": Zig()}


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
