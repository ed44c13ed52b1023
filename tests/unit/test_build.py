"""The cache and the checks of `harness build`, with a script as compiler."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.build import engine as building
from harness.build import manifest as manifests
from harness.build import toolchain as toolchains
from harness.build.engine import build_engine
from harness.build.toolchain import load_toolchain
from harness.config.targets import Target, host_architecture, load_target, shared_target
from harness.errors import BuildError, ConfigurationError, TargetMismatchError
from harness.file_digest import file_digest
from harness.signals import ended_by_signals

TARGET = Target(
    name="desk", description="this machine", architecture=host_architecture(), glibc="2.999", libstdcxx="9"
)

# Stands in for CMake and Ninja: "compiles" by copying a program of this machine.
TOOL = """#!/bin/sh
case "$(basename "$0")" in
  cmake) while [ "$1" != -B ]; do shift; done; mkdir -p "$2"; echo '[]' >"$2/compile_commands.json" ;;
  ninja) echo run >>"{runs}"; sleep {seconds}; {body} ;;
esac
"""


class Checkout:
    """A tree of sources and the tools that compile it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "engine" / "src" / "mpe.cpp"
        self.source.parent.mkdir(parents=True)
        self.source.write_text("int main() {}\n")
        (folder / "toolchains").mkdir()
        (folder / "toolchains" / "zig.cmake").write_text("# nothing\n")
        self.runs = folder / "runs"
        self.compile_with(f'cp "{shutil.which("true")}" "$2/mpe"')

    def compile_with(self, body: str, seconds: float = 0) -> None:
        for name in ("cmake", "ninja"):
            tool = self.folder / name
            tool.write_text(TOOL.format(runs=self.runs, body=body, seconds=seconds))
            tool.chmod(stat.S_IRWXU)

    def count(self) -> int:
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    made = Checkout(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for module in (manifests, toolchains):
        monkeypatch.setattr(module, "resource", tmp_path.joinpath)
    monkeypatch.setattr(toolchains, "build_tool", lambda name: tmp_path / name)
    monkeypatch.setattr(building, "self_test", lambda *_: {"how": "not at all"})
    return made


def test_a_build_comes_with_its_manifest(checkout: Checkout) -> None:
    build = build_engine(TARGET)
    manifest = json.loads(build.manifest.read_text())
    assert not build.cached
    assert manifest["sha256"] == file_digest(build.engine)
    assert manifest["sources"] == {
        "engine/src/mpe.cpp": file_digest(checkout.source),
        "toolchains/zig.cmake": file_digest(checkout.folder / "toolchains" / "zig.cmake"),
    }
    assert manifest["glibc_needed"] == build.glibc_needed != ""
    assert manifest["self_test"] == {"how": "not at all"}
    assert manifest["compiler"].startswith("zig ")


def test_the_flags_of_a_manifest_are_without_the_paths_of_this_machine(tmp_path: Path) -> None:
    source = tmp_path / "it's (a) -march=armv9-a folder"
    words = ["c++", f"-I{source}/include", "-O3", "-DA=two words", "-o", f"{source}/a.o", "-c", "a.cpp"]
    header = tmp_path / "work" / "cmake_pch.hxx"
    for option in ("-include-pch", "-include"):
        words[1:1] = ["-Xclang", option, "-Xclang", str(header)]
    words.insert(1, "-Winvalid-pch")
    files = {source / "a.cpp": shlex.join(words), header.with_suffix(".hxx.cxx"): "c++ -O3"}
    commands = tmp_path / "compile_commands.json"
    commands.write_text(json.dumps([{"command": line, "file": str(file)} for file, line in files.items()]))
    assert manifests.compiler_flags(commands, source) == {"a.cpp": "-O3 '-DA=two words'"}


def test_unchanged_sources_are_not_compiled_again(checkout: Checkout) -> None:
    first, second = build_engine(TARGET), build_engine(TARGET)
    assert (first.cached, second.cached) == (False, True)
    assert first.engine == second.engine
    assert checkout.count() == 1


def test_a_target_that_compiles_like_another_is_only_checked(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = []

    def note(engine: Path, target: Target, _: object) -> dict[str, object]:
        tested.append((engine.read_bytes() != b"", target.name))
        return {"how": f"as {target.name}"}

    monkeypatch.setattr(building, "self_test", note)
    first = build_engine(TARGET)
    second = build_engine(replace(TARGET, name="mine", description="my own", qemu_cpu="max"))
    assert (first.compiled, second.compiled, second.cached) == (True, False, False)
    assert checkout.count() == 1
    assert second.engine != first.engine
    assert tested == [(True, "desk"), (True, "mine")]
    one, other = (json.loads(build.manifest.read_text()) for build in (first, second))
    assert (one["target"], other["target"]) == ("desk", "mine")
    assert other["self_test"] == {"how": "as mine"}
    same = ("sha256", "flags", "sources", "compiler", "cmake", "ninja", "compiled_for", "seconds")
    assert {key: one[key] for key in same} == {key: other[key] for key in same}


def test_a_target_that_compiles_like_another_has_gates_of_its_own(checkout: Checkout) -> None:
    build_engine(TARGET)
    older = Target(name="older", description="", architecture=host_architecture(), glibc="2.999", cpu=None)
    strict = replace(older, architecture="aarch64" if host_architecture() == "x86_64" else "x86_64")
    assert build_engine(older).compiled is False
    with pytest.raises(TargetMismatchError):
        build_engine(strict)
    assert checkout.count() == 2, "another architecture is another program"


def test_an_engine_for_the_ablation_is_another_program(checkout: Checkout) -> None:
    plain, ablation = build_engine(TARGET), build_engine(TARGET, ablation=True)
    assert ablation.compiled
    assert ablation.engine != plain.engine
    assert "-DMPE_ABLATION=ON" in (ablation.engine.parents[1] / "build.log").read_text()
    records = [json.loads(build.manifest.read_text()) for build in (plain, ablation)]
    assert [record["ablation"] for record in records] == [False, True]


def test_targets_with_another_core_or_a_newer_c_library_share_the_program(checkout: Checkout) -> None:
    build_engine(TARGET)
    mine = replace(TARGET, name="mine", cpu="cortex-a55", glibc="2.998", features=("neon",))
    build = build_engine(mine)
    assert (build.compiled, build.cached) == (False, False)
    assert checkout.count() == 1


def test_a_c_library_older_than_that_of_all_known_targets_needs_another_program(checkout: Checkout) -> None:
    build_engine(TARGET)
    old = replace(TARGET, name="old", glibc="2.9")
    with pytest.raises(TargetMismatchError, match=r"old has 2\.9"):  # what the stand-in "compiles" is newer
        build_engine(old)
    assert checkout.count() == 2


def test_a_program_is_compiled_for_the_oldest_c_library_of_the_known_targets() -> None:
    versions = {
        name: shared_target(load_target(name)).glibc for name in ("pi4", "jetson-orin", "jetson-nano")
    }
    assert set(versions.values()) == {"2.27"}
    old = replace(load_target("pi4"), name="old", glibc="2.9")
    assert shared_target(old).glibc == "2.9"


def test_a_damaged_program_is_compiled_again(checkout: Checkout) -> None:
    first = build_engine(TARGET)
    (program,) = (checkout.folder / "cache" / "build" / "programs").glob("*/*/mpe")
    program.write_bytes(b"half a file")
    shutil.rmtree(first.engine.parent)
    assert build_engine(TARGET).compiled
    assert checkout.count() == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_build_that_is_killed_leaves_nothing_half_done(checkout: Checkout, number: signal.Signals) -> None:
    started = checkout.folder / "started"
    # As Ninja does it, the compiler is in a process group of its own.
    body = (
        f'echo half >"$2/mpe"; setsid sh -c \'echo $$ >"{started}"; exec sleep 60\' & job=$!; '
        'trap "kill -TERM $job; exit 1" TERM; wait'
    )
    checkout.compile_with(body)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), ended_by_signals():
            build_engine(TARGET)
        os._exit(0)
    wait_until(started.is_file)
    os.kill(child, number)
    began = time.monotonic()
    os.waitpid(child, 0)
    assert time.monotonic() - began < 5
    compiler = Path("/proc", started.read_text().strip())
    wait_until(lambda: not compiler.exists() or " Z " in (compiler / "stat").read_text())
    checkout.compile_with(f'cp "{shutil.which("true")}" "$2/mpe"')
    build = build_engine(TARGET)
    assert build.compiled
    assert build.engine.stat().st_size > 100
    left = [path.name for path in (checkout.folder / "cache" / "build").rglob("*.tmp")]
    assert left == [], "what the killed one left was removed"


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never was")


def test_tests_are_no_part_of_the_program(checkout: Checkout) -> None:
    build_engine(TARGET)
    (checkout.folder / "engine" / "tests").mkdir()
    (checkout.folder / "engine" / "tests" / "new_test.cpp").write_text("int main() {}\n")
    assert build_engine(TARGET).cached


def test_changed_sources_are_compiled_and_the_old_build_is_found_again(checkout: Checkout) -> None:
    first = build_engine(TARGET)
    original = checkout.source.read_text()
    checkout.source.write_text("int main() { return 0; }\n")
    second = build_engine(TARGET)
    assert not second.cached
    assert second.engine != first.engine
    checkout.source.write_text(original)
    third = build_engine(TARGET)
    assert third.cached
    assert third.engine == first.engine


def test_a_damaged_build_is_made_again(checkout: Checkout) -> None:
    first = build_engine(TARGET)
    first.engine.write_bytes(b"half a file")
    second = build_engine(TARGET)
    assert not second.cached
    assert second.engine.stat().st_size > 100


def test_only_a_few_builds_are_kept_and_those_of_the_last_day(checkout: Checkout) -> None:
    builds: list[Path] = []

    def build_one() -> None:
        checkout.source.write_text(f"int main() {{ return {len(builds)}; }}\n")
        builds.append(build_engine(TARGET).engine)

    for _ in range(8):
        build_one()
    assert all(engine.exists() for engine in builds)
    for index, engine in enumerate(builds[:6]):
        used = time.time() - 25 * 3600 + index
        os.utime(engine.parent, (used, used))
    build_one()
    assert [index for index, engine in enumerate(builds) if engine.exists()] == [4, 5, 6, 7, 8]


def test_a_failing_compiler_is_quoted_and_nothing_is_kept(checkout: Checkout) -> None:
    checkout.compile_with("echo FAILED: mpe.o; echo 'mpe.cpp:1: error: expected a type'; exit 1")
    with pytest.raises(BuildError) as caught:
        build_engine(TARGET)
    assert "ninja failed with status 1" in str(caught.value)
    assert "mpe.cpp:1: error: expected a type" in str(caught.value)
    log = checkout.folder / "cache" / "build" / "desk-zig" / "build.log"
    assert str(log) in caught.value.hint
    assert "expected a type" in log.read_text()
    assert not list(log.parent.glob("*/manifest.json"))


def test_a_compiler_that_fails_on_a_full_disk_is_told_from_others(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.compile_with("echo Unknown extension; exit 1")
    with pytest.raises(BuildError) as caught:
        build_engine(TARGET)
    assert "MB are free" not in caught.value.hint
    usage = shutil.disk_usage(checkout.folder)._replace(free=300_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match="Unknown extension") as caught:
        build_engine(TARGET)
    assert "Only 0 MB are free in " in caught.value.hint
    assert "set HARNESS_CACHE to another folder" in caught.value.hint


def test_a_program_that_does_not_fit_the_target_is_not_kept(checkout: Checkout) -> None:
    old = Target(name="old", description="", architecture=host_architecture(), glibc="2.0", libstdcxx="1")
    with pytest.raises(TargetMismatchError):
        build_engine(old)
    assert not list((checkout.folder / "cache").glob("build/*/*/manifest.json"))


def test_a_build_that_fails_its_self_test_is_not_kept(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, object]:
        raise TargetMismatchError("illegal instruction")

    monkeypatch.setattr(building, "self_test", fail)
    with pytest.raises(TargetMismatchError, match="illegal instruction"):
        build_engine(TARGET)
    assert not list((checkout.folder / "cache").glob("build/*/????????????????/manifest.json"))


def test_the_self_test_is_made_up_for_once_there_is_an_emulator(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(building, "find_emulator", lambda _: None)
        without.setattr(building, "emulator_missing", lambda _: ["qemu-user"])
        first = build_engine(TARGET)
    assert json.loads(first.manifest.read_text())["self_test"] is None
    second = build_engine(TARGET)
    assert second.cached
    assert json.loads(second.manifest.read_text())["self_test"] == {"how": "not at all"}


def test_two_builds_at_once_compile_once(checkout: Checkout) -> None:
    checkout.compile_with(f'cp "{shutil.which("true")}" "$2/mpe"', seconds=0.3)
    results = []
    threads = [threading.Thread(target=lambda: results.append(build_engine(TARGET))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.cached for result in results) == [False, True]
    assert checkout.count() == 1


def test_an_unknown_toolchain_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown toolchain zog: did you mean zig"):
        build_engine(TARGET, toolchain="zog")


def test_flags_make_a_build_of_their_own(checkout: Checkout) -> None:
    plain = build_engine(TARGET)
    other = build_engine(TARGET, flags="-DMARKER='two words'")
    assert other.engine != plain.engine
    assert json.loads(other.manifest.read_text())["extra_flags"] == "'-DMARKER=two words'"


def test_flags_that_are_no_words_are_refused(checkout: Checkout) -> None:
    with pytest.raises(ConfigurationError, match="the compiler flags it's: No closing quotation"):
        build_engine(TARGET, flags="it's")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("${HOME}", r"\$"),
        ("[red]", r"\[ \]"),
        ("red]", r"\]"),
        ("50%", "%"),
        ("a;b", ";"),
        ("a\nb", r"\\n"),
        ("C:\\", r": \\"),
        ("\x1b", r"\\x1b"),
    ],
)
def test_a_cache_whose_name_cmake_would_misread_is_refused(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(checkout.folder / name))
    with pytest.raises(BuildError, match=f"a build cannot have {shown} in its paths\n.*HARNESS_CACHE"):
        build_engine(TARGET)


def test_a_cache_may_have_any_other_name(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "-rf it's `touch executed` & ü (x) { } ^ , = @ ! #~"
    monkeypatch.setenv("HARNESS_CACHE", str(checkout.folder / name))
    assert build_engine(TARGET).engine.is_file()


def test_a_cache_may_be_relative_to_where_harness_runs(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wrong := checkout.folder / "$(touch executed)").mkdir()
    monkeypatch.setenv("HARNESS_CACHE", "relative")
    monkeypatch.chdir(wrong)
    with pytest.raises(BuildError, match=r"executed\)/relative/build/desk-zig: a build cannot have \$"):
        build_engine(TARGET)
    monkeypatch.chdir(checkout.folder)
    engine = build_engine(TARGET).engine
    assert engine.is_absolute()
    assert engine.is_relative_to(checkout.folder / "relative")


@pytest.mark.parametrize("program", ["cmake", "ninja"])
def test_a_tool_whose_path_cmake_would_misread_is_refused(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    folder = checkout.folder / "a;b"
    places = {"cmake": checkout.folder, "ninja": checkout.folder} | {program: folder}
    monkeypatch.setattr(toolchains, "build_tool", lambda name: places[name] / name)
    with pytest.raises(BuildError, match=f"a build cannot have ; in its paths\n.*Install {program} below"):
        build_engine(TARGET)


def test_a_compiler_or_a_sysroot_whose_path_cmake_would_misread_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = load_toolchain("gcc")
    with pytest.raises(BuildError, match=r"a build cannot have \$ in its paths\n.*sysroot"):
        gcc.definitions(replace(TARGET, sysroot="/opt/$(touch executed)"))
    program = tmp_path / "a;b" / "g++"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(BuildError, match=r"a build cannot have ; in its paths\n.*Install the compiler"):
        gcc.definitions(TARGET)


def test_a_cache_that_cannot_be_written_is_said(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(checkout.source / "below-a-file"))
    with pytest.raises(BuildError, match="HARNESS_CACHE"):
        build_engine(TARGET)
