"""The engine's own tests with sanitizers on this machine, and a short fuzz."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from documented_commands import REPOSITORY, scripts
from engine_tests import ENGINE, run
from random_networks import SANITIZER_OPTIONS, Campaign, Programs

from harness.build.toolchain import build_tool
from harness.config.targets import load_target
from harness.sdk.wheel import tensorflow_sdk

pytestmark = pytest.mark.engine
(BLOCK,) = (block for block in scripts(REPOSITORY / "CONTRIBUTING.md") if "MPE_SANITIZE" in block)
BUILD, TEST = BLOCK.rsplit("&&", 1)
FUZZERS = ("cfg", "weights", "npy", "calibration")
FUZZ_SECONDS = int(os.environ.get("HARNESS_FUZZ_SECONDS", "10"))


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests, benchmarks and libFuzzer targets with both sanitizers, as CONTRIBUTING.md builds them."""
    # GCC takes minutes for the instrumented kernels, and has no libFuzzer.
    if shutil.which("clang++") is None:
        pytest.skip("the engine's sanitizer tests need clang: apt-get install clang libclang-rt-dev")
    if not Path("/usr/include/benchmark/benchmark.h").is_file():
        pytest.skip("the engine's benchmarks need Google Benchmark: apt-get install libbenchmark-dev")
    folder = tmp_path_factory.mktemp("instrumented")
    (folder / "engine").symlink_to(ENGINE)
    documented(folder, BUILD)
    return folder / "build"


def documented(folder: Path, script: str) -> str:
    """Runs a part of the block where engine/ is, with the CMake and Ninja of `harness build`."""
    tools = dict.fromkeys(str(build_tool(name).parent) for name in ("cmake", "ninja"))
    environment = {"PATH": ":".join([*tools, os.environ["PATH"]])}
    return run(["bash", "-euo", "pipefail", "-c", script], folder=folder, environment=environment)


def test_suite_under_address_and_undefined_behaviour_sanitizers(instrumented: Path) -> None:
    assert "100% tests passed" in documented(instrumented.parent, TEST)
    benchmark = instrumented / "benchmarks" / "layers_benchmark"
    shown = run([benchmark, "--benchmark_list_tests"])
    assert {line.split("/")[1] for line in shown.splitlines()} == {"fp32", "fp16", "int8"}
    assert run([benchmark, "--benchmark_list_tests", "--benchmark_filter=gemm"])  # of docs/performance.md
    first = shown.splitlines()[0]
    argv = [f"--benchmark_filter=^{first}$", "--benchmark_min_time=0.001", "--benchmark_format=json"]
    (row,) = json.loads(run([benchmark, *argv]))["benchmarks"]
    assert row["name"] == first
    assert row["of peak %"] > 0
    libraries = tensorflow_sdk(load_target("host")).folder / "lib"
    environment = {"LD_LIBRARY_PATH": str(libraries), "MPE_REQUIRE_TENSORFLOW": "1"}
    quantizers = run([instrumented / "tests" / "quantizer_test"], environment=environment)
    assert "3 cases, 0 failures" in quantizers


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


def test_random_networks_are_the_same_in_all_configurations(instrumented: Path, tmp_path: Path) -> None:
    programs = Programs(folder=instrumented, environment=SANITIZER_OPTIONS)
    tally = Campaign(programs, tmp_path / "first", earlier={}).run(101, seconds=120, networks=15)
    assert tally.findings == []
    assert tally.networks == 15
    assert tally.int8_networks > 0
    assert {kernel.split()[0] for kernel in tally.layers} == {"fp32", "fp16", "int8"}
    # A seed is the same network again, and one that gave other digests is a finding.
    (seed, digests), *_ = tally.digests.items()
    again = Campaign(programs, tmp_path / "again", earlier={seed: [*digests, "other"]})
    again.run(int(seed), seconds=120, networks=1)
    assert again.tally.digests == {seed: digests}
    assert again.tally.findings == [f"seed {seed}: other int8 digests than in the campaign compared with"]
