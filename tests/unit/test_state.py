"""The state of a board, read by the real script with each installed shell."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_boards import SHELLS, FakeBoard, ShellBoard, bare, folder_of, jetson_nano, raspberry_pi, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.boards.base import Completed
from harness.boards.paths import BoardPaths
from harness.boards.sensors.state import BoardState, Sensor, read_state
from harness.errors import HarnessError


@pytest.fixture(params=SHELLS)
def board(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellBoard:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return ShellBoard(request.param, tmp_path / "programs")


def test_a_raspberry_pi(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    state = read_state(board, paths)
    assert state.model == "Raspberry Pi 4 Model B Rev 1.4"
    assert [core.index for core in state.cores] == [0, 1, 2, 3]
    assert {(core.clock_khz, core.maximum_khz, core.limit_khz) for core in state.cores} == {
        (1_500_000, 1_800_000, 1_800_000)
    }
    assert state.governors == ("ondemand",)
    assert state.zones == (Sensor(label="cpu-thermal", value=48312),)
    assert state.hottest_celsius == 48.312
    assert state.throttled == 0
    assert state.throttle_sources == ("vcgencmd",)
    assert (state.uptime_seconds, state.load) == (1234.56, (0.25, 0.5, 0.75))
    assert state.available_bytes == 3_000_000 * 1024
    assert (state.coolers, state.events, state.rails) == ((), (), ())
    assert not list(Path.cwd().iterdir())  # nothing in a path was executed

    (folder_of(paths) / "bits").write_text("0x50005\n")
    assert read_state(board, paths).throttled == 0x50005


def test_a_jetson(board: ShellBoard, tmp_path: Path) -> None:
    state = read_state(board, jetson_nano(tmp_path))
    assert state.model == "NVIDIA Jetson Nano Developer Kit"
    assert [core.clock_khz for core in state.cores] == [710_400, 710_400, 710_400, None]
    assert state.cores[0].limit_khz == 918_000
    assert state.governors == ("schedutil",)
    assert state.hottest_celsius == 71.5  # not the power chip's constant 100 degrees
    assert state.throttled is None
    assert [state.coolers[place] for place in state.core_coolers] == [Sensor(label="cpufreq-cpu0", value=2)]
    assert state.coolers[2].value is None
    assert state.events == (Sensor(label="oc1_event_cnt", value=7),)
    assert state.rails == (
        Sensor(label="VDD_IN", value=4_500_000),
        Sensor(label="VDD_CPU", value=2_000_000),
        Sensor(label="VDD_GPU", value=40_000),
        Sensor(label="", value=250_000),
    )
    assert state.throttle_sources == ("cooling devices", "over-current counters")


def test_a_board_that_shows_nothing(board: ShellBoard, tmp_path: Path) -> None:
    state = read_state(board, bare(tmp_path))
    assert state == BoardState(
        model="",
        cores=(),
        zones=(),
        coolers=(),
        events=(),
        rails=(),
        throttled=None,
        uptime_seconds=None,
        load=(),
        available_bytes=None,
    )
    assert (state.hottest_celsius, state.governors, state.throttle_sources) == (None, (), ())


def test_this_machine_itself(board: ShellBoard) -> None:
    state = read_state(board)
    assert len(state.cores) >= (os.cpu_count() or 1)
    assert state.uptime_seconds is not None
    assert state.uptime_seconds > 0
    assert len(state.load) == 3
    assert (state.available_bytes or 0) > 1 << 20


@pytest.mark.parametrize(
    "output",
    [
        "VCHI initialization failed",
        "throttled=",
        "throttled=0xzz",
        "throttled=0x1 0x2",
        "throttled=0x1\\nmore",
    ],
)
def test_invalid_output_of_vcgencmd_is_ignored(board: ShellBoard, tmp_path: Path, output: str) -> None:
    paths = raspberry_pi(tmp_path)
    Path(paths.vcgencmd).write_text(f"#!/bin/sh\nprintf '%b' '{output}'\n")
    assert read_state(board, paths).throttled is None
    assert read_state(board, replace(paths, vcgencmd="")).throttled is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=40), which=st.sampled_from(["zone", "clock", "current", "meminfo", "uptime"])
)
def test_any_bytes_in_a_file_are_no_error(
    board: ShellBoard, tmp_path: Path, content: bytes, which: str
) -> None:
    tree = tmp_path / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    paths = jetson_nano(tree)
    name = {
        "zone": "sys/class/thermal/thermal_zone1/temp",
        "clock": "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
        "current": "sys/class/hwmon/hwmon1/curr1_input",
        "meminfo": "proc/meminfo",
        "uptime": "proc/uptime",
    }[which]
    (folder_of(paths) / name).write_bytes(content)
    (folder_of(paths) / "sys/class/thermal/thermal_zone1/type").write_bytes(content)
    state = read_state(board, paths)
    assert len(state.zones) == 4
    assert len(state.rails) == 4
    assert state.model == "NVIDIA Jetson Nano Developer Kit"
    assert all(zone.label.isprintable() for zone in state.zones)


def test_rails_of_nvidias_driver_up_to_jetpack_4(board: ShellBoard, tmp_path: Path) -> None:
    paths = jetson_nano(tmp_path)
    shutil.rmtree(folder_of(paths) / "sys/class/hwmon")
    chip = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    rails = {"POM_5V_IN": "2490", "POM_5V_GPU": "0", "POM_5V_CPU": "614"}
    for number, (name, milliwatts) in enumerate(rails.items()):
        files = {f"rail_name_{number}": f"{name}\n", f"in_power{number}_input": f"{milliwatts}\n"}
        write(folder_of(paths), {f"{chip}/{file}": text for file, text in files.items()})
    assert [(rail.label, rail.value) for rail in read_state(board, paths).rails] == [
        ("POM_5V_IN", 2_490_000),
        ("POM_5V_GPU", 0),
        ("POM_5V_CPU", 614_000),
    ]


def test_octal_numbers_are_invalid(board: ShellBoard, tmp_path: Path) -> None:
    paths = jetson_nano(tmp_path)
    write(folder_of(paths), {"sys/class/hwmon/hwmon1/curr1_input": "08\n"})
    assert read_state(board, paths).rails[0].value is None


def test_folders_in_the_place_of_files_are_no_error(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    for name in ("sys/class/thermal/thermal_zone0/temp", "proc/meminfo", "proc/device-tree/model"):
        (folder_of(paths) / name).unlink()
        (folder_of(paths) / name).mkdir()
    state = read_state(board, paths)
    assert (state.hottest_celsius, state.available_bytes, state.model) == (None, None, "")


def test_a_board_without_a_shell_is_named(tmp_path: Path) -> None:
    board = ShellBoard("dash", tmp_path / "programs")
    (board.programs / "sh").unlink()
    (board.programs / "sh").symlink_to("/bin/false")
    with pytest.raises(HarnessError, match="host: the shell did not report") as raised:
        read_state(board, BoardPaths())
    assert "POSIX shell" in raised.value.hint


def test_impossible_values_are_unknown() -> None:
    lines = [
        *("core\t0\t-5\t999999999999\t1500000\tondemand\t", "cooler\t99999999999\tcpu-cooler\t"),
        *("rail\t999999999999999999\tVDD_IN\t", "memory\t-5\t", "uptime\t99999999999999 1\t", "end\t"),
    ]

    class Absurd(FakeBoard):
        def run(self, *_: object, **__: object) -> Completed:
            return Completed(status=0, stdout="\n".join(lines) + "\n", stderr="")

    state = read_state(Absurd())
    assert (state.cores[0].clock_khz, state.cores[0].maximum_khz) == (None, None)
    assert [sensor.value for sensor in (*state.coolers, *state.rails)] == [None, None]
    assert (state.available_bytes, state.uptime_seconds) == (None, None)
    lines[1:1] = ["zone\t1\tz\t"] * 1025
    with pytest.raises(HarnessError, match="implausible result: its state has 1025 zones"):
        read_state(Absurd())
