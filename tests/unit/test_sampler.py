"""A program runs sampled, through the real script and each shell that is installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_boards import (
    HOSTILE,
    SHELLS,
    ShellBoard,
    bare,
    folder_of,
    jetson_nano,
    raspberry_pi,
    waiting,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.base import RunTimeoutError
from harness.boards.paths import BoardPaths
from harness.boards.sensors.sampler import Sample, parse_samples, sampled, take_samples
from harness.boards.sensors.tegrastats import TegraStats


@pytest.fixture(params=SHELLS)
def board(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellBoard:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return ShellBoard(request.param, tmp_path / "programs")


@pytest.fixture
def log(tmp_path: Path) -> str:
    folder = tmp_path / "logs"
    folder.mkdir()
    return str(folder / HOSTILE)


def test_clocks_temperatures_and_throttling_while_a_program_runs(
    board: ShellBoard, tmp_path: Path, log: str
) -> None:
    paths = raspberry_pi(tmp_path)
    root = folder_of(paths)
    program = (
        'await_samples "$1" 1; echo 0x20002 >"$2/bits"; '
        'echo 81000 >"$2/sys/class/thermal/thermal_zone0/temp"; '
        'await_samples "$1" $(($(samples "$1") + 2))'
    )
    argv = sampled(waiting(program, log, str(root)), log, paths, 0.2, 0)
    started = time.monotonic()
    assert board.run(argv, timeout=60).status == 0
    elapsed = time.monotonic() - started
    samples = take_samples(board, log, 1000)
    assert 3 <= len(samples) <= 1 + elapsed / 0.2
    assert samples[0] == Sample(
        uptime_seconds=1234.56,
        clocks_khz=(1_500_000,) * 4,
        temperatures=(48312,),
        throttled=0,
        coolers=(),
        rails=(),
    )
    assert (samples[-1].throttled, samples[-1].temperatures) == (0x20002, (81000,))
    assert not Path(log).exists()
    assert not list(Path.cwd().iterdir())  # nothing in a path was executed


def test_a_jetson_has_cooling_devices_and_power(board: ShellBoard, tmp_path: Path, log: str) -> None:
    program = waiting('await_samples "$1" 1', log)
    board.run(sampled(program, log, jetson_nano(tmp_path), 45, None), timeout=60)
    assert take_samples(board, log, 1000) == [
        Sample(
            uptime_seconds=99.0,
            clocks_khz=(710_400, 710_400, 710_400, None),
            temperatures=(43_000, 71_500, 100_000, -256_000),
            throttled=None,
            coolers=(3, 2, None),
            rails=(4_500_000, 2_000_000, 40_000, 250_000),
        )
    ]


def test_a_jetsons_tegrastats_is_read_and_ends(board: ShellBoard, tmp_path: Path, log: str) -> None:
    paths = replace(
        jetson_nano(tmp_path), tegrastats=str(folder_of(raspberry_pi(tmp_path)) / "bin/tegrastats")
    )
    line = "RAM 613/3964MB (lfb 634x4MB) CPU [2%@102] EMC_FREQ 7%@1600 CPU@40.5C POM_5V_IN 900/943"
    script = f'#!/bin/sh\n[ "$*" = "--interval 200" ] || exit\nwhile sleep 0.1; do echo "{line}"; done\n'
    write(Path(paths.tegrastats).parent, {"tegrastats": script})
    Path(paths.tegrastats).chmod(0o755)
    board.run(sampled(waiting('await_samples "$1" 6', log), log, paths, 0.2, None), timeout=60)
    shown = [sample.tegrastats for sample in take_samples(board, log, 1000) if sample.tegrastats]
    assert shown
    expected = TegraStats(memory_mhz=1600, temperatures={"CPU": 40_500}, rails={"POM_5V_IN": 900_000})
    assert all(stats == expected for stats in shown)
    assert nothing_left(paths.tegrastats)


def test_a_board_that_shows_nothing_gives_no_samples(board: ShellBoard, tmp_path: Path, log: str) -> None:
    program = waiting('await_samples "$1" 1', log)
    board.run(sampled(program, log, bare(tmp_path), 45, None), timeout=60)
    assert Path(log).read_text() == "- - - - - -\n"
    assert take_samples(board, log, 1000) == []


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_the_programs_status_and_output_stay(board: ShellBoard, log: str, status: int) -> None:
    words = [
        "sh",
        "-c",
        'printf "%s|" "$@"; echo "to standard error" >&2; exit "$0"',
        str(status),
        HOSTILE,
        "",
    ]
    result = board.run(sampled(words, log, BoardPaths(), 1, None), timeout=20)
    assert (result.status, result.stdout, result.stderr) == (status, f"{HOSTILE}||", "to standard error\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_death_by_signal_is_told_and_ends_the_sampler(
    board: ShellBoard, log: str, number: signal.Signals
) -> None:
    words = ["sh", "-c", f"ulimit -c 0; kill -{number.value} $$; sleep 60"]
    started = time.monotonic()
    result = board.run(sampled(words, log, BoardPaths(), 60, None), timeout=100)
    assert time.monotonic() - started < 50
    assert (result.status, result.stderr) == (128 + number, "")
    assert nothing_left(log)


def test_the_sampler_ends_with_the_program_and_leaves_nothing(board: ShellBoard, log: str) -> None:
    started = time.monotonic()
    assert board.run(sampled(["sleep", "0.3"], log, BoardPaths(), 60, None), timeout=100).status == 0
    assert time.monotonic() - started < 50  # it was not waited for the sampler's nap
    assert nothing_left(log)


def test_out_of_time_the_sampler_is_killed_with_the_program(board: ShellBoard, log: str) -> None:
    with pytest.raises(RunTimeoutError):
        board.run(sampled(["sleep", "60"], log, BoardPaths(), 0.1, None), timeout=1)
    assert nothing_left(log)


def test_the_sampler_ends_when_only_its_shell_is_killed(board: ShellBoard, log: str) -> None:
    path = f"{board.programs}:{os.environ['PATH']}"
    words = sampled(["sleep", "60"], log, BoardPaths(), 0.2, None)
    process = subprocess.Popen(words, env=os.environ | {"PATH": path}, start_new_session=True)
    try:
        wait_for(lambda: Path(log).is_file() and Path(log).stat().st_size > 0)
        process.kill()
        process.wait()
        assert nothing_left(log)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the program, which nobody told to end


def test_the_program_runs_without_a_writable_log(board: ShellBoard, tmp_path: Path) -> None:
    log = str(tmp_path / "nowhere" / "log")
    result = board.run(sampled(["echo", "done"], log, BoardPaths(), 1, None), timeout=20)
    assert (result.status, result.stdout, result.stderr) == (0, "done\n", "")
    assert take_samples(board, log, 1000) == []


def test_a_program_that_is_not_there_is_127(board: ShellBoard, log: str) -> None:
    result = board.run(sampled(["/nowhere/mpe"], log, BoardPaths(), 1, None), timeout=20)
    assert result.status == 127
    assert "/nowhere/mpe" in result.stderr


def test_a_program_reads_its_own_standard_input(board: ShellBoard, log: str) -> None:
    words = sampled([sys.executable, "-c", "print(input())"], log, BoardPaths(), 1, None)
    path = f"{board.programs}:{os.environ['PATH']}"
    output = subprocess.run(
        words, input=b"hello\n", capture_output=True, check=True, env=os.environ | {"PATH": path}, timeout=20
    ).stdout
    assert output == b"hello\n"


def test_without_fractions_the_interval_is_rounded_up(tmp_path: Path, log: str) -> None:
    board = ShellBoard("dash", tmp_path / "programs")
    sleep = board.programs / "sleep"
    sleep.write_text('#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec /bin/sleep "$1"\n')
    sleep.chmod(0o755)
    started = time.monotonic()
    program = waiting('await_samples "$1" 2', log)
    board.run(sampled(program, log, raspberry_pi(tmp_path), 0.1, None), timeout=60)
    assert 2 <= len(take_samples(board, log, 1000)) <= 1 + (time.monotonic() - started)


@pytest.mark.parametrize("core", [None, 0, 63])
def test_the_sampler_keeps_to_its_core_where_there_is_one(
    board: ShellBoard, tmp_path: Path, log: str, core: int | None
) -> None:
    paths = raspberry_pi(tmp_path)
    write(
        folder_of(paths),
        {"bin/vcgencmd": '#!/bin/sh\ngrep Cpus_allowed_list /proc/$PPID/status >"${0%/*}/allowed"\n'},
    )
    own = Path("own")
    script = 'grep Cpus_allowed_list /proc/$$/status >"$2"; await_samples "$1" 1'
    board.run(sampled(waiting(script, log, str(own)), log, paths, 1, core), timeout=60)
    allowed = (folder_of(paths) / "bin" / "allowed").read_text().split()[1]
    everywhere = own.read_text().split()[1]
    assert allowed == ("0" if core == 0 else everywhere)
    assert len(os.sched_getaffinity(0)) == 1 or everywhere != "0"


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf")])
def test_an_interval_that_is_not_positive_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        sampled(["true"], "log", BoardPaths(), interval, None)


def test_a_torn_line_and_garbage_are_left_out() -> None:
    line = "12.50 1500000,- 48312 0x50000 0 -"
    found = Sample(
        uptime_seconds=12.5,
        clocks_khz=(1_500_000, None),
        temperatures=(48312,),
        throttled=0x50000,
        coolers=(0,),
        rails=(),
    )
    assert parse_samples(f"{line}\n{line}\n12.75 15000", 1000) == [found, found]
    assert parse_samples(f"\n\0\x1b[2J\nx y z a b c\n1 2 3\n{line}\n{line} 7\n{line}", 1000) == [found]
    wild = replace(found, clocks_khz=(None,), temperatures=(None, None), throttled=None, coolers=(None,))
    assert parse_samples(f"12.50 {'9' * 5000} 4e4, zz ٣ -\n", 1000) == [wild]


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    for sample in parse_samples(text, 1000):
        assert sample.uptime_seconds >= 0


def nothing_left(log: str) -> bool:
    """Whether all that have the log among their words, or open, are gone within half a minute."""
    wait_for(lambda: not processes_with(log))
    return True


def processes_with(log: str) -> list[int]:
    """The processes that hold the log open or have its name among their words."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            files = [str(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if log.encode() in words or log in files:
            found.append(int(process.name))
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within half a minute")
