"""The conditions of a run, and the wait for a board to cool down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_boards import ShellBoard, bare, folder_of, raspberry_pi, waiting
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.energy import Metered
from harness.boards.paths import BoardPaths
from harness.boards.sensors.conditions import assess, merged
from harness.boards.sensors.cool_down import Cooling, Outcome, wait_until_cool
from harness.boards.sensors.governor import HeldGovernor
from harness.boards.sensors.sampler import Sample, sampled, take_samples
from harness.boards.sensors.state import BoardState, Core, Sensor, read_state
from harness.boards.sensors.tegrastats import TegraStats
from harness.measure.time_series import time_series

CORE = Core(index=0, clock_khz=1_800_000, maximum_khz=1_800_000, limit_khz=1_800_000, governor="performance")
PI = BoardState(
    model="Raspberry Pi 4 Model B Rev 1.4",
    cores=(CORE, replace(CORE, index=1)),
    zones=(Sensor(label="cpu-thermal", value=50_000),),
    coolers=(),
    events=(),
    rails=(),
    throttled=0,
    uptime_seconds=100.0,
    load=(0.0, 0.0, 0.0),
    available_bytes=1 << 30,
)
JETSON = replace(
    PI,
    model="NVIDIA Jetson Nano Developer Kit",
    throttled=None,
    coolers=(Sensor(label="pwm-fan", value=0), Sensor(label="cpufreq-cpu0", value=0)),
    events=(Sensor(label="oc1_event_cnt", value=4),),
)


def sample(state: BoardState = PI, at: float = 101.0, **changes: Any) -> Sample:
    """What a sampler sees of a board in this state."""
    seen = Sample(
        uptime_seconds=at,
        clocks_khz=tuple(core.clock_khz for core in state.cores),
        temperatures=tuple(zone.value for zone in state.zones),
        throttled=state.throttled,
        coolers=tuple(cooler.value for cooler in state.coolers),
        rails=tuple(rail.value for rail in state.rails),
    )
    return replace(seen, **changes)


@pytest.mark.parametrize("state", [PI, JETSON])
def test_a_quiet_run(state: BoardState) -> None:
    found = assess([sample(state), sample(state)], state, state)
    assert (found.throttled, found.reasons, found.warnings) == (False, (), ())
    assert (found.clock_minimum, found.clock_median, found.clock_maximum) == (1, 1, 1)
    assert (found.samples, found.hottest_celsius, found.governors) == (2, 50, ("performance",))
    assert (found.energy_joules, found.energy_seconds) == (None, None)


@pytest.mark.parametrize(
    ("bit", "reason", "hint"),
    [
        (0, "under-voltage", "power supply"),
        (1, "capped the clock", "heat sink"),
        (2, "throttled the cores", "heat sink"),
        (3, "soft temperature limit", "heat sink"),
    ],
)
def test_each_bit_of_a_raspberry_pi(bit: int, reason: str, hint: str) -> None:
    now, since = 1 << bit, 1 << bit + 16
    known = replace(PI, throttled=since)
    for samples, before, after in (
        ([sample(), sample(throttled=now)], PI, PI),
        ([sample(known), sample(throttled=now | since)], known, known),  # known from earlier, and again
        ([sample(), sample()], PI, known),  # between two samples
        ([sample(throttled=since), sample()], PI, PI),
        ([], PI, known),
    ):
        found = assess(samples, before, after)
        assert found.throttled
        assert len(found.reasons) == 1
        assert reason in found.reasons[0]
        assert any(reason in warning and hint in warning for warning in found.warnings)


def test_throttling_before_or_after_the_run_does_not_count() -> None:
    earlier = replace(PI, throttled=0xF000F)
    quiet = sample(throttled=0xF0000)
    found = assess([quiet, quiet], earlier, replace(PI, throttled=0xF000F))
    assert found.throttled is False
    assert ["under-voltage since it started" in warning for warning in found.warnings] == [True]
    # Bits that could not be read before the run may be old.
    assert assess([quiet], replace(PI, throttled=None), PI).throttled is False


def test_a_cooling_device_of_the_cores() -> None:
    assert not assess([sample(JETSON, coolers=(3, 0))], JETSON, JETSON).throttled  # the fan
    found = assess([sample(JETSON, coolers=(3, 2)), sample(JETSON)], JETSON, JETSON)
    assert found.reasons == ("cpufreq-cpu0 slowed the cores (state 2)",)
    assert found.throttled
    # A device more than there was: which is which is not known.
    assert not assess([sample(JETSON, coolers=(0, 3, 0))], JETSON, JETSON).throttled


def test_an_over_current_counter_that_rose() -> None:
    after = replace(JETSON, events=(Sensor(label="oc1_event_cnt", value=5),))
    found = assess([sample(JETSON)], JETSON, after)
    assert found.reasons == ("oc1_event_cnt counted over-current or under-voltage",)
    assert found.throttled
    unread = replace(JETSON, events=(Sensor(label="oc1_event_cnt", value=None),))
    assert not assess([sample(JETSON)], unread, after).throttled
    assert not assess([sample(JETSON)], JETSON, unread).throttled


def test_a_held_clock_that_fell() -> None:
    found = assess([sample(), sample(clocks_khz=(1_800_000, 1_700_000))], PI, PI)
    assert found.reasons == ("core 1 fell from 1800 to 1700 MHz under the governor performance",)
    assert found.throttled
    assert found.clock_minimum == pytest.approx(17 / 18)
    assert not assess([sample(clocks_khz=(1_800_000, 1_720_000))], PI, PI).throttled
    assert not assess([sample(clocks_khz=(1_800_000, None))], PI, PI).throttled
    assert not assess([sample(clocks_khz=(600_000,))], PI, PI).throttled  # a core went off line


def test_a_clock_that_its_governor_moves_is_no_throttling_but_a_warning() -> None:
    moved = replace(PI, cores=tuple(replace(core, governor="powersave") for core in PI.cores))
    found = assess([sample(clocks_khz=(600_000, 600_000))], moved, moved)
    assert found.throttled is False
    assert found.clock_median == pytest.approx(1 / 3)
    assert len(found.warnings) == 1
    assert "the governor is powersave" in found.warnings[0]
    assert "`echo performance | sudo tee" in found.warnings[0]
    refused = HeldGovernor(
        governor="performance", held=False, reason="sudo failed on the board: no", hint="allow it"
    )
    found = assess([sample(clocks_khz=(600_000, 600_000))], moved, moved, refused)
    (warning,) = found.warnings
    assert warning.endswith("keeps it low; sudo failed on the board: no: allow it")


def test_a_measured_clock_as_on_a_pc_is_not_taken_for_a_held_one() -> None:
    turbo = replace(PI, throttled=None, cores=(replace(CORE, clock_khz=1_799_321),))
    found = assess([sample(turbo, clocks_khz=(900_000,))], turbo, turbo)
    assert found.throttled is None  # nothing on this machine tells


@pytest.mark.parametrize(("state", "hint"), [(JETSON, "sudo nvpmodel -m 0"), (PI, "scaling_max_freq")])
def test_a_limited_clock_is_a_warning(state: BoardState, hint: str) -> None:
    core = replace(CORE, clock_khz=900_000, limit_khz=900_000)
    limited = replace(state, cores=(core, replace(core, index=1)))
    found = assess([sample(limited)], limited, limited)
    assert (found.throttled, found.clock_maximum) == (False, 0.5)
    assert len(found.warnings) == 1
    assert "limited to 900 of 1800 MHz" in found.warnings[0]
    assert hint in found.warnings[0]


def test_without_samples_throttling_is_unknown() -> None:
    found = assess([], PI, PI)
    assert (found.throttled, found.clock_median, found.hottest_celsius) == (None, None, 50)
    assert "the board was not sampled" in found.warnings[0]


def test_conditions_of_several_runs_are_those_of_one() -> None:
    calm = assess([sample(), sample(at=102.0)], PI, PI)
    hot = assess([sample(throttled=0x4), sample(at=102.0)], PI, PI)
    both = merged([calm, hot, hot])
    assert both.throttled is True
    assert both.reasons == hot.reasons
    assert both.warnings == hot.warnings
    assert both.samples == 6
    assert merged([calm]) == calm
    with pytest.raises(ValueError, match="no conditions"):
        merged([])


def test_the_course_of_a_run_has_speed_heat_and_clock_of_each_part() -> None:
    # The program starts at 100 s and its first frame at 102 s; the second half is hot and slow.
    frames = [10_000_000] * 100 + [20_000_000] * 100
    cool = [sample(at=100 + number / 4) for number in range(12)]
    heat: dict[str, Any] = {
        "temperatures": (85_000,) * len(PI.zones),
        "clocks_khz": (900_000,) * len(PI.cores),
    }
    hot = [sample(at=103 + number / 4, **heat) for number in range(1, 9)]
    points = time_series(frames, [*cool, *hot], PI, parts=6)
    assert [point.fps for point in points] == pytest.approx([100, 100, 50, 50, 50, 50])
    assert [point.seconds for point in points] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
    assert points[-1].celsius == 85
    assert points[-1].clock == 0.5
    assert points[0].clock == 1
    assert [point.fps for point in time_series([10**9], [], PI)] == [1]
    assert time_series([], [], PI) == []


@pytest.mark.parametrize(
    ("state", "quiet", "slow"),
    [
        # The firmware tells what it does now (bit 2) and that it has done it (bit 18).
        (PI, {"throttled": 1 << 18}, {"throttled": 1 << 18 | 1 << 2}),
        (PI, {}, {"clocks_khz": (600_000,) * 2}),
        (JETSON, {}, {"coolers": (0, 1)}),
    ],
)
def test_the_course_of_a_run_says_when_the_board_throttled(
    state: BoardState, quiet: dict[str, Any], slow: dict[str, Any]
) -> None:
    changes = [{}, slow, quiet, quiet]
    readings = [sample(state, at=100.5 + number, **each) for number, each in enumerate(changes)]
    points = time_series([10_000_000] * 350, readings, state, parts=4)
    assert [point.throttled for point in points] == [False, True, False, False]
    unwatched = replace(state, throttled=None, coolers=(), cores=(replace(CORE, governor="ondemand"),))
    assert {point.throttled for point in time_series([10**9] * 4, [sample(unwatched)], unwatched)} == {None}


@given(st.lists(st.integers(1, 10**10), max_size=200), st.integers(1, 70))
def test_a_course_has_every_frame_once(frames: list[int], parts: int) -> None:
    points = time_series(frames, [], PI, parts)
    assert len(points) <= parts
    begins = [0.0, *(point.seconds for point in points)]
    counts = [point.fps * (point.seconds - begin) for point, begin in zip(points, begins, strict=False)]
    assert sum(counts) == pytest.approx(len(frames))


def test_the_hottest_moment_counts() -> None:
    found = assess([sample(temperatures=(83_250,)), sample(temperatures=(-256_000,))], PI, PI)
    assert found.hottest_celsius == 83.25
    after = replace(PI, zones=(Sensor(label="cpu-thermal", value=91_000),))
    assert assess([sample()], PI, after).hottest_celsius == 91


def test_tegrastats_tells_of_the_memorys_clock() -> None:
    steady = TegraStats(memory_mhz=1600, temperatures={}, rails={})
    samples = [sample(JETSON, 10.0), sample(JETSON, 11.0, tegrastats=steady)]
    found = assess(samples, JETSON, JETSON)
    assert (found.memory_mhz_minimum, found.memory_mhz_maximum, found.warnings) == (1600, 1600, ())
    samples.append(sample(JETSON, 12.0, tegrastats=replace(steady, memory_mhz=204)))
    moved = assess(samples, JETSON, JETSON)
    assert (moved.memory_mhz_minimum, moved.memory_mhz_maximum) == (204, 1600)
    assert moved.warnings == ("the memory clock changed between 204 and 1600 MHz: `sudo jetson_clocks`",)
    both = merged([found, moved, assess([], JETSON, JETSON)])
    assert (both.memory_mhz_minimum, both.memory_mhz_maximum) == (204, 1600)


def test_tegrastats_stands_in_for_sensors_that_are_not_there() -> None:
    blind = replace(JETSON, zones=())
    stats = TegraStats(
        memory_mhz=None,
        temperatures={"PMIC": 100_000, "CPU": 40_500, "GPU": 41_000},
        rails={"POM_5V_IN": 2_000_000, "POM_5V_CPU": 500_000},
    )
    samples = [sample(blind, at, tegrastats=stats) for at in (10.0, 11.0)]
    found = assess(samples, blind, blind)
    assert (found.hottest_celsius, found.energy_joules, found.energy_source) == (40.5, 2, "tegrastats")
    fed = replace(JETSON, rails=(Sensor(label="VDD_IN", value=0),))
    samples = [sample(fed, at, rails=(3_000_000,), tegrastats=stats) for at in (10.0, 11.0)]
    found = assess(samples, fed, fed)
    assert (found.hottest_celsius, found.energy_joules) == (50, 3)
    assert found.energy_source == "the board's own sensors"


def test_energy_is_integrated_over_the_rail_that_feeds_the_board() -> None:
    rails = (Sensor(label="VDD_CPU", value=0), Sensor(label="VDD_IN", value=0))
    fed = replace(JETSON, rails=rails)
    samples = [
        sample(fed, at, rails=(1_000_000, watts))
        for at, watts in ((10.0, 2_000_000), (11.0, 4_000_000), (13.0, 4_000_000), (14.0, None))
    ]
    found = assess(samples, fed, fed)
    assert found.energy_joules == pytest.approx(3 + 8)
    assert found.energy_seconds == 3
    parts = replace(fed, rails=(Sensor(label="", value=0), Sensor(label="", value=0)))
    assert assess(samples, parts, parts).energy_joules == pytest.approx(3 + 8 + 3)
    assert assess(samples[:1], fed, fed).energy_joules is None
    assert assess(samples[:1], fed, fed).energy_source is None


def test_a_meter_counts_more_than_the_boards_own_sensors_and_its_failure_is_told() -> None:
    fed = replace(JETSON, rails=(Sensor(label="VDD_IN", value=0),))
    samples = [sample(fed, at, rails=(2_000_000,)) for at in (10.0, 11.0)]
    meter = Metered(source="the command plug", joules=7.0, seconds=2.0)
    found = assess(samples, fed, fed, metered=meter)
    assert (found.energy_joules, found.energy_seconds, found.energy_source) == (7, 2, "the command plug")
    found = assess(samples, fed, fed, metered=Metered(source="the command plug", warning="it hangs: mend it"))
    assert (found.energy_joules, found.energy_source) == (2, "the board's own sensors")
    assert found.warnings == ("it hangs: mend it",)


NUMBERS = st.one_of(st.none(), st.integers(-(10**18), 10**18))
SAMPLES = st.builds(
    Sample,
    uptime_seconds=st.floats(0, 1e15),
    clocks_khz=st.lists(NUMBERS, max_size=3).map(tuple),
    temperatures=st.lists(NUMBERS, max_size=3).map(tuple),
    throttled=st.one_of(st.none(), st.integers(0, 2**64)),
    coolers=st.lists(NUMBERS, max_size=3).map(tuple),
    rails=st.lists(NUMBERS, max_size=3).map(tuple),
)


@given(st.lists(SAMPLES, max_size=4), st.sampled_from([PI, JETSON]))
def test_any_samples_are_judged(samples: list[Sample], state: BoardState) -> None:
    found = assess(samples, state, state)
    assert bool(found.reasons) == bool(found.throttled)
    assert all(": " in warning for warning in found.warnings)


def test_a_run_that_is_throttled_on_a_board_is_found(tmp_path: Path) -> None:
    board, paths = ShellBoard("dash", tmp_path / "programs"), raspberry_pi(tmp_path)
    bits = folder_of(paths) / "bits"
    log = str(tmp_path / "log")
    verdicts = []
    for throttled in ("0x0", "0x50005", "0x50000"):
        before = read_state(board, paths)
        bits.write_text(f"{throttled}\n")
        board.run(sampled(waiting('await_samples "$1" 1', log), log, paths, 45, None), timeout=60)
        found = assess(take_samples(board, log, 1000), before, read_state(board, paths))
        verdicts.append(found.reasons)
    assert verdicts == [(), ("under-voltage", "the firmware throttled the cores"), ()]


class Heated:
    """A sleep that changes a fake board's temperature as time passes, and counts it."""

    def __init__(self, paths: BoardPaths, celsius: Callable[[float], float | None]) -> None:
        self.zone = Path(paths.sys) / "class/thermal/thermal_zone0/temp"
        self.celsius, self.slept = celsius, 0.0
        self(0)

    def __call__(self, seconds: float) -> None:
        self.slept += seconds
        celsius = self.celsius(self.slept)
        self.zone.write_text("" if celsius is None else f"{celsius * 1000:.0f}\n")


@pytest.fixture
def board(tmp_path: Path) -> ShellBoard:
    return ShellBoard("dash", tmp_path / "programs")


def test_a_hot_board_is_waited_for(
    board: ShellBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = raspberry_pi(tmp_path)
    clock = Heated(paths, lambda seconds: 80 - seconds / 2)
    assert wait_until_cool(board, paths, 65.0, 300, clock) == Cooling(
        outcome=Outcome.COOL, limit_celsius=65, first_celsius=80, last_celsius=63.5, waited_seconds=33
    )
    assert clock.slept == 33
    assert "host cooling down to 65 °C" in capsys.readouterr().err


def test_a_cool_board_is_not_waited_for(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    clock = Heated(paths, lambda seconds: 40)
    found = wait_until_cool(board, paths, 65.0, 300, clock)
    assert (found.outcome, found.waited_seconds, clock.slept) == (Outcome.COOL, 0, 0)


def test_a_board_that_gets_no_cooler_is_not_waited_for(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    clock = Heated(paths, lambda seconds: max(70.0, 72 - seconds) + 0.2 * (seconds % 2))
    found = wait_until_cool(board, paths, 65.0, 3600, clock)
    assert found.outcome is Outcome.SETTLED
    assert 60 <= found.waited_seconds <= 70


def test_the_wait_has_an_end(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    clock = Heated(paths, lambda seconds: 90 - seconds / 10)
    found = wait_until_cool(board, paths, 65.0, 10, clock)
    assert (found.outcome, found.waited_seconds, clock.slept) == (Outcome.TIMEOUT, 10, 10)


def test_a_board_without_a_sensor_is_not_waited_for(board: ShellBoard, tmp_path: Path) -> None:
    slept: list[float] = []
    found = wait_until_cool(board, bare(tmp_path), 65.0, 300, slept.append)
    assert (found.outcome, found.first_celsius, slept) == (Outcome.NO_SENSOR, None, [])


def test_a_sensor_that_goes_away_ends_the_wait(board: ShellBoard, tmp_path: Path) -> None:
    paths = raspberry_pi(tmp_path)
    clock = Heated(paths, lambda seconds: 80 if seconds < 5 else None)
    found = wait_until_cool(board, paths, 65.0, 300, clock)
    assert (found.outcome, found.first_celsius, found.last_celsius) == (Outcome.NO_SENSOR, 80, None)
