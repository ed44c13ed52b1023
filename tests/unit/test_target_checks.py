"""The programs that show whether a target's board computes as it should, on boards of the tests' making."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from fake_boards import FakeBoard

import harness.boards.inventory
from harness.boards.base import MOST_OUTPUT, Completed, RunTimeoutError
from harness.cli import main
from harness.config.targets import Target, load_target
from harness.doctor import checks, requirements, target
from harness.doctor.checks import Check, WrongOutputError, read_checks, run_check
from harness.doctor.requirements import DoesNotApplyError, Requirement, look
from harness.errors import BoardUnreachableError, BuildError, HarnessError, TargetMismatchError
from harness.resources import resource
from harness.sdk.layout import Sdk
from harness.sdk.wheel import LIBRARIES

HALVES = "c: 2.240234, d: 1.360352\nd: 1.800781\n"
HELLO = "Hello from TensorFlow C library version 2.21.0\n"


class Desk(FakeBoard):
    """A board with given output for each program."""

    def __init__(self) -> None:
        super().__init__("desk")
        self.answers: dict[str, Completed | HarnessError] = {
            "half_precision": Completed(status=0, stdout=HALVES, stderr=""),
            "tensorflow": Completed(status=0, stdout=HELLO, stderr="a remark\n"),
            "uname": Completed(status=0, stdout="Linux 6.1 aarch64\n", stderr=""),
        }
        self.ran: list[tuple[list[str], dict[str, str]]] = []
        self.connected = False
        self.unreachable = False

    def __enter__(self) -> Self:
        if self.unreachable:
            raise BoardUnreachableError("desk (pi@192.0.2.7:22): connecting: no route to host")
        self.connected = True
        return self

    def __exit__(self, *_: object) -> None:
        self.connected = False

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        assert self.connected
        return {name: f"/there/{number}/{path.name}" for number, (name, path) in enumerate(files.items())}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        assert self.connected
        self.ran.append((list(argv), dict(environment or {})))
        answer = self.answers[Path(argv[0]).name]
        if isinstance(answer, HarnessError):
            raise answer
        return answer


def sdk_of(_: Target) -> Sdk:
    return Sdk(
        folder=Path("/sdk"),
        provider="wheel",
        version="2.21.0",
        files={},
        glibc_needed="2.27",
        seconds=0.1,
        cached=True,
    )


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The board of every target; programs and SDK are there without being built."""
    made = Desk()
    monkeypatch.setattr(harness.boards.inventory, "open_board", lambda *_: made)
    monkeypatch.setattr(checks, "build_check", lambda check, _: Path("/built", check.program))
    monkeypatch.setattr(checks, "tensorflow_sdk", sdk_of)
    monkeypatch.setattr(target, "tensorflow_sdk", sdk_of)
    monkeypatch.setattr(target, "_built", lambda check, _: "built")
    rows = [
        Requirement(name=name, purpose="does things", find=lambda: "here", hint="get it")
        for name in ("compiler", "Docker Engine", "binfmt for arm64")
    ]
    monkeypatch.setattr(requirements, "REQUIREMENTS", tuple(rows))
    return made


def check_named(name: str) -> Check:
    return next(check for check in read_checks() if check.name == name)


# --- the data


def test_every_check_has_its_source_beside_it() -> None:
    found = read_checks()
    assert [check.name for check in found] == ["half precision", "TensorFlow"]
    assert all(resource("toolchains", "checks", check.source).is_file() for check in found)


def test_the_expected_numbers_are_those_of_binary16() -> None:
    a, b = np.float32(1.8), np.float32(0.44)
    c, d = np.float16(a + b), np.float16(a - b)
    text = f"c: {c:.6f}, d: {d:.6f}\nd: {np.float16(d + np.float16(b)):.6f}\n"
    assert check_named("half precision").expected(load_target("pi4")) == text == HALVES


def test_the_expected_version_is_the_pinned_one() -> None:
    assert check_named("TensorFlow").expected(load_target("pi4")) == HELLO


# --- running


def test_a_program_with_libraries_is_told_where_each_lies(board: Desk) -> None:
    with board:
        assert run_check(check_named("TensorFlow"), board.target, board) == HELLO
    assert board.ran == [(["/there/0/tensorflow"], {"LD_LIBRARY_PATH": "/there/1:/there/2"})]
    assert len(LIBRARIES) == 2


def test_a_program_without_libraries_is_called_as_it_is(board: Desk) -> None:
    with board:
        run_check(check_named("half precision"), board.target, board)
    assert board.ran == [(["/there/0/half_precision"], {})]


def test_other_numbers_are_shown_beside_those_expected(board: Desk) -> None:
    other = HALVES.replace("1.360352", "1.359375")
    board.answers["half_precision"] = Completed(status=0, stdout=other, stderr="")
    with board, pytest.raises(WrongOutputError) as caught:
        run_check(check_named("half precision"), board.target, board)
    assert "d: 1.359375" in caught.value.message
    assert "d: 1.360352" in caught.value.message
    assert caught.value.printed == other


@pytest.mark.parametrize(
    ("status", "stderr", "said"),
    [
        (-4, "", "was killed by SIGILL on desk"),
        (-77, "", "was killed by signal 77"),
        (127, "a\nlibstdc++.so.6: cannot open\n", r"ended with status 127 \(libstdc\+\+.so.6: cannot open\)"),
    ],
)
def test_a_program_that_does_not_end_well(board: Desk, status: int, stderr: str, said: str) -> None:
    board.answers["tensorflow"] = Completed(status=status, stdout=HELLO, stderr=stderr)
    with board, pytest.raises(TargetMismatchError, match=said) as caught:
        run_check(check_named("TensorFlow"), board.target, board)
    assert "libstdc++6" in caught.value.hint


def test_a_program_that_hangs_does_not_fit(board: Desk) -> None:
    board.answers["half_precision"] = RunTimeoutError(["half_precision"], "desk", 300)
    with board, pytest.raises(TargetMismatchError, match="did not end within"):
        run_check(check_named("half precision"), board.target, board)


# --- looking


def test_a_requirement_with_an_unmet_need_is_skipped() -> None:
    def find() -> str:
        raise AssertionError("looked for")

    requirement = Requirement(name="a", purpose="does", find=find, hint="get a", needs=("b", "c"))
    finding = look(requirement, {"c"})
    assert (finding.ok, finding.reason, finding.hint, finding.exit_status) == (
        False,
        "not checked: needs b",
        "",
        0,
    )


@pytest.mark.parametrize(
    ("error", "hint", "status"),
    [
        (BuildError("no wheel", hint="try again"), "try again", 3),
        (BoardUnreachableError("no wheel"), "get a", 5),
        (DoesNotApplyError("no wheel"), "", 0),
    ],
)
def test_an_error_says_why(error: HarnessError, hint: str, status: int) -> None:
    def find() -> str:
        raise error

    finding = look(Requirement(name="a", purpose="does", find=find, hint="get a"))
    assert (finding.ok, finding.reason, finding.hint, finding.exit_status) == (
        False,
        "no wheel",
        hint,
        status,
    )


def test_a_missing_requirement_has_the_status_of_a_build_error() -> None:
    finding = look(Requirement(name="a", purpose="does", find=lambda: None, hint="get a"))
    assert (finding.reason, finding.hint, finding.exit_status) == ("missing; it does", "get a", 3)


# --- the command


def examined(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    (row,) = json.loads(capsys.readouterr().out)["targets"]
    return {finding["name"]: finding for finding in row["findings"]}


def test_all_is_well(board: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "pi"]) == 0
    out = capsys.readouterr().out
    assert "pi4: Raspberry Pi 4" in out
    assert "✓ board: desk answers: Linux 6.1 aarch64" in out
    assert "✓ half precision: c: 2.240234, d: 1.360352\n    d: 1.800781\n" in out
    assert "✓ TensorFlow: Hello from TensorFlow C library version 2.21.0\n" in out
    assert "✕" not in out
    assert not board.connected


def test_a_real_board_needs_no_docker(board: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--target", "pi4", "--json"])
    assert list(examined(capsys)) == [
        "compiler",
        "board",
        "libtensorflow SDK",
        "half_precision.c",
        "half precision",
        "tensorflow.c",
        "TensorFlow",
    ]


def test_a_wrong_result_is_status_4_and_the_others_are_done(
    board: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    board.answers["half_precision"] = Completed(status=0, stdout="c: 0\n", stderr="")
    assert main(["doctor", "--target", "pi4", "--json"]) == 4
    found = examined(capsys)
    assert not found["half precision"]["ok"]
    assert found["half precision"]["expected"] == HALVES
    assert found["half precision"]["printed"] == "c: 0\n"
    assert found["half precision"]["hint"]
    assert found["TensorFlow"]["printed"] == HELLO
    assert not board.connected


def test_a_board_that_does_not_answer_is_status_5_and_programs_are_still_built(
    board: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    board.unreachable = True
    assert main(["doctor", "--target", "pi4"]) == 5
    out = capsys.readouterr().out
    assert (
        "✕ board: desk (pi@192.0.2.7:22): connecting: no route to host\n    Check that it is switched on"
        in out
    )
    assert "✓ half_precision.c: built" in out
    assert "- half precision: not checked: needs board" in out


def test_a_board_of_another_architecture_is_not_the_target(
    board: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    board.answers["uname"] = Completed(status=0, stdout="Linux 6.1 armv7l\n", stderr="")
    assert main(["doctor", "--target", "pi4"]) == 4
    out = capsys.readouterr().out
    assert "✕ board: desk reports Linux 6.1 armv7l, but pi4 is aarch64\n    Check `target`" in out
    assert "- half precision: not checked: needs board" in out
    assert not board.connected


def test_a_board_that_goes_in_between_is_status_5(board: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    board.answers["half_precision"] = BoardUnreachableError("desk: running half_precision: lost")
    assert main(["doctor", "--target", "pi4"]) == 5
    assert "✕ half precision: desk: running half_precision: lost" in capsys.readouterr().out


def test_without_docker_it_is_status_3_and_the_hint_is_shown(
    board: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    board.emulated = True
    rows = [
        Requirement(name=name, purpose="does things", find=lambda: None, hint=f"get {name}")
        if name == "Docker Engine"
        else Requirement(name=name, purpose="does things", find=lambda: "here", hint="")
        for name in ("compiler", "Docker Engine", "binfmt for arm64")
    ]
    monkeypatch.setattr(requirements, "REQUIREMENTS", tuple(rows))
    monkeypatch.setattr(target, "_emulated_core", lambda _: "QEMU")
    assert main(["doctor", "--target", "pi4"]) == 3
    out = capsys.readouterr().out
    assert "✕ Docker Engine: missing; it does things\n    get Docker Engine" in out
    assert "- image: not checked: needs Docker Engine" in out
    assert "- board: not checked: needs image" in out
    assert "✓ tensorflow.c: built" in out


def test_a_target_without_tensorflow_is_well_without_it(
    board: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text('description: mine\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n')
    assert main(["doctor", "--target", str(file)]) == 0
    out = capsys.readouterr().out
    assert "- libtensorflow SDK: the target mine has no TensorFlow pinned" in out
    assert "- TensorFlow: not checked" in out
    assert "✓ half precision" in out


def test_several_targets_are_all_examined(board: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "pi4", "--target", "pi", "--target", "jetson", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["targets"]
    assert [(row["target"], row["board"], row["emulated"], row["ok"]) for row in rows] == [
        ("pi4", "desk", False, True),
        ("jetson-nano", "desk", False, True),
    ]


def test_boards_without_a_target_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--boards", "boards.yaml"]) == 2
    assert "no effect without --target" in capsys.readouterr().err


# --- QEMU


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An emulator that knows two cores, under the name that binfmt_misc has for it."""
    program = tmp_path / "qemu-aarch64-static"
    program.write_text(
        '#!/bin/sh\ncase $1 in --version) echo "qemu-aarch64 version 7.2";; -cpu) '
        "echo Available CPUs:; echo '  cortex-a53'; echo '  cortex-a72';; esac\n"
    )
    program.chmod(0o755)
    link = tmp_path / "aarch64-binfmt-P"
    link.symlink_to(program)
    monkeypatch.setattr(target, "host_architecture", lambda: "x86_64")
    monkeypatch.setattr(target, "arm64_interpreter", lambda: str(link))
    return link


def test_the_emulator_is_asked_whether_it_knows_the_core(emulator: Path) -> None:
    assert target._emulated_core(load_target("pi4")) == "qemu-aarch64 version 7.2 emulates cortex-a72"
    with pytest.raises(HarnessError, match=r"version 7\.2 does not support the core cortex-a76"):
        target._emulated_core(load_target("pi5"))


def test_an_emulator_out_of_a_container_cannot_be_asked(emulator: Path) -> None:
    emulator.unlink()
    assert "cannot be checked" in target._emulated_core(load_target("pi4"))


def test_an_arm64_machine_emulates_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "host_architecture", lambda: "aarch64")
    assert "instead of cortex-a72" in target._emulated_core(load_target("pi4"))
