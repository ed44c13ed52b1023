"""A measurement under known conditions: disturbances are noticed, and it is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fake_boards import ShellBoard, raspberry_pi, waiting

from harness.boards.energy import EnergyMeter
from harness.boards.sensors.cool_down import Outcome
from harness.config.sweep import Protocol
from harness.measure.watched_run import Watched, conditions_of, run_watched

PROTOCOL = Protocol(cool_seconds=0.0, timeout=60.0)


class Pi:
    """This machine with a made-up Raspberry Pi's sensors, and a program that counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.board = ShellBoard("dash", folder / "programs")
        self.board.sensors = raspberry_pi(folder / "pi")
        self.root = Path(self.board.sensors.vcgencmd).parents[1]
        self.folder = folder
        (folder / "runs").write_text("")

    def run(self, script: str, reruns: int = 2, cores: Sequence[int] = (0,)) -> Watched:
        """Runs a script that is given the files of its runs, of the throttle bits and of the samples."""
        log = str(self.folder / "log")
        files = (str(self.folder / "runs"), str(self.root / "bits"), log)
        argv = waiting(f'echo run >>"$1"; {script}', *files)
        return run_watched(self.board, argv, PROTOCOL, {}, log, reruns=reruns, cores=cores)

    @property
    def runs(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())

    def governors(self) -> set[str]:
        return {path.read_text().strip() for path in self.root.glob("sys/**/scaling_governor")}


@pytest.fixture
def pi(tmp_path: Path) -> Pi:
    return Pi(tmp_path)


def test_an_undisturbed_run_is_made_once_and_its_conditions_are_known(pi: Pi) -> None:
    watched = pi.run('echo printed; await_samples "$3" 2')
    assert (watched.completed.status, watched.completed.stdout) == (0, "printed\n")
    assert (pi.runs, watched.attempts) == (1, 1)
    conditions = conditions_of([watched])
    assert conditions is not None
    assert conditions.throttled is False
    assert conditions.samples >= 2
    assert conditions.hottest_celsius == pytest.approx(48.3, abs=0.1)
    assert conditions.cooling[0].outcome == Outcome.COOL
    assert not (pi.folder / "log").exists()


def test_the_governor_is_held_during_the_run_and_put_back(pi: Pi) -> None:
    watched = pi.run('cat "${2%/bits}/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"')
    assert watched.completed.stdout == "performance\n"
    assert watched.governor.held
    assert pi.governors() == {"ondemand"}


def test_a_sudo_that_refuses_is_a_warning_and_the_run_stands(pi: Pi) -> None:
    file = next(pi.root.glob("sys/**/cpu2/**/scaling_governor"))
    file.unlink()
    file.symlink_to("/proc/sys/kernel/random/uuid")  # cannot be written, even by root
    sudo = pi.board.programs / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    pi.board.sensors = replace(pi.board.sensors, sudo=True)
    watched = pi.run("echo printed; sleep 0.3")
    assert watched.completed.stdout == "printed\n"
    assert any("sudo: a password is required" in warning for warning in watched.conditions.warnings)
    assert any("NOPASSWD" in warning for warning in watched.conditions.warnings)


def test_a_users_meter_measures_the_run(pi: Pi) -> None:
    meter = EnergyMeter(command=("echo", "4"), every=0.05)
    pi.board.sensors = replace(pi.board.sensors, meter=meter)
    conditions = conditions_of([pi.run("sleep 0.6")])
    assert conditions is not None
    assert conditions.energy_seconds is not None
    assert conditions.energy_source == "the command echo"
    assert conditions.energy_joules == pytest.approx(4 * conditions.energy_seconds)
    assert 0.3 < conditions.energy_seconds < 3
    pi.board.sensors = replace(pi.board.sensors, meter=replace(meter, command=("/nowhere/plug",)))
    watched = pi.run("echo printed")
    assert watched.completed.stdout == "printed\n"
    assert any("the command plug cannot be started" in warning for warning in watched.conditions.warnings)


def test_a_throttled_run_is_made_again_until_it_is_not(pi: Pi) -> None:
    # The board is throttled during the first run alone. A sample may be under way when that begins.
    throttled = (
        'if [ "$(wc -l <"$1")" = 1 ]; then echo 0x4 >"$2"; await_samples "$3" $(($(samples "$3") + 2)); fi'
    )
    watched = pi.run(f'{throttled}; echo 0x0 >"$2"; await_samples "$3" 1')
    assert (pi.runs, watched.attempts) == (2, 2)
    assert watched.conditions.throttled is False


def test_a_board_that_goes_on_throttling_is_given_up_on_and_marked(pi: Pi) -> None:
    (pi.root / "bits").write_text("0x4\n")
    watched = pi.run('await_samples "$3" 1', reruns=1)
    assert (pi.runs, watched.attempts) == (2, 2)
    assert watched.conditions.throttled is True
    assert "the firmware throttled the cores" in " ".join(watched.conditions.reasons)


def test_a_failed_run_is_not_repeated(pi: Pi) -> None:
    (pi.root / "bits").write_text("0x4\n")
    watched = pi.run('await_samples "$3" 1; kill -SEGV $$')
    assert pi.runs == 1
    assert watched.completed.status == -11
    assert pi.governors() == {"ondemand"}
