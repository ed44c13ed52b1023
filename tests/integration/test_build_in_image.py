"""Native builds in the arm64 image; a small program stands in for the engine, which takes minutes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.build import engine as building
from harness.build import manifest as manifests
from harness.build import program as programs
from harness.build.engine import build_engine
from harness.build.toolchain import Toolchain
from harness.config.targets import load_target
from harness.errors import BuildError, TargetMismatchError
from harness.images.availability import emulation_missing
from harness.images.container import OWNER_LABEL
from harness.images.native_compiler import image_compiler
from harness.images.process_identity import own_identity

pytestmark = pytest.mark.emulation

TARGET = load_target("pi4")
PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(mpe LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_executable(mpe mpe.cpp)
"""


@pytest.fixture(scope="module")
def compiler() -> Toolchain:
    if missing := emulation_missing(TARGET):
        pytest.skip("; ".join(missing))
    return image_compiler(TARGET)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in's source file; what is built of it goes below the test's own folder."""
    folder = tmp_path / "checkout"
    (folder / "engine").mkdir(parents=True)
    (folder / "engine" / "CMakeLists.txt").write_text(PROJECT)
    file = folder / "engine" / "mpe.cpp"
    file.write_text("int main() {}\n")
    monkeypatch.setattr(manifests, "resource", folder.joinpath)
    for module in (building, programs):
        monkeypatch.setattr(module, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(building, "self_test", lambda *_: {"how": "not at all"})
    yield file
    client = docker.from_env()
    left = client.containers.list(all=True, filters={"label": f"{OWNER_LABEL}={own_identity()}"})
    client.close()
    assert not left


def test_the_image_s_own_compiler_builds_what_the_target_runs(
    compiler: Toolchain, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = build_engine(TARGET, toolchain=compiler)
    assert (build.place, build.toolchain, build.cached) == ("image", "gcc", False)
    assert build.engine.parent.parent.name == "pi4-gcc-image"
    assert build.engine.stat().st_uid == os.getuid()
    manifest = json.loads(build.manifest.read_text())
    assert manifest["architecture"] == "aarch64"
    assert manifest["compiler"].startswith("g++ (Debian 12.")
    assert manifest["cmake"].startswith("3.25.")
    assert manifest["built_in"].startswith("harness/pi4-build:")
    assert "glibc 2.36" in manifest["built_in"]
    assert "-O3" in manifest["flags"]["mpe.cpp"]
    printed = capsys.readouterr().err
    assert "Building CXX object" not in printed
    assert "✓ engine pi4 with g++ of harness/pi4-build:" in printed
    assert "Building CXX object" in (build.engine.parents[1] / "build.log").read_text()
    assert build_engine(TARGET, toolchain=compiler).cached
    source.write_text("int main() { return 1; }\n")
    assert not build_engine(TARGET, toolchain=compiler).cached


def test_errors_of_the_compiler_in_the_image_are_quoted(compiler: Toolchain, source: Path) -> None:
    source.write_text("int main() { return unheard_of; }\n")
    with pytest.raises(BuildError, match=r"ninja failed with status 1:[\s\S]*unheard_of"):
        build_engine(TARGET, toolchain=compiler)
    source.write_text("int main() {}\n")
    assert not build_engine(TARGET, toolchain=compiler).cached


@pytest.mark.usefixtures("compiler", "source")
def test_the_gate_judges_what_a_newer_image_built() -> None:
    nano = load_target("jetson-nano")
    with pytest.raises(TargetMismatchError, match=r"needs glibc 2\.34 \(GLIBC_2\.34\)") as caught:
        build_engine(nano, toolchain=image_compiler(nano))
    assert caught.value.exit_status == 4
