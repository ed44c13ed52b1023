"""`harness doctor --target`: programs built for a target, run on its core, on this machine and over SSH."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.boards.emulated import EmulatedBoard
from harness.build.elf import read_needs, version_key
from harness.build.emulator import emulator_missing, find_emulator
from harness.cli import main
from harness.config.targets import load_target
from harness.doctor.checks import Check, build_check, read_checks, run_check
from harness.errors import TargetMismatchError
from harness.images.availability import emulation_missing
from harness.resources import cache_directory
from harness.sdk.wheel import LIBRARIES

pytestmark = pytest.mark.engine

HALVES = "c: 2.240234, d: 1.360352\nd: 1.800781\n"
HELLO = "Hello from TensorFlow C library version 2.21.0\n"


def check_named(name: str) -> Check:
    return next(check for check in read_checks() if check.name == name)


def findings(output: str) -> dict[str, dict[str, Any]]:
    (row,) = json.loads(output)["targets"]
    return {finding["name"]: finding for finding in row["findings"]}


@pytest.mark.parametrize("name", ["jetson", "pi4", "pi5"])
def test_halves_are_the_same_on_cores_with_and_without_their_arithmetic(name: str) -> None:
    target = load_target(name)
    program = build_check(check_named("half precision"), target)
    needs = read_needs(program)
    assert needs.architecture == "aarch64"
    assert version_key(needs.glibc) <= version_key(str(target.glibc))
    emulator = find_emulator(target)
    if emulator is None:
        pytest.skip(f"needs {', '.join(emulator_missing(target))}: `harness doctor --install`")
    done = subprocess.run([*emulator.prefix, str(program)], capture_output=True, text=True, check=False)
    if "version `GLIBC_" in done.stderr:
        pytest.skip(f"this machine's glibc for arm64 is too old: {done.stderr.strip()}")
    assert (done.stdout, done.returncode) == (HALVES, 0)


def test_a_program_is_built_once_and_whole() -> None:
    check, target = check_named("half precision"), load_target("host")
    first = build_check(check, target)
    made = first.stat().st_mtime_ns
    assert build_check(check, target) == first
    assert first.stat().st_mtime_ns == made
    folder = cache_directory() / "checks" / "host" / "half_precision"
    assert {path.name for path in folder.iterdir()} == {"lock", first.parent.name}


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "host", "--json"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["half precision"]["printed"] == HALVES
    assert found["TensorFlow"]["printed"] == HELLO
    assert "Docker Engine" not in found


def test_a_device_that_does_not_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:  # bound and not listening: connections are refused
        probe.bind(("127.0.0.1", 0))
        file, hosts = tmp_path / "boards.yaml", tmp_path / "known_hosts"
        hosts.write_text("")
        file.write_text(
            f"boards: [{{name: shelf, target: pi5, host: 127.0.0.1, port: {probe.getsockname()[1]}, "
            f"user: nobody, known_hosts: {hosts}}}]\n"
        )
        assert main(["doctor", "--target", "pi5", "--boards", str(file), "--json"]) == 5
    found = findings(capsys.readouterr().out)
    assert not found["board"]["ok"]
    assert "shelf" in found["board"]["reason"]
    assert found["half_precision.c"]["ok"]
    assert found["half precision"]["skipped"]


@pytest.mark.emulation
def test_an_emulated_board(capsys: pytest.CaptureFixture[str]) -> None:
    """Both programs over SSH; libtensorflow takes two minutes to be sent to an emulated server."""
    if missing := emulation_missing(load_target("pi4")):
        pytest.skip("; ".join(missing))
    assert main(["doctor", "--target", "pi4", "--json"]) == 0
    found = findings(capsys.readouterr().out)
    assert found["half precision"]["printed"] == HALVES
    assert found["TensorFlow"]["printed"] == HELLO
    assert found["QEMU"]["found"].endswith("emulates cortex-a72")
    assert all(finding["ok"] for finding in found.values())
    assert LIBRARIES[0] in read_needs(build_check(check_named("TensorFlow"), load_target("pi4"))).libraries


@pytest.mark.emulation
def test_a_program_that_lacks_a_library_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """libtensorflow's program without the libraries beside it: the board's loader says which."""
    target = load_target("pi4")
    if missing := emulation_missing(target):
        pytest.skip("; ".join(missing))
    monkeypatch.setattr("harness.doctor.checks.LIBRARIES", ())
    with (
        EmulatedBoard(target) as board,
        pytest.raises(TargetMismatchError, match=r"ended with status 127 \(.*libtensorflow_cc\.so\.2"),
    ):
        run_check(check_named("TensorFlow"), target, board)
