"""The conditions of a measurement, and whether the board was throttled."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from harness.boards.energy import Metered, integral
from harness.boards.sensors.governor import STEADY, HeldGovernor, by_hand
from harness.boards.sensors.sampler import Sample
from harness.boards.sensors.state import BoardState, hottest_of

CLOCK_KEPT = 0.95  # fraction of the initial clock below which a held clock counts as throttled

_HINT_SUPPLY = "use the board's official power supply and a short, thick cable"
_HINT_HEAT = "give the board a heat sink and a fan, or wait longer between runs"

# https://www.raspberrypi.com/documentation/computers/os.html#get_throttled: the current state; 16 bits
# higher, the state since the board started.
_PI_BITS = (
    (0, "under-voltage", _HINT_SUPPLY),
    (1, "the firmware capped the clock", f"{_HINT_HEAT}, and {_HINT_SUPPLY}"),
    (2, "the firmware throttled the cores", f"{_HINT_HEAT}, and {_HINT_SUPPLY}"),
    (3, "the soft temperature limit was reached", _HINT_HEAT),
)
_SINCE_START = 16
_NOW = (1 << _SINCE_START) - 1

# Power rails of the whole board, on boards that also measure parts of it.
_WHOLE_BOARD = ("vdd_in", "pom_5v_in", "5v_in")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of a run. None: the board has no such sensor, or it was not read."""

    samples: int = 0
    clock_minimum: float | None = None  # of the slowest core, as a fraction of the hardware's maximum
    clock_median: float | None = None
    clock_maximum: float | None = None
    hottest_celsius: float | None = None  # of the cores
    memory_mhz_minimum: int | None = None  # a Jetson's memory clock, if its tegrastats shows it
    memory_mhz_maximum: int | None = None
    throttled: bool | None = None  # None: this board has no source for it
    reasons: tuple[str, ...] = ()  # for throttling
    governors: tuple[str, ...] = ()
    # Energy between the first and the last sample, or reading of a meter, and the time between them.
    energy_joules: float | None = None
    energy_seconds: float | None = None
    energy_source: str | None = None  # the sensor or meter
    warnings: tuple[str, ...] = ()  # each with its hint


def assess(
    samples: Sequence[Sample],
    before: BoardState,
    after: BoardState,
    held: HeldGovernor | None = None,
    metered: Metered | None = None,
) -> Conditions:
    """Evaluates the samples of a run and the board's state before and after it.

    A run is throttled if a sample shows throttling, or if the board's event counters increased during the
    run. The momentary throttling state in `after` does not count.
    """
    fractions = [low for sample in samples if (low := slowest_clock(sample, before)) is not None]
    temperatures = [
        hottest
        for hottest in (
            *(hottest_celsius(sample, before) for sample in samples),
            before.hottest_celsius,
            after.hottest_celsius,
        )
        if hottest is not None
    ]
    memory = _memory_clocks(samples)
    findings = dict(_throttling(samples, before, after))
    watched = bool(samples) and bool(before.throttle_sources or _held(before))
    energy, source = _energy(samples, before), "the board's own sensors" if before.rails else "tegrastats"
    if metered is not None and metered.joules is not None and metered.seconds is not None:
        energy, source = (metered.joules, metered.seconds), metered.source
    return Conditions(
        samples=len(samples),
        clock_minimum=min(fractions, default=None),
        clock_median=statistics.median(fractions) if fractions else None,
        clock_maximum=max(fractions, default=None),
        hottest_celsius=max(temperatures, default=None),
        memory_mhz_minimum=min(memory, default=None),
        memory_mhz_maximum=max(memory, default=None),
        throttled=bool(findings) if watched or findings else None,
        reasons=tuple(findings),
        governors=tuple(sorted({*before.governors, *after.governors})),
        energy_joules=energy[0] if energy else None,
        energy_seconds=energy[1] if energy else None,
        energy_source=source if energy else None,
        warnings=(
            *(f"{reason}: {hint}" for reason, hint in findings.items()),
            *_warnings(samples, before, after, held),
            *([metered.warning] if metered and metered.warning else ()),
        ),
    )


def throttled_during(samples: Sequence[Sample], before: BoardState) -> bool | None:
    """Whether one of these samples shows throttling at its time; None: no sample could."""
    if not samples or not (before.throttled is not None or before.core_coolers or _held(before)):
        return None
    at_their_time = [
        replace(sample, throttled=None if sample.throttled is None else sample.throttled & _NOW)
        for sample in samples
    ]
    return any(True for _ in _throttling(at_their_time, before, before))


def merged(conditions: Sequence[Conditions]) -> Conditions:
    """The combined conditions of several runs. Raises ValueError for none."""
    if not conditions:
        raise ValueError("no conditions")

    def known(name: str) -> list[float]:
        return [value for each in conditions if (value := getattr(each, name)) is not None]

    def united(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for each in conditions for text in getattr(each, name)))

    told = [each.throttled for each in conditions if each.throttled is not None]
    medians = known("clock_median")
    memory = [int(clock) for name in ("memory_mhz_minimum", "memory_mhz_maximum") for clock in known(name)]
    return Conditions(
        samples=sum(each.samples for each in conditions),
        clock_minimum=min(known("clock_minimum"), default=None),
        clock_median=statistics.median(medians) if medians else None,
        clock_maximum=max(known("clock_maximum"), default=None),
        hottest_celsius=max(known("hottest_celsius"), default=None),
        memory_mhz_minimum=min(memory, default=None),
        memory_mhz_maximum=max(memory, default=None),
        throttled=any(told) if told else None,
        reasons=united("reasons"),
        governors=tuple(sorted(united("governors"))),
        energy_joules=sum(known("energy_joules")) or None,
        energy_seconds=sum(known("energy_seconds")) or None,
        energy_source=next((each.energy_source for each in conditions if each.energy_source), None),
        warnings=united("warnings"),
    )


def _throttling(
    samples: Sequence[Sample], before: BoardState, after: BoardState
) -> Iterator[tuple[str, str]]:
    """Each reason for throttling, with its hint."""
    shown = reduce(or_, (sample.throttled or 0 for sample in samples), 0)
    new = 0 if before.throttled is None else (shown | (after.throttled or 0)) & ~before.throttled
    for bit, reason, hint in _PI_BITS:
        if (new >> (bit + _SINCE_START) | shown >> bit) & 1:
            yield reason, hint
    for place in before.core_coolers:
        states = [_at(sample.coolers, place, len(before.coolers)) for sample in samples]
        highest = max((value for value in states if value is not None), default=0)
        if highest > 0:
            yield f"{before.coolers[place].label} slowed the cores (state {highest})", _HINT_HEAT
    for event, later in zip(before.events, after.events, strict=False):
        counts = [sensor.value for sensor in (event, later) if sensor.value is not None]
        if event.label == later.label and len(counts) == 2 and counts[0] < counts[1]:
            yield f"{event.label} counted over-current or under-voltage", _HINT_SUPPLY
    readings = [sample.clocks_khz for sample in samples if len(sample.clocks_khz) == len(before.cores)]
    for place, clock in _held(before).items():
        lowest = min((low for clocks in readings if (low := clocks[place])), default=clock)
        if lowest < CLOCK_KEPT * clock:
            fell = f"fell from {clock // 1000} to {lowest // 1000} MHz under the governor {STEADY}"
            yield f"core {before.cores[place].index} {fell}", f"{_HINT_HEAT}, and {_HINT_SUPPLY}"


def _warnings(
    samples: Sequence[Sample], before: BoardState, after: BoardState, held: HeldGovernor | None
) -> Iterator[str]:
    """Other conditions that affect the results, each with its hint."""
    if not samples:
        yield "the board was not sampled: its working folder is not writable, or the run was too short"
    why, hint = (f"; {held.reason}", held.hint) if held and held.hint else ("", by_hand(STEADY))
    for governor in sorted({*before.governors, *after.governors} - {STEADY}):
        yield f"the governor is {governor}, which changes the clock or keeps it low{why}: {hint}"
    if before.throttled is not None and before.throttled >> _SINCE_START & 1:
        yield f"the board had under-voltage since it started: {_HINT_SUPPLY}"
    jetson = "jetson" in before.model.lower()
    for limit, maximum in sorted({(core.limit_khz or 0, core.maximum_khz or 0) for core in before.cores}):
        if 0 < limit < maximum:
            hint = (
                "`sudo nvpmodel -m 0`"
                if jetson
                else "increase scaling_max_freq in the folder of its governor"
            )
            yield f"a clock is limited to {limit // 1000} of {maximum // 1000} MHz: {hint}"
    memory = _memory_clocks(samples)
    if memory and min(memory) < CLOCK_KEPT * max(memory):
        yield f"the memory clock changed between {min(memory)} and {max(memory)} MHz: `sudo jetson_clocks`"


def _held(state: BoardState) -> dict[int, int]:
    """The clock of each core, by index, that only throttling can change.

    Linux on x86-64 shows a measured clock, which never equals the limit exactly.
    """
    return {
        place: core.clock_khz
        for place, core in enumerate(state.cores)
        if core.governor == STEADY and core.clock_khz and core.clock_khz == core.limit_khz
    }


def slowest_clock(sample: Sample, state: BoardState) -> float | None:
    """The slowest core's clock as a fraction of its maximum."""
    if len(sample.clocks_khz) != len(state.cores):  # cores have changed since
        return None
    fractions = [
        clock / core.maximum_khz
        for clock, core in zip(sample.clocks_khz, state.cores, strict=True)
        if clock and core.maximum_khz
    ]
    return min(fractions, default=None)


def hottest_celsius(sample: Sample, state: BoardState) -> float | None:
    """The hottest core's temperature; from tegrastats if no zone shows one."""
    found = state.hottest(sample.temperatures)
    if found is None and sample.tegrastats:
        zones = sample.tegrastats.temperatures
        found = hottest_of(tuple(zones), list(zones.values()))
    return found


def _memory_clocks(samples: Sequence[Sample]) -> list[int]:
    """The known memory clocks in MHz."""
    stats = [sample.tegrastats for sample in samples if sample.tegrastats]
    return [each.memory_mhz for each in stats if each.memory_mhz is not None]


def _at(values: Sequence[int | None], place: int, count: int) -> int | None:
    """A sensor's value; None if the number of sensors has changed since the state was read."""
    return values[place] if len(values) == count else None


def _energy(samples: Sequence[Sample], state: BoardState) -> tuple[float, float] | None:
    """Joules and seconds, from the samples with a power reading."""
    points = []
    for sample in samples:
        rails = _rails(sample, state)
        whole = [value for label, value in rails if label.lower() in _WHOLE_BOARD]
        watts = whole or [value for _, value in rails]
        known = [value for value in watts if value is not None]
        if known and len(known) == len(watts):
            points.append((sample.uptime_seconds, sum(known) / 1e6))
    points.sort()
    return integral(points)


def _rails(sample: Sample, state: BoardState) -> list[tuple[str, int | None]]:
    """Each rail's label and microwatts; from tegrastats if the board has no rails."""
    if not state.rails:
        return list(sample.tegrastats.rails.items()) if sample.tegrastats else []
    return [
        (rail.label, _at(sample.rails, place, len(state.rails))) for place, rail in enumerate(state.rails)
    ]
