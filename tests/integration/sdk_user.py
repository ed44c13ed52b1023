"""Compiles against an SDK as its users do: with find_package, for the target."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.build.toolchain import build_tool, load_toolchain
from harness.config.targets import Target
from harness.sdk.layout import Sdk


def compile_against(sdk: Sdk, target: Target, program: str, folder: Path) -> Path:
    """Compiles a C program: Zig takes a minute for the C++ library of another glibc. Returns the program."""
    zig = load_toolchain("zig")
    (folder / "main.c").write_text(program)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(hello LANGUAGES C)\nadd_executable(hello main.c)\n"
        "find_package(TensorFlow REQUIRED)\ntarget_link_libraries(hello TensorFlow::tensorflow)\n"
    )
    definitions = zig.definitions(target) | {
        "CMAKE_TOOLCHAIN_FILE": str(zig.files[0]),
        "CMAKE_MAKE_PROGRAM": str(build_tool("ninja")),
        "TensorFlow_DIR": str(sdk.folder / "lib" / "cmake" / "TensorFlow"),
    }
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    environment = os.environ | zig.environment()
    cmake, build = str(build_tool("cmake")), str(folder / "build")
    configure = [cmake, "-G", "Ninja", "-S", str(folder), "-B", build, *options]
    for command in (configure, [cmake, "--build", build]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "hello"
