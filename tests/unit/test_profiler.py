"""Profiling emulated programs, as far as it needs no emulator."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.targets import load_target
from harness.qemu import plugin as qemu_plugin
from harness.qemu import profiler as block_profiler
from harness.qemu.profiler import BlockProfiler


def test_the_program_runs_under_the_plugin_with_the_targets_core_and_caches() -> None:
    profiler = BlockProfiler(folder=Path("cache"))
    target = load_target("pi5")
    words = profiler.command(target, ["mpe", "bench"], {"LD_LIBRARY_PATH": "/a:/b"}, "/home/x/out")
    assert words[-4:] == ["-E", "LD_LIBRARY_PATH=/a:/b", "mpe", "bench"]
    assert words[words.index("-cpu") + 1] == "cortex-a76"
    plugin = words[words.index("-plugin") + 1].split(",")
    assert plugin[0].endswith(".so")
    assert plugin[1:] == ["out=/home/x/out", "cache=64/4", "cache=512/8", "cache=2048/16"]


def test_commas_in_paths_are_escaped_from_qemus_options() -> None:
    folder, root = Path("/cache,x"), Path("/arm64")
    words = BlockProfiler(folder=folder).command(
        replace(load_target("pi5"), board=None), ["mpe"], {}, "/tmp,y/out", folder=folder, root=root
    )
    assert words[words.index("-plugin") + 1] == "/cache,,x/block_profile.so,out=/tmp,,y/out"
    assert words[words.index("-L") + 1] == "/arm64"


def test_without_a_board_no_cache_is_simulated() -> None:
    target = replace(load_target("pi5"), board=None)
    words = BlockProfiler(folder=Path("cache")).command(target, ["mpe"], {}, "out")
    assert not any("cache=" in word for word in words)


@pytest.mark.parametrize(
    ("said", "definitions"),
    [
        ("qemu-aarch64 version 7.2.22 (Debian 1:7.2)", ["-DPLUGIN_API=1", "-DINSTRUCTION_COPIED=0"]),
        ("qemu-aarch64 version 9.0.4", ["-DPLUGIN_API=2", "-DINSTRUCTION_COPIED=0"]),
        ("qemu-aarch64 version 10.0.2", ["-DPLUGIN_API=2", "-DINSTRUCTION_COPIED=1"]),
    ],
)
def test_the_plugin_is_compiled_for_the_emulators_interface(
    tmp_path: Path, said: str, definitions: list[str]
) -> None:
    emulator = tmp_path / "qemu-aarch64"
    emulator.write_text(f"#!/bin/sh\necho '{said}'\n")
    emulator.chmod(0o755)
    assert qemu_plugin.interface(emulator) == definitions


def test_libraries_of_a_dynamic_program_include_its_loader() -> None:
    shell = Path(str(shutil.which("sh"))).resolve()
    libraries = block_profiler._libraries(shell)
    assert "loader" in libraries
    assert any(name.startswith("libc.") for name in libraries)
    assert all(path.is_file() for path in libraries.values())


def test_other_files_than_dynamic_programs_have_no_libraries() -> None:
    assert block_profiler._libraries(Path(__file__)) == {}


def test_a_missing_emulator_is_said_with_its_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (line,) = block_profiler.profiling_missing()
    assert "apt-get install qemu-user" in line
    assert block_profiler.prepare_profiler() is None


@pytest.mark.parametrize(("said", "libraries"), [("-cpu", {"libc.so.6": Path("c")}), ("-plugin [file=]", {})])
def test_an_emulator_without_plugins_or_a_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, libraries: dict[str, Path]
) -> None:
    emulator = tmp_path / "qemu-aarch64"
    emulator.write_text(f"#!/bin/sh\necho '{said}'\n")
    emulator.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(emulator))
    monkeypatch.setattr(block_profiler, "_libraries", lambda _: libraries)
    (line,) = block_profiler.profiling_missing()
    assert f"{emulator} does not support plugins" in line
