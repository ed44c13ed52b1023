"""What a board told about itself. Its text is input like any: what makes no sense in it is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.boards.command_line import one_line

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
    """Cores that are clocked together; frequencies in Hz, None where the board does not say."""

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
    """Where the board tells that it slows itself down, and what it told."""

    source: str  # "vcgencmd", "firmware", "soctherm", "cooling devices" or "none"
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """By how many seconds the board's time is ahead of this machine's, give or take `uncertainty`."""

    seconds: float
    uncertainty: float


@dataclass(frozen=True, kw_only=True)
class BoardFacts:
    """What a board told about itself; None or empty for what it did not tell. Texts are printable lines."""

    model: str | None = None
    kernel: str | None = None
    machine: str | None = None  # the kernel's architecture
    bits: int | None = None  # of the system's programs
    libc: str | None = None  # as it calls itself
    glibc: str | None = None  # its version; None for another C library
    cores: tuple[str, ...] = ()  # that are switched on, by name
    cores_present: int | None = None
    features: tuple[str, ...] = ()  # HWCAP's, by Linux's names, that all cores have
    clocks: tuple[Clock, ...] = ()
    thermal_zones: tuple[ThermalZone, ...] = ()
    throttle: Throttle = Throttle(source="none")
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    disk_free_bytes: int | None = None  # where the working folder is
    uptime_seconds: float | None = None
    clock_skew: ClockSkew | None = None


def parse_facts(output: str, skew: ClockSkew | None = None) -> BoardFacts:
    """From what the script printed. What makes no sense is left out; nothing is raised."""
    said: dict[str, list[str]] = {}
    for line in output.split("\n"):
        key, tab, value = line.partition("\t")
        if tab and len(said.setdefault(key, [])) < 8 * _MOST:
            said[key].append(value)

    def first(key: str) -> str | None:
        return one_line(said.get(key, [""])[0]) or None

    memory = {key: _whole(rest.removesuffix("kB")) for key, rest in _pairs(said.get("memory", []), ":")}
    disk = re.search(r" [0-9]+ +[0-9]+ +([0-9]{1,15}) +[0-9]+% ", first("disk") or "")
    libc = first("libc")
    names, features = _cores(said.get("cpuinfo", []))
    uptime = re.match(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ", first("uptime") or "")
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
        thermal_zones=tuple(_zones(said.get("zone", []))),
        throttle=_throttle(said),
        memory_bytes=_times(memory.get("MemTotal"), 1024),
        memory_available_bytes=_times(memory.get("MemAvailable"), 1024),
        disk_free_bytes=int(disk[1]) * 1024 if disk else None,
        uptime_seconds=float(uptime[1]) if uptime else None,
        clock_skew=skew,
    )


def _whole(text: str) -> int | None:
    found = re.fullmatch(r" *(-?[0-9]{1,15}) *", text)
    return int(found[1]) if found else None


def _times(number: int | None, factor: int) -> int | None:
    return number * factor if number is not None and number >= 0 else None


def _hz(text: str | None) -> float | None:
    """From the kHz of cpufreq."""
    khz = _whole(text or "")
    return khz * 1e3 if khz is not None and khz > 0 else None


def _pairs(lines: Iterable[str], separator: str) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, found, value = line.partition(separator)
        if found:
            yield key.strip(), value.strip()


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
    for key, value in _pairs(lines, ":"):
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


def _zones(lines: Iterable[str]) -> Iterator[ThermalZone]:
    for folder, files in _folders(lines).items():
        thousandths = _whole(files.get("temp", ""))
        celsius = None if thousandths is None or abs(thousandths) > 1_000_000 else thousandths / 1e3
        yield ThermalZone(name=files.get("type") or one_line(folder), celsius=celsius)


def _throttle(said: dict[str, list[str]]) -> Throttle:
    """The most telling source there is: the Raspberry Pi's two, then the Jetson's, then Linux's own."""
    for source, pattern in (
        ("vcgencmd", r"throttled=0x([0-9a-f]{1,8}) *"),
        ("firmware", r".* ([0-9a-f]{1,8}) *"),
    ):
        for line in said.get(source, []):
            if found := re.fullmatch(pattern, line):
                return Throttle(source=source, state=f"0x{found[1]}")
    counters = [
        f"{name.removesuffix('_event_cnt')} {count}"
        for files in _folders(said.get("soctherm", [])).values()
        for name, text in files.items()
        if (count := _whole(text)) is not None
    ]
    if counters:
        return Throttle(source="soctherm", state=one_line(", ".join(counters)))
    devices = [
        (files.get("type") or one_line(folder), state)
        for folder, files in _folders(said.get("cooling", [])).items()
        if (state := _whole(files.get("cur_state", ""))) is not None
    ]
    if devices:
        active = ", ".join(f"{name} {state}" for name, state in devices if state > 0)
        return Throttle(source="cooling devices", state=one_line(active) or "none active")
    return Throttle(source="none")
