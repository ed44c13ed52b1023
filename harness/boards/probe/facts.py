"""The facts of a board, parsed from its output. Invalid output is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.boards.sensors.state import BoardState, Sensor
from harness.text import one_line

_MOST = 1024  # lines of a kind: cores, clocks, thermal zones and so on

# MIDR_EL1's implementer and part, as /proc/cpuinfo shows them: clang's name of the core.
CORES = {
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD04): "cortex-a35",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78ae",
    (0x41, 0xD46): "cortex-a510",
    (0x41, 0xD47): "cortex-a710",
    (0x41, 0xD49): "neoverse-n2",
    (0x4E, 0x003): "denver2",
    (0x4E, 0x004): "carmel",
}


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Cores that share a clock; frequencies in Hz, None if unknown."""

    cores: str  # as Linux lists them, "0 1 2 3"
    min_hz: float | None = None
    max_hz: float | None = None  # of the hardware
    limit_hz: float | None = None  # that the settings permit
    current_hz: float | None = None
    governor: str | None = None
    governors: tuple[str, ...] = ()  # to choose from


@dataclass(frozen=True, kw_only=True)
class ThermalZone:
    """A temperature of the board."""

    name: str
    celsius: float | None


@dataclass(frozen=True, kw_only=True)
class Throttle:
    """The source that reports throttling, and its state."""

    source: str  # "vcgencmd", "firmware", "soctherm", "cooling devices" or "none"
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """How many seconds the board's time is ahead of this machine's, ± `uncertainty`."""

    seconds: float
    uncertainty: float


@dataclass(frozen=True, kw_only=True)
class BoardFacts:
    """The facts of a board; None or empty if unknown. Texts are printable lines."""

    model: str | None = None
    kernel: str | None = None
    machine: str | None = None  # the kernel's architecture
    bits: int | None = None  # of the system's programs
    libc: str | None = None  # its own name
    glibc: str | None = None  # its version; None for another C library
    cores: tuple[str, ...] = ()  # the online ones, by name
    cores_present: int | None = None
    features: tuple[str, ...] = ()  # HWCAP's, by Linux's names, that all cores have
    clocks: tuple[Clock, ...] = ()
    thermal_zones: tuple[ThermalZone, ...] = ()
    throttle: Throttle = Throttle(source="none")
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    disk_free_bytes: int | None = None  # on the working folder's file system
    uptime_seconds: float | None = None
    clock_skew: ClockSkew | None = None


def parse_facts(output: str, state: BoardState, skew: ClockSkew | None = None) -> BoardFacts:
    """Parses the script's output and the sensors. Invalid parts are ignored; nothing is raised."""
    said: dict[str, list[str]] = {}
    for line in output.split("\n"):
        key, tab, value = line.partition("\t")
        if tab and len(said.setdefault(key, [])) < 8 * _MOST:
            said[key].append(value)

    def first(key: str) -> str | None:
        return one_line(said.get(key, [""])[0]) or None

    memory = re.fullmatch(r"MemTotal: *([0-9]{1,15}) kB", first("memory") or "")
    disk = re.search(r" [0-9]+ +[0-9]+ +([0-9]{1,15}) +[0-9]+% ", first("disk") or "")
    libc = first("libc")
    names, features = _cores(said.get("cpuinfo", []))
    return BoardFacts(
        model=first("model"),
        kernel=first("kernel"),
        machine=first("machine"),
        bits=_whole(first("bits") or ""),
        libc=libc,
        glibc=_glibc(libc or ""),
        cores=names,
        cores_present=_listed(first("present") or ""),
        features=features,
        clocks=tuple(_clocks(said.get("clock", []))),
        thermal_zones=tuple(_zone(zone) for zone in state.zones[:_MOST]),
        throttle=_throttle(first("firmware") or "", state),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        memory_available_bytes=state.available_bytes,
        disk_free_bytes=int(disk[1]) * 1024 if disk else None,
        uptime_seconds=state.uptime_seconds,
        clock_skew=skew,
    )


def _whole(text: str) -> int | None:
    found = re.fullmatch(r" *(-?[0-9]{1,15}) *", text)
    return int(found[1]) if found else None


def _hz(text: str | None) -> float | None:
    """From the kHz of cpufreq."""
    khz = _whole(text or "")
    return khz * 1e3 if khz is not None and khz > 0 else None


def _listed(text: str) -> int | None:
    """How many cores a list such as "0-3,6" names."""
    count = 0
    for part in text.split(","):
        found = re.fullmatch(r" *([0-9]{1,5})(?:-([0-9]{1,5}))? *", part)
        if found is None:
            return None
        count += max(0, int(found[2] or found[1]) - int(found[1]) + 1)
    return count or None


def _glibc(libc: str) -> str | None:
    """glibc's version from `getconf GNU_LIBC_VERSION` or the first line of its `ldd --version`."""
    found = re.fullmatch(r"(?:glibc|ldd \(.*\)) ([0-9]{1,3}(?:\.[0-9]{1,3})+)", libc)
    return found[1] if found and "musl" not in libc else None


def _cores(lines: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the cores in /proc/cpuinfo, and the features that all of them have."""
    cores: list[dict[str, str]] = []
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor":
            if len(cores) == _MOST:
                break
            cores.append({})
        elif cores:
            cores[-1][key] = value
    features = [core["Features"].split() for core in cores if "Features" in core]
    common = set(features[0]).intersection(*features[1:]) if features else set()
    return tuple(map(_core_name, cores)), tuple(
        dict.fromkeys(one_line(word) for word in (features[0] if features else ()) if word in common)
    )


def _core_name(core: dict[str, str]) -> str:
    implementer, part = (
        int(found[1], 16) if (found := re.fullmatch(r"0x([0-9a-fA-F]{1,4})", core.get(key, ""))) else None
        for key in ("CPU implementer", "CPU part")
    )
    if implementer is not None and part is not None:
        return CORES.get((implementer, part)) or f"implementer {implementer:#04x} part {part:#05x}"
    return one_line(core.get("model name", "")) or "unknown"


def _folders(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """By folder, the text of each file, of lines with folder, name and text."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        folder, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        if folder in found or len(found) < _MOST:
            found.setdefault(folder, {})[name] = one_line(text)
    return found


def _clocks(lines: Iterable[str]) -> Iterator[Clock]:
    for files in _folders(lines).values():
        yield Clock(
            cores=files.get("related_cpus", ""),
            min_hz=_hz(files.get("cpuinfo_min_freq")),
            max_hz=_hz(files.get("cpuinfo_max_freq")),
            limit_hz=_hz(files.get("scaling_max_freq")),
            current_hz=_hz(files.get("scaling_cur_freq")),
            governor=files.get("scaling_governor") or None,
            governors=tuple(files.get("scaling_available_governors", "").split()),
        )


def _zone(zone: Sensor) -> ThermalZone:
    celsius = None if zone.value is None or abs(zone.value) > 1_000_000 else zone.value / 1e3
    return ThermalZone(name=zone.label or "without a name", celsius=celsius)


def _throttle(firmware: str, state: BoardState) -> Throttle:
    """The best available source: Raspberry Pi's two, then Jetson's, then Linux's."""
    if state.throttled is not None:
        return Throttle(source="vcgencmd", state=f"{state.throttled:#x}")
    if re.fullmatch("[0-9a-f]{1,8}", firmware):
        return Throttle(source="firmware", state=f"0x{firmware}")
    for source, sensors in (("soctherm", state.events), ("cooling devices", state.coolers)):
        known = [(sensor.label, sensor.value) for sensor in sensors if sensor.value is not None]
        shown = [
            f"{label.removesuffix('_event_cnt')} {value}"
            for label, value in known
            if value > 0 or source == "soctherm"
        ]
        if known:
            return Throttle(source=source, state=one_line(", ".join(shown)) or "none active")
    return Throttle(source="none")
