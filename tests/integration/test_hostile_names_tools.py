"""The same names in what is no sweep: predictions, models, power commands, jump hosts; and long ones."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from arm64_board import TARGET, running_board
from file_server import CONTENT, SHA256
from file_server import Server as FileServer
from file_server import server as file_server
from hostile_names import CONTROL, LINE, PATH, Place, harness, hostile_place, nothing_was_executed
from ssh_server import Server, running_server
from tiny_sweep import write_tiny_sweep

from harness import cli
from harness.build import engine as building
from harness.build import manifest as manifests
from harness.build import toolchain as toolchains
from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.models import registry
from harness.prediction.llvm import find_llvm
from harness.qemu.profiler import profiling_missing
from harness.resources import resource
from harness.runtimes.engine import HostEngine

__all__ = ["file_server"]

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

# A target's name is a part of the paths of its builds.
BUILT = "-rf it's (touch executed) `touch executed` ü & # ~"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_board(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return hostile_place(server, tmp_path_factory.mktemp("names"))


def rewritten(place: Place, **changes: object) -> str:
    """A boards file whose one board has these keys as well, in a folder and under a name of that kind."""
    document = json.loads(place.boards.read_text())
    document["boards"][0] |= changes
    file = place.folder / f"{PATH}.changed.yaml"
    file.write_text(json.dumps(document))
    return str(file)


def test_a_network_is_predicted_for_a_target_of_ones_own(place: Place, server: Server) -> None:
    if missing := [*profiling_missing(), *([] if find_llvm() else ["llvm-mca"])]:
        pytest.skip("; ".join(missing))
    text = resource("toolchains", "targets", f"{TARGET}.yaml").read_text().replace("aliases: [pi]\n", "")
    (place.folder / f"{BUILT}.yaml").write_text(text)
    builds = Path(place.environment["HARNESS_CACHE"]) / "build"
    shutil.copytree(builds / f"{TARGET}-zig", builds / f"{BUILT}-zig")
    words = ["predict", f"--cfg={PATH}.cfg", f"--weights={PATH}.weights", f"--target={BUILT}.yaml"]
    (row,) = json.loads(harness(place, *words, "--json").stdout)["predictions"]
    assert row["target"] == BUILT
    assert [layer["index"] for layer in row["layers"]] == [0, 1, 2, 3]
    assert nothing_was_executed(place, server)


def test_models_are_listed_fetched_and_made_up(
    place: Place,
    server: Server,
    file_server: FileServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    published = {"url": file_server.url, "bytes": len(CONTENT), "sha256": SHA256}
    model = {"name": "m", "description": "a model", "cfg": f"{PATH}.cfg", "weights": f"{PATH}.bin"}
    listed = place.folder / f"{PATH}.models.yaml"
    listed.write_text(json.dumps({"models": [model | {"published": published}]}))
    monkeypatch.setattr(registry, "resource", lambda *_: listed)
    monkeypatch.chdir(place.folder)
    assert cli.main(["models", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["models"]
    assert (row["cfg"], row["present"]) == (str(place.folder / f"{PATH}.cfg"), False)
    into = place.folder / f"{PATH} to" / PATH
    for words in (["fetch", "m", "--to", str(into)], ["fetch", "m"], ["fetch", "m"], ["list"]):
        assert cli.main(["models", *words]) == 0
        assert not CONTROL.search("".join(capsys.readouterr()))
    for fetched in (into, place.folder):
        assert (fetched / f"{PATH}.bin").read_bytes() == CONTENT
    random = f"{PATH} random.weights"
    assert cli.main(["models", "random", f"./{PATH}.cfg", f"./{random}"]) == 0
    assert not CONTROL.search("".join(capsys.readouterr()))
    assert (place.folder / random).stat().st_size == (place.folder / f"{PATH}.weights").stat().st_size
    for url in (f"http://127.0.0.1:1/{LINE}", "http://127.0.0.1:1/ü", LINE):
        assert cli.main(["models", "fetch", "m", "--to", "elsewhere", f"--url={url}"]) == 2
        assert "not an http or https address" in capsys.readouterr().err
    assert nothing_was_executed(place, server)


def test_a_power_command_gets_its_words_as_they_are(place: Place, server: Server) -> None:
    program = place.folder / f"{PATH} power"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >said\n')
    program.chmod(stat.S_IRWXU)
    boards = rewritten(place, power=[str(program), LINE, PATH, "", f"{LINE}{{action}}{{action}}"])
    shown = harness(place, "boards", "power", "--boards", boards, "--", LINE, "cycle").stderr
    assert not CONTROL.search(shown)
    said = (place.folder / "said").read_text().split("\0")
    assert said == [LINE, PATH, "", f"{LINE}cyclecycle", ""]
    for command, reason in (
        ([PATH, "{action}"], "cannot be started"),
        (["printf", f"{LINE}\x1b[31m%b", "{action}", "\\0200"], None),
        (["sh", "-c", "printf '%s' \"$1\" >&2; exit {action}", LINE, PATH], "failed with status 2"),
    ):
        boards = rewritten(place, power=command)
        status = 0 if reason is None else 1
        shown = harness(place, "boards", "power", "--boards", boards, "--", LINE, "on", status=status).stderr
        assert reason is None or reason in shown
        assert not CONTROL.search(shown)
    assert nothing_was_executed(place, server)


def test_a_board_without_a_place_is_not_unlocked(place: Place, server: Server) -> None:
    words = ["boards", "unlock", "--boards", str(place.boards), "--"]
    shown = harness(place, *words, LINE, status=2).stderr
    assert f"the board {LINE} is not a labgrid place" in shown
    assert "has no board" in (unknown := harness(place, *words, PATH, status=2).stderr)
    assert not CONTROL.search(shown + unknown)
    assert nothing_was_executed(place, server)


def test_a_board_behind_a_jump_host(
    place: Place, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_server(tmp_path_factory.mktemp("gate")) as gate:
        key, hosts = (place.folder / f"{PATH}.gate.{name}" for name in ("key", "hosts"))
        shutil.copy(gate.folder / "user", key)
        public = (gate.folder / "host.pub").read_text()
        hosts.write_text(f"{gate.address.known_as} {public}")
        address = {"host": gate.address.host, "port": gate.address.port, "user": gate.address.user}
        jump = address | {"key": key.name, "known_hosts": hosts.name}
        boards = rewritten(place, jump=jump)
        row = json.loads(harness(place, "boards", "--boards", boards, "--json").stdout)["boards"][0]
        assert (row["name"], row["status"]) == (LINE, "answers")
        assert f" through {gate.address.user}@" in row["address"]
        for changes in (
            {"jump": jump | {"user": "$(touch${IFS}executed)"}},
            {"jump": jump | {"host": "`touch${IFS}executed`"}},
            {"jump": jump, "host": "$(touch${IFS}executed);'\"ü"},
            {"jump": jump, "user": "|touch${IFS}executed;'\"ü"},
        ):
            boards = rewritten(place, **changes)
            listed = json.loads(harness(place, "boards", "--boards", boards, "--json", status=5).stdout)
            assert listed["boards"][0]["status"] == "does not answer"
        assert nothing_was_executed(place, server)
        assert not [*gate.folder.rglob("executed")]


CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(mpe LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(${MPE_EXTRA_FLAGS})
file(GLOB sources src/*.cpp)
add_executable(mpe ${sources})
target_include_directories(mpe PRIVATE include)
"""
SOURCES = {
    "CMakeLists.txt": CMAKE,
    "include/said.h": "void say(const char* text);\n",
    "src/said.cpp": '#include "said.h"\n#include <cstdio>\nvoid say(const char* text) { std::puts(text); }\n',
    "src/main.cpp": '#include "said.h"\nint main() { say(TEXT); }\n',
}


def test_a_build_ends_where_every_folder_has_such_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler, CMake and Ninja are real, and there is little to compile."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    tree, here, home = (tmp_path / f"{name} {PATH}" for name in ("tree", "here", "home"))
    for name, text in SOURCES.items():
        (tree / "engine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "engine" / name).write_text(text)
    shutil.copytree(resource("toolchains"), tree / "toolchains")
    for folder in (here, home):
        folder.mkdir()
    for module in (manifests, toolchains):
        monkeypatch.setattr(module, "resource", tree.joinpath)
    monkeypatch.setattr(building, "self_test", lambda *_: {"how": "not at all"})
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / (BUILT + " { } , ^ = @ ! %s --")))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    flag = """'-DTEXT="it is $(touch executed) `touch executed` | &"'"""
    built = build_engine(load_target("host"), toolchain="gcc", flags=flag)
    said = subprocess.run([built.engine], capture_output=True, text=True, check=True).stdout
    assert said == "it is $(touch executed) `touch executed` | &\n"
    assert list(json.loads(built.manifest.read_text())["flags"]) == ["src/main.cpp", "src/said.cpp"]
    assert not list(tmp_path.rglob("executed"))


LONG = "n" * 300


@pytest.mark.parametrize(
    "words",
    [
        f"eval --cfg {LONG} --weights W --dataset data",
        f"eval --cfg C --weights {LONG} --dataset data",
        f"eval --cfg C --weights W --dataset {LONG}",
        f"eval --cfg C --weights W --dataset data --calibration {LONG}",
        f"calibrate --cfg C --weights W --dataset {LONG} --out out",
        f"calibrate --cfg C --weights W --dataset data --out {LONG}",
        f"calibrate --cfg C --weights W --dataset data --out {LONG}/out",
        f"detect --cfg C --weights W {LONG}",
        f"detect --cfg C --weights W --names {LONG} data/images/0.png",
        f"detect --cfg C --weights W --draw {LONG}.png data/images/0.png",
        f"predict --target pi4 --cfg C --weights {LONG}",
        f"models random {LONG} out",
        f"models random C {LONG}",
    ],
)
def test_too_long_names_are_refused(
    host_engine: HostEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
) -> None:
    write_tiny_sweep(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    files = {"C": "tiny.cfg", "W": "tiny.weights"}
    assert cli.main([files.get(word, word) for word in words.split()]) == 2
    shown = capsys.readouterr().err
    assert LONG in shown
    assert "File name too long" in shown
    assert "unexpected" not in shown
    assert not (tmp_path / "out").exists()
