"""The tests of the engine's kernels on emulated Arm cores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from engine_tests import ENGINE, configure, run

from harness.build.emulator import emulator_missing, find_emulator
from harness.build.manifest import read_sources
from harness.build.program import placed_sources
from harness.build.request import BuildRequest
from harness.build.toolchain import build_tool, load_toolchain
from harness.config.targets import load_target

pytestmark = pytest.mark.engine


SUITES = (
    "convolution_choice_test",
    "convolution_test",
    "layers_test",
    "quantization_test",
    "row_chain_test",
    "session_test",
    "winograd_test",
)
DIFFERENTIAL = "differential"


@pytest.fixture(scope="module")
def arm64_suites(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The kernels' tests for arm64, with the very kernels of the engine for all boards: where it was compiled
    before, Zig has kept these."""
    target, zig = load_target("pi4"), load_toolchain("zig")
    request = BuildRequest(target=target, toolchain=zig, sources=read_sources(zig))
    definitions = {"MPE_BUILD_TESTS": "ON", "MPE_BUILT_ONCE": "ON"} | zig.definitions(request.shared)
    folder = tmp_path_factory.mktemp("arm64")
    with placed_sources(request) as source:
        engine = source / "engine"
        (engine / "tests").symlink_to(ENGINE / "tests")  # goes when the sources are placed again
        definitions["CMAKE_TOOLCHAIN_FILE"] = str(source / "toolchains" / zig.files[0].name)
        options = [f"-D{name}={value}" for name, value in definitions.items()]
        configure(folder, options, source=engine, environment=zig.environment())
        run([build_tool("ninja"), "-C", folder, *SUITES, DIFFERENTIAL], environment=zig.environment())
    return [folder / "tests" / name for name in SUITES]


# The cores that differ in kernels: an in-order one, and one with half arithmetic and dot products, which also
# runs the NEON kernels of the out-of-order cores.
CORES = ("cortex-a53", "cortex-a76")


@pytest.fixture(scope="module")
def arm64_runs(arm64_suites: list[Path]) -> Iterator[Mapping[tuple[str, str], Future[str]]]:
    """The tests on every core, side by side: each takes minutes under QEMU."""
    with ThreadPoolExecutor(len(CORES)) as pool:
        runs = {}
        for core in CORES:
            target = replace(load_target("pi4"), qemu_cpu=core)
            emulator = find_emulator(target)
            if emulator is None:
                pytest.skip(f"needs {', '.join(emulator_missing(target))}: `harness doctor --install`")
            for suite in arm64_suites:
                runs[suite.name, core] = pool.submit(run, [*emulator.prefix, suite])
        yield runs


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("suite", SUITES)
def test_arm_kernels_compute_what_the_plain_loops_do(
    suite: str, core: str, arm64_runs: Mapping[tuple[str, str], Future[str]]
) -> None:
    assert "0 failures" in arm64_runs[suite, core].result()


def test_random_networks_give_the_same_int8_digests_on_all_cores(
    arm64_suites: list[Path], tmp_path: Path
) -> None:
    program = arm64_suites[0].parent / DIFFERENTIAL / DIFFERENTIAL
    digests = []
    for core in CORES:
        emulator = find_emulator(replace(load_target("pi4"), qemu_cpu=core))
        assert emulator is not None
        words = ["--seed", "101", "--count", "6", "--folder", str(tmp_path / core)]
        printed = run([*emulator.prefix, program, *words])
        rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        digests.append({row["seed"]: row["int8_digests"] for row in rows if row["int8_digests"]})
    assert digests[0]
    assert digests[0] == digests[1]
