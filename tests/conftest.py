"""Shared fixtures: the material of ../shared/data, and the engine built for this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from documented import expect_valid, undocumented
from hypothesis import settings
from started_processes import end_what_was_started, findable_as, signals_passed_on

from harness import console

if TYPE_CHECKING:
    from harness.runtimes.engine import HostEngine

# The time of an example depends on the machine's load, so there is no deadline.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

REPOSITORY = Path(__file__).resolve().parents[1]


_FAILED = pytest.StashKey[bool]()

# The order in which workers take the files that need minutes: those that mostly wait lie between those that
# compile on all cores, so that no core idles.
FIRST = (
    "test_fault_campaign.py",
    "test_tutorial.py",
    "test_accuracy.py",
    "test_build_targets.py",
    "test_board_lock_contention.py",
    "test_engine_sanitizers.py",
    "test_hostile_board.py",
    "test_image_failures.py",
    "test_engine_arm_kernels.py",
    "test_documented_pages.py",
    "test_runtimes_on_boards.py",
    "test_sweeps.py",
    "test_recorded_pages.py",
)


@pytest.hookimpl(optionalhook=True)  # a test runs pytest without its plugin xdist
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: tests of boards and containers wait for a part of their time."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With HARNESS_REQUIRE_ALL=1, as in CI, a skipped test counts as failed: all requirements must be met."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    if os.environ.get("HARNESS_REQUIRE_ALL") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where everything is required: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    """Nothing that a test started outlives the tests, and signals reach it also under `nohup`."""
    with signals_passed_on(), findable_as(str(os.getpid())):
        try:
            yield
        finally:
            end_what_was_started()


@pytest.fixture(autouse=True)
def _ended(request: pytest.FixtureRequest, _processes: None) -> Iterator[None]:
    """Ends processes that a failed test has left running, so that other tests do not fail."""
    with findable_as(str(id(request.node))):
        yield
        if request.node.stash.get(_FAILED, False) and (left := end_what_was_started()):
            print("ended after the failure:", *left, sep="\n  ", file=sys.stderr)


@pytest.fixture(autouse=True)
def _talkative() -> Iterator[None]:
    """A test that runs a command with --quiet leaves the next one its log lines."""
    yield
    console.set_quiet(False)


@pytest.fixture(autouse=True)
def _documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks JSON that commands print in tests: docs/reference.md names its keys, and it fits its schema."""
    emit = console.emit_json

    def checked(document: object) -> None:
        module = sys._getframe(1).f_globals["__name__"]
        if module.startswith("harness."):
            command = module.rpartition(".")[2].partition("_")[0]
            if command != "schema":
                command = "A failure of any command" if command == "cli" else command
                unknown = undocumented(command, document)
                assert not unknown, f"docs/reference.md does not name these keys of {command}: {unknown}"
                expect_valid(command, document)
        emit(document)

    monkeypatch.setattr(console, "emit_json", checked)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real models, photographs and golden outputs; $HARNESS_SHARED_DATA, or ../shared/data."""
    folder = Path(os.environ.get("HARNESS_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "README.md").is_file():
        pytest.skip(f"no test material at {folder}; name its place in HARNESS_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def host_engine() -> HostEngine:
    """The engine of this checkout, built with the default toolchain."""
    from harness.build.engine import build_engine
    from harness.config.targets import load_target
    from harness.runtimes.engine import HostEngine

    return HostEngine(build_engine(load_target("host")).engine)


@pytest.fixture(scope="session")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/integration/marked.c as an arm64 program."""
    output = tmp_path_factory.mktemp("program") / "marked"
    source = REPOSITORY / "tests" / "integration" / "marked.c"
    subprocess.run(
        [
            *(sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-O2", "-nostdlib"),
            *("-static", "-ffreestanding", "-fno-sanitize=all", "-o", str(output), str(source)),
        ],
        check=True,
        capture_output=True,
    )
    return output
