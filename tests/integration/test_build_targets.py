"""`harness build` with real compilers: programs fit the target and run on its core, others are refused."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_tests import configure, run

from harness.build.elf import check_fits, read_needs, version_key
from harness.build.emulator import emulator_missing, find_emulator
from harness.build.engine import EngineBuild, build_engine
from harness.build.self_test import self_test
from harness.build.toolchain import load_toolchain
from harness.config.targets import load_target
from harness.errors import BuildError, TargetMismatchError

pytestmark = pytest.mark.engine

# Half-precision arithmetic: an instruction that Cortex-A57 and A72 do not have.
HALF_PRECISION = 'int main(void) { __asm__(".arch_extension fp16\\n fadd h0, h1, h2"); return 0; }\n'
# Where nothing depends on the code. -O0 takes longer: it keeps every step of the kernels' templates.
FAST_TO_COMPILE = ("-O1", "-fno-inline-functions")


def build(name: str) -> EngineBuild:
    return build_engine(load_target(name))


@pytest.mark.parametrize("name", ["host", "pi4", "jetson"])
def test_an_engine_needs_no_more_than_its_target_has(name: str) -> None:
    built = build(name)
    needs = read_needs(built.engine)
    assert needs.architecture == built.target.architecture
    assert version_key(built.glibc_needed) <= version_key(str(built.target.glibc))
    assert not [library for library in needs.libraries if "++" in library]
    manifest = json.loads(built.manifest.read_text())
    assert manifest["sources"].keys() > {"engine/CMakeLists.txt", "toolchains/zig.cmake"}
    assert "-O3" in manifest["flags"]["tools/mpe.cpp"]


def test_the_same_sources_give_the_same_build() -> None:
    first, second = build("host"), build("host")
    assert second.cached
    assert second.engine == first.engine


@pytest.mark.parametrize(
    ("name", "best", "second_kib"),
    [("pi4", "neon", 1024), ("jetson", "neon", 2048), ("pi5", "neon_dotprod", 512)],
)
def test_one_arm64_engine_chooses_its_kernels_by_the_core(name: str, best: str, second_kib: int) -> None:
    target = load_target(name)
    emulator = find_emulator(target)
    if emulator is None:
        pytest.skip(f"needs {', '.join(emulator_missing(target))}: `harness doctor --install`")
    report = self_test(build("pi4").engine, target, emulator)
    caps = report["caps"]
    assert isinstance(caps, dict)
    assert caps["best"] == best
    assert caps["caches"]["second_bytes"] == second_kib << 10
    assert report["precisions"] == ["fp32", "fp16", "int8"]


def test_an_instruction_that_the_core_lacks_is_refused(tmp_path: Path) -> None:
    target = load_target("jetson")
    emulator = find_emulator(target)
    if emulator is None:
        pytest.skip(f"needs {', '.join(emulator_missing(target))}: `harness doctor --install`")
    program = compile_for_arm64(tmp_path, HALF_PRECISION)
    with pytest.raises(TargetMismatchError, match=r"(fadd h0|0x1ee22820).*fp16.*cortex-a57 does not have"):
        self_test(program, target, emulator)


def arm64_compiler() -> None:
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs g++-aarch64-linux-gnu: `harness doctor --install --tests`")


def test_a_compiler_with_a_newer_glibc_is_refused_before_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm64_compiler()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    with pytest.raises(TargetMismatchError, match=r"GLIBC_2\.3\d.*jetson-nano has 2\.27") as caught:
        build_engine(load_target("jetson"), toolchain="gcc")
    assert caught.value.exit_status == 4
    (log,) = tmp_path.glob("build/*/build.log")
    assert "Configuring done" in log.read_text()
    assert "Building" not in log.read_text()


def test_gcc_accepts_the_kernels_for_arm64(tmp_path: Path) -> None:
    """Its warnings are errors. No code is generated, which would take a minute; test_sweeps.py builds a whole
    engine with GCC for this machine."""
    arm64_compiler()
    gcc, target = load_toolchain("gcc"), load_target("pi4")
    definitions = {"CMAKE_TOOLCHAIN_FILE": str(gcc.files[0])} | gcc.definitions(target)
    configure(tmp_path, [f"-D{name}={value}" for name, value in definitions.items()])
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    kernels = [entry["command"] for entry in commands if "/src/kernels/" in entry["file"]]
    assert sum("/kernels/neon" in command for command in kernels) == 4

    def check(command: str) -> None:
        words = shlex.split(command)
        output = words.index("-o")
        run([*words[:output], *words[output + 2 :], "-fsyntax-only"], folder=tmp_path)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, kernels))


def test_clang_with_the_headers_of_gcc_builds_for_the_pi_4() -> None:
    arm64_compiler()
    if shutil.which("clang++") is None:
        pytest.skip("needs clang: `harness doctor --install --tests`")
    built = build_engine(load_target("pi4"), toolchain="clang", flags=" ".join(FAST_TO_COMPILE))
    manifest = json.loads(built.manifest.read_text())
    assert "clang" in manifest["compiler"]
    # The user's level of optimisation is the last one of every file, so that it counts.
    levels = {
        [word for word in words.split() if word.startswith("-O")][-1] for words in manifest["flags"].values()
    }
    assert levels == {FAST_TO_COMPILE[0]}
    assert manifest["self_test"]["precisions"] == ["fp32", "fp16", "int8"]


@pytest.mark.parametrize("flags", ["-march=armv8.2-a+fp16", "-march=armv8-a+fp16"])
def test_flags_above_the_cores_instruction_set_are_refused(flags: str) -> None:
    with pytest.raises(TargetMismatchError, match=r"fp16 arithmetic.*cortex-a72") as caught:
        build_engine(load_target("pi4"), flags=flags)
    assert caught.value.exit_status == 4


def test_flags_reach_the_compiler() -> None:
    # A build that fails takes two seconds; test_sweeps.py has one with flags that ends well.
    with pytest.raises(BuildError, match="no such header"):
        build_engine(load_target("host"), flags="-include 'no such header.h'")


def test_a_program_for_a_newer_glibc_is_refused(tmp_path: Path) -> None:
    source = "#include <pthread.h>\nint main(void) { return pthread_join(pthread_self(), 0); }\n"
    needs = read_needs(compile_for_arm64(tmp_path, source, glibc="2.36"))
    check_fits(needs, load_target("pi4"), "the program")
    with pytest.raises(TargetMismatchError) as caught:
        check_fits(needs, load_target("jetson"), "the program")
    for part in ("2.34", "pthread_join", "libc.so.6", "jetson-nano has 2.27"):
        assert part in str(caught.value)


def compile_for_arm64(folder: Path, source: str, *, glibc: str = "2.27") -> Path:
    """Compiles a C program with the compiler of the zig toolchain."""
    zig = load_toolchain("zig")
    compiler = zig.definitions(load_target("jetson"))["ZIG_EXECUTABLE"]
    (folder / "main.c").write_text(source)
    subprocess.run(
        [compiler, "cc", "-target", f"aarch64-linux-gnu.{glibc}", "-s", "-O1", "main.c", "-o", "main"],
        cwd=folder,
        env={**os.environ, **zig.environment()},
        check=True,
    )
    return folder / "main"
