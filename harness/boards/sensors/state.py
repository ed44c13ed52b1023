"""A board's state at one moment: clocks, governors, temperatures, throttling, load, memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.boards.base import Board
from harness.boards.paths import BoardPaths
from harness.boards.sensors.script import SENSORS
from harness.errors import HarnessError
from harness.text import one_line

STATE_SECONDS = 30.0

# Text is last in a line, so that its content cannot shift the numbers.
_SCRIPT = (
    SENSORS
    + r"""
say() { printf '%s\t' "$@"; echo; }

first "$proc/device-tree/model"
say model "$value"
for core in $cores; do
  number "$core/cpufreq/scaling_cur_freq"; clock=$value
  number "$core/cpufreq/cpuinfo_max_freq"; maximum=$value
  number "$core/cpufreq/scaling_max_freq"; limit=$value
  first "$core/cpufreq/scaling_governor"
  say core "${core##*/cpu}" "$clock" "$maximum" "$limit" "$value"
done
for zone in $zones; do first "$zone/type"; type=$value; number "$zone/temp"; say zone "$value" "$type"; done
for cooler in $coolers; do
  first "$cooler/type"; type=$value
  number "$cooler/cur_state"
  say cooler "$value" "$type"
done
for event in $events; do number "$event"; say event "$value" "${event##*/}"; done
for rail in $rails; do
  channel=${rail##*/}; channel=${channel%_input}; channel=${channel#curr}; channel=${channel#power}
  case $channel in
  in_power*) first "${rail%/*}/rail_name_${channel#in_power}" ;;
  *) first "${rail%/*}/in${channel}_label" ;;
  esac
  label=$value
  power "$rail"
  say rail "$value" "$label"
done
throttled
say throttled "$value"
first "$proc/uptime"
say uptime "$value"
first "$proc/loadavg"
say load "$value"
[ -r "$proc/meminfo" ] && while read -r key kilobytes rest; do
  [ "$key" = MemAvailable: ] && say memory "$kilobytes"
done <"$proc/meminfo"
say end
"""
)

# Thermal zones near the cores. If there are any, the others are ignored: for example, the power management
# chip of a Jetson Nano always shows 100 degrees.
_NEAR_CORES = ("cpu", "soc", "pkg")
_PLAUSIBLE = range(-40_000, 150_001)  # millidegrees; sensors that are off show -256 degrees
# Values outside of these ranges count as unknown: the driver or hardware is faulty.
CLOCKS_KHZ = range(100_000_001)
RAILS_MICROWATTS = range(-(10**10), 10**10 + 1)
COOLER_STATES = range(-1, 1_000_001)
UPTIME_SECONDS = 1e10
_MEMORY_KIB = range(1 << 36)
_MOST_SENSORS = 1024  # of a kind, and as many cores
_MOST_OUTPUT = 1 << 20

# Linux throttles a core by a cooling device. Its name contains `cpufreq` in mainline, `CPU-balanced` in
# NVIDIA's kernels and `Processor` with ACPI.
_CORE_COOLER = re.compile("cpu|processor", re.IGNORECASE)

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_REAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_BITS = re.compile(r"0x[0-9a-fA-F]{1,16}")


_SENSOR_VALUES = {"cooler": COOLER_STATES, "rail": RAILS_MICROWATTS}


@dataclass(frozen=True, kw_only=True)
class Core:
    """A core's clock. None: unknown, for example of an offline core."""

    index: int
    clock_khz: int | None  # as set by Linux; the firmware may lower it
    maximum_khz: int | None  # of the hardware
    limit_khz: int | None  # the current maximum for Linux
    governor: str  # empty: none


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """A sensor's label and value."""

    label: str
    value: int | None


@dataclass(frozen=True, kw_only=True)
class BoardState:
    """A board at one moment. Lists are in the order in which the sampler takes the same sensors."""

    model: str  # empty without a device tree
    cores: tuple[Core, ...]
    zones: tuple[Sensor, ...]  # millidegrees
    coolers: tuple[Sensor, ...]  # cooling devices: 0 at rest
    events: tuple[Sensor, ...]  # how often a Jetson was throttled for over-current or under-voltage
    rails: tuple[Sensor, ...]  # microwatts
    throttled: int | None  # bits of `vcgencmd get_throttled`
    uptime_seconds: float | None
    load: tuple[float, ...]  # runnable threads, mean over 1, 5 and 15 minutes; may be empty
    available_bytes: int | None

    @property
    def governors(self) -> tuple[str, ...]:
        """The governors in use."""
        return tuple(sorted({core.governor for core in self.cores if core.governor}))

    @property
    def hottest_celsius(self) -> float | None:
        """The hottest zone of the cores, or of all zones if none is known to be theirs."""
        return self.hottest([zone.value for zone in self.zones])

    def hottest(self, millidegrees: Sequence[int | None]) -> float | None:
        """The hottest core's temperature among readings of this board's zones, in degrees Celsius."""
        labels = tuple([zone.label for zone in self.zones])
        if len(labels) != len(millidegrees):  # zones have changed since
            labels = ("",) * len(millidegrees)
        return hottest_of(labels, millidegrees)

    @property
    def core_coolers(self) -> tuple[int, ...]:
        """The indices of the cooling devices that throttle cores."""
        return tuple(n for n, cooler in enumerate(self.coolers) if _CORE_COOLER.search(cooler.label))

    @property
    def throttle_sources(self) -> tuple[str, ...]:
        """The sources that report throttling on this board; may be empty."""
        found = {
            "vcgencmd": self.throttled is not None,
            "cooling devices": bool(self.core_coolers),
            "over-current counters": bool(self.events),
        }
        return tuple(name for name, present in found.items() if present)


def hottest_of(labels: tuple[str, ...], millidegrees: Sequence[int | None]) -> float | None:
    """The highest temperature of the cores in degrees Celsius; of all zones if no label is a core's."""
    for places in _zone_groups(labels):
        values = [millidegrees[place] for place in places]
        known = [value for value in values if value is not None and value in _PLAUSIBLE]
        if known:
            return max(known) / 1000
    return None


@lru_cache(256)  # a board keeps its zones
def _zone_groups(labels: tuple[str, ...]) -> list[list[int]]:
    """The indices of the zones with each word of _NEAR_CORES, then of all zones."""
    words = (*_NEAR_CORES, "")
    return [[place for place, label in enumerate(labels) if word in label.lower()] for word in words]


def read_state(board: Board, paths: BoardPaths | None = None) -> BoardState:
    """Reads a board's state by one shell command. Missing values are None or empty.

    Raises HarnessError if the shell cannot run the script.
    """
    words = ["sh", "-c", _SCRIPT, "sh", *(paths or BoardPaths()).arguments]
    result = board.run(words, timeout=STATE_SECONDS, most_output=_MOST_OUTPUT)
    lines = [line.split("\t") for line in result.stdout.split("\n")]
    if ["end", ""] not in lines:
        raise HarnessError(
            f"{board.name}: the shell did not report the state of the board (status {result.status})",
            hint="The board needs a POSIX shell as `sh`, such as dash or BusyBox.",
        )
    state = _parse(lines)
    for what in ("cores", "zones", "coolers", "events", "rails"):
        if (count := len(getattr(state, what))) > _MOST_SENSORS:
            raise HarnessError(f"{board.name}: implausible result: its state has {count} {what}")
    return state


def _parse(lines: Sequence[Sequence[str]]) -> BoardState:
    # In one pass, as this runs before and after every run on every board.
    cores: list[Core] = []
    sensors: dict[str, list[Sensor]] = {"zone": [], "cooler": [], "event": [], "rail": []}
    said: dict[str, str] = {}
    for kind, *fields in lines:
        if kind in sensors and len(fields) >= 2:
            value = whole(fields[0], _SENSOR_VALUES.get(kind))
            sensors[kind].append(Sensor(label=one_line(fields[1]), value=value))
        elif kind == "core" and len(fields) >= 5:
            cores.append(_core(*fields[:5]))
        elif fields:
            said.setdefault(kind, fields[0])
    kilobytes = whole(said.get("memory", ""), _MEMORY_KIB)
    uptime = said.get("uptime", "").split()
    load = [real(word) for word in said.get("load", "").split()[:3]]
    return BoardState(
        model=one_line(said.get("model", "")),
        cores=tuple(cores),
        zones=tuple(sensors["zone"]),
        coolers=tuple(sensors["cooler"]),
        events=tuple(sensors["event"]),
        rails=tuple(sensors["rail"]),
        throttled=bits(said.get("throttled", "")),
        uptime_seconds=real(uptime[0], UPTIME_SECONDS) if uptime else None,
        load=tuple([value for value in load if value is not None]),
        available_bytes=None if kilobytes is None else kilobytes * 1024,
    )


@lru_cache(256)  # a core with a constant clock repeats the same values
def _core(index: str, clock: str, maximum: str, limit: str, governor: str) -> Core:
    return Core(
        index=whole(index) or 0,
        clock_khz=whole(clock, CLOCKS_KHZ),
        maximum_khz=whole(maximum, CLOCKS_KHZ),
        limit_khz=whole(limit, CLOCKS_KHZ),
        governor=one_line(governor),
    )


def whole(text: str, within: range | None = None) -> int | None:
    """Parses an integer; None if invalid or not `within`."""
    if not _WHOLE.fullmatch(text):
        return None
    value = int(text)
    return value if within is None or value in within else None


def real(text: str, most: float = math.inf) -> float | None:
    """Parses a decimal number; None if invalid or greater than `most`."""
    if not _REAL.fullmatch(text):
        return None
    value = float(text)
    return value if value <= most else None


def bits(text: str) -> int | None:
    """Parses bits as vcgencmd prints them."""
    return int(text, 16) if _BITS.fullmatch(text) else None
