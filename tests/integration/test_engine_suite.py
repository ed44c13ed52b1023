"""The engine's own tests: with sanitizers on this machine, on emulated Arm cores, and a short fuzz."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.build.emulator import emulator_missing, find_emulator
from harness.build.toolchain import build_tool, load_toolchain
from harness.configuration.targets import load_target
from harness.sdk.wheel import tensorflow_sdk

pytestmark = pytest.mark.engine
ENGINE = Path(__file__).resolve().parents[2] / "engine"
FUZZERS = ("cfg", "weights", "npy", "calibration")
FUZZ_SECONDS = int(os.environ.get("HARNESS_FUZZ_SECONDS", "15"))


def run(
    argv: Sequence[str | Path], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Runs a program; its output is the failure's message."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def configure_and_build(
    folder: Path,
    options: Sequence[str],
    *,
    target: str = "all",
    environment: Mapping[str, str] | None = None,
) -> None:
    """CMake and Ninja, as `harness build` uses them."""
    cmake, ninja = build_tool("cmake"), build_tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    run([cmake, "-S", ENGINE, "-B", folder, *generator, *options], environment=environment)
    run([ninja, "-C", folder, target], environment=environment)


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests, benchmarks and libFuzzer targets with both sanitizers, in one build."""
    # GCC takes minutes for the instrumented kernels, and has no libFuzzer.
    clang = shutil.which("clang++")
    if clang is None:
        pytest.skip("the engine's sanitizer tests need clang: apt-get install clang libclang-rt-dev")
    if not Path("/usr/include/benchmark/benchmark.h").is_file():
        pytest.skip("the engine's benchmarks need Google Benchmark: apt-get install libbenchmark-dev")
    folder = tmp_path_factory.mktemp("instrumented")
    parts = [f"-DMPE_BUILD_{part}=ON" for part in ("TESTS", "BENCHMARKS", "FUZZERS")]
    options = [f"-DCMAKE_CXX_COMPILER={clang}", "-DMPE_SANITIZE=address,undefined", *parts]
    configure_and_build(folder, options)
    return folder


def test_suite_under_address_and_undefined_behaviour_sanitizers(instrumented: Path) -> None:
    ctest = build_tool("cmake").with_name("ctest")
    jobs = ["--parallel", str(os.cpu_count() or 1)]
    printed = run([ctest, "--test-dir", instrumented, "--output-on-failure", *jobs])
    assert "100% tests passed" in printed
    benchmark = instrumented / "benchmarks" / "layers_benchmark"
    shown = run([benchmark, "--benchmark_list_tests"])
    assert {line.split("/")[1] for line in shown.splitlines()} == {"fp32", "fp16", "int8"}
    first = shown.splitlines()[0]
    argv = [f"--benchmark_filter=^{first}$", "--benchmark_min_time=0.001", "--benchmark_format=json"]
    (row,) = json.loads(run([benchmark, *argv]))["benchmarks"]
    assert row["name"] == first
    assert row["of peak %"] > 0
    libraries = tensorflow_sdk(load_target("host")).folder / "lib"
    environment = {"LD_LIBRARY_PATH": str(libraries), "MPE_REQUIRE_TENSORFLOW": "1"}
    quantizers = run([instrumented / "tests" / "quantizer_test"], environment=environment)
    assert "3 cases, 0 failures" in quantizers


@pytest.fixture(scope="module")
def arm64_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels' test for arm64, compiled as the engine is for the Pi 4."""
    target, zig = load_target("pi4"), load_toolchain("zig")
    folder = tmp_path_factory.mktemp("arm64")
    definitions = {"CMAKE_TOOLCHAIN_FILE": str(zig.files[0]), "MPE_BUILD_TESTS": "ON"} | zig.definitions(
        target
    )
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    configure_and_build(folder, options, target="convolution_test", environment=zig.environment())
    return folder / "tests" / "convolution_test"


# The cores that differ in instructions: those without and with half arithmetic and dot products.
CORES = ("cortex-a72", "cortex-a76")


@pytest.fixture(scope="module")
def arm64_runs(arm64_suite: Path) -> Iterator[Mapping[str, Future[str]]]:
    """The test on every core, side by side: each takes minutes under QEMU."""
    with ThreadPoolExecutor(len(CORES)) as pool:
        runs = {}
        for core in CORES:
            target = replace(load_target("pi4"), qemu_cpu=core)
            emulator = find_emulator(target)
            if emulator is None:
                pytest.skip(f"needs {', '.join(emulator_missing(target))}: `harness doctor --install`")
            runs[core] = pool.submit(run, [*emulator.prefix, arm64_suite])
        yield runs


@pytest.mark.parametrize("core", CORES)
def test_arm_kernels_compute_what_the_plain_loops_do(
    core: str, arm64_runs: Mapping[str, Future[str]]
) -> None:
    assert "0 failures" in arm64_runs[core].result()


@pytest.mark.parametrize("name", FUZZERS)
def test_a_short_fuzz_finds_nothing(name: str, instrumented: Path, tmp_path: Path) -> None:
    corpus = ENGINE / "tests" / "fuzz" / "corpus" / name
    dictionary = ENGINE / "tests" / "fuzz" / f"{name}.dict"
    (tmp_path / "new").mkdir()
    # The limit is on single allocations: a new process inherits the peak resident size of the one that
    # starts it (getrusage), which libFuzzer would take for its own, and here that one has run TensorFlow.
    options = [f"-max_total_time={FUZZ_SECONDS}", "-timeout=20", "-malloc_limit_mb=1024", "-rss_limit_mb=0"]
    options += [f"-dict={dictionary}"] if dictionary.is_file() else []
    run([instrumented / "tests" / "fuzz" / f"{name}_fuzzer", *options, "new", corpus], folder=tmp_path)
