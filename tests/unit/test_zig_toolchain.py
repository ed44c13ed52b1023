"""The wrappers that toolchains/zig.cmake writes, which translate options of CMake and the engine for Zig."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.build.toolchain import build_tool, load_toolchain
from harness.config.targets import load_target
from harness.resources import resource

ECHO = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"


@pytest.fixture
def wrappers(tmp_path: Path) -> Path:
    """The wrappers around a program that prints its arguments, a line each."""
    zig = tmp_path / "a folder" / "zig"
    zig.parent.mkdir()
    zig.write_text(ECHO)
    zig.chmod(0o755)
    configure(
        tmp_path, {"ZIG_EXECUTABLE": str(zig), "TARGET_ARCHITECTURE": "aarch64", "TARGET_GLIBC": "2.27"}
    )
    return tmp_path / "zig"


def configure(folder: Path, values: dict[str, str]) -> subprocess.CompletedProcess[str]:
    definitions = [f"-D{name}={value}" for name, value in values.items()]
    script = resource("toolchains", "zig.cmake")
    return subprocess.run(
        [str(build_tool("cmake")), *definitions, "-P", str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def call(wrapper: Path, *arguments: str) -> list[str]:
    return subprocess.run(
        [str(wrapper), *arguments], capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("-march=armv8-a", "-mcpu=generic"),
        ("-march=armv8.2-a+fp16", "-mcpu=generic+v8_2a+fullfp16"),
        ("-march=armv8.2-a+fp16+dotprod", "-mcpu=generic+v8_2a+fullfp16+dotprod"),
        ("-march=armv8.2-a+dotprod", "-mcpu=generic+v8_2a+dotprod"),
        ("-mavx2", "-mavx2"),
        ("-DTEXT=two words", "-DTEXT=two words"),
    ],
)
def test_instruction_sets_are_said_in_zigs_words(wrappers: Path, said: str, meant: str) -> None:
    words = call(wrappers / "c++", "-O3", said, "-c", "a b.cpp")
    assert words == ["c++", "-s", "-target", "aarch64-linux-gnu.2.27", "-O3", meant, "-c", "a b.cpp"]


def test_a_core_to_tune_for_leaves_the_instruction_set_as_it_is(wrappers: Path) -> None:
    words = call(wrappers / "c++", "-mtune=cortex-a72", "-march=armv8.2-a+fp16", "-c", "a.cpp")
    tuning = ["-Xclang", "-tune-cpu", "-Xclang", "cortex-a72"]
    assert words[4:] == [*tuning, "-mcpu=generic+v8_2a+fullfp16", "-c", "a.cpp"]


@pytest.mark.parametrize("tool", ["ar", "ranlib"])
def test_the_binary_tools_are_zigs(wrappers: Path, tool: str) -> None:
    assert call(wrappers / tool, "qc", "libmpe.a") == [tool, "qc", "libmpe.a"]


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    done = configure(tmp_path, {"ZIG_EXECUTABLE": "/zig", "TARGET_ARCHITECTURE": "aarch64"})
    assert done.returncode != 0
    assert "-DTARGET_GLIBC" in done.stderr


def test_a_targets_data_become_the_toolchain_files_variables() -> None:
    values = load_toolchain("zig").definitions(load_target("jetson"))
    assert Path(values.pop("ZIG_EXECUTABLE")).name == "zig"
    assert values == {"TARGET_ARCHITECTURE": "aarch64", "TARGET_GLIBC": "2.27"}
