"""What boards tell about themselves: the script on made-up boards, its output however wrong, and targets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.base import MOST_OUTPUT, Completed
from harness.boards.host import HostBoard
from harness.boards.paths import BoardPaths
from harness.boards.probe.expectations import mismatches
from harness.boards.probe.facts import BoardFacts, Clock, ThermalZone, Throttle, parse_facts
from harness.boards.probe.read import parse_skew, probe
from harness.boards.sensors.state import BoardState, Sensor
from harness.config.targets import all_targets, load_target
from harness.errors import HarnessError
from harness.text import one_line

PI_4_FEATURES = "fp asimd evtstrm crc32 cpuid"
SHELLS = [shell for shell in (["dash"], ["bash", "--posix"]) if shutil.which(shell[0]) is not None]


def cpuinfo(*cores: tuple[str, str], features: str = PI_4_FEATURES) -> str:
    return "\n".join(
        f"processor\t: {index}\nBogoMIPS\t: 108.00\nFeatures\t: {features}\n"
        f"CPU implementer\t: {implementer}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 3\n"
        for index, (implementer, part) in enumerate(cores)
    )


PI_4 = {
    "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
    "proc/cpuinfo": cpuinfo(*[("0x41", "0xd08")] * 4),
    "proc/meminfo": "MemTotal:        3884276 kB\nMemFree:   1 kB\nMemAvailable:    3500000 kB\n",
    "proc/uptime": "7384.21 20000.00\n",
    "sys/devices/system/cpu/present": "0-3\n",
    "sys/devices/system/cpu/cpufreq/policy0/related_cpus": "0 1 2 3\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq": "600000\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "1800000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1800000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "700000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "ondemand\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": "ondemand performance\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48212\n",
    "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
    "sys/class/thermal/cooling_device0/cur_state": "0\n",
}
ANSWERS = {
    "uname": "case $1 in -r) echo 6.6.31+rpt-rpi-v8 ;; -m) echo aarch64 ;; esac",
    "getconf": "case $1 in LONG_BIT) echo 64 ;; GNU_LIBC_VERSION) echo glibc 2.36 ;; *) exit 1 ;; esac",
    "df": "echo Filesystem; echo '/dev/mmcblk0p2  30000000 10000000  20000000      34% /'",
}
VCGENCMD = "[ $1 = get_throttled ] && echo throttled=0x50005"


class MadeUpBoard(HostBoard):
    """Has the given files, and no programs but those that answer as given."""

    def __init__(
        self, folder: Path, files: Mapping[str, str], answers: Mapping[str, str], shell: list[str]
    ) -> None:
        super().__init__(load_target("host"))
        root, programs = folder / "it's $(a) root", folder / "programs"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode(errors="surrogateescape"))
        programs.mkdir()
        for name in ("dd", "tr", "grep", "head", "tail", "cat"):
            real = shutil.which(name)
            assert real is not None
            (programs / name).symlink_to(real)
        for name, answer in {
            "sh": f'exec {shutil.which(shell[0])} {" ".join(shell[1:])} "$@"',
            **answers,
        }.items():
            (programs / name).write_text(f"#!/bin/sh\n{answer}\n")
            (programs / name).chmod(0o755)
        self.folder, self.programs = folder, programs
        self.sensors = BoardPaths(sys=str(root / "sys"), proc=str(root / "proc"))

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        if not (self.programs / argv[0]).exists():
            return Completed(status=127, stdout="", stderr="")
        done = subprocess.run(
            argv,
            capture_output=True,
            env={"PATH": str(self.programs), **(environment or {})},
            cwd=self.folder,
            check=False,
            timeout=timeout,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return Completed(status=0, stdout=done.stdout.decode(errors="replace"), stderr="")


def facts_of(
    folder: Path,
    files: Mapping[str, str],
    answers: Mapping[str, str] = ANSWERS,
    shell: list[str] | None = None,
    work: str = "harness",
) -> BoardFacts:
    return probe(MadeUpBoard(folder, files, answers, shell or SHELLS[0]), work)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_raspberry_pi_is_what_it_says(tmp_path: Path, shell: list[str]) -> None:
    facts = facts_of(tmp_path, PI_4, ANSWERS | {"vcgencmd": VCGENCMD}, shell)
    assert facts == BoardFacts(
        model="Raspberry Pi 4 Model B Rev 1.4",
        kernel="6.6.31+rpt-rpi-v8",
        machine="aarch64",
        bits=64,
        libc="glibc 2.36",
        glibc="2.36",
        cores=("cortex-a72",) * 4,
        cores_present=4,
        features=tuple(PI_4_FEATURES.split()),
        clocks=(
            Clock(
                cores="0 1 2 3",
                min_hz=600e6,
                max_hz=1800e6,
                limit_hz=1800e6,
                current_hz=700e6,
                governor="ondemand",
                governors=("ondemand", "performance"),
            ),
        ),
        thermal_zones=(ThermalZone(name="cpu-thermal", celsius=48.212),),
        throttle=Throttle(source="vcgencmd", state="0x50005"),
        memory_bytes=3884276 * 1024,
        memory_available_bytes=3500000 * 1024,
        disk_free_bytes=20000000 * 1024,
        uptime_seconds=7384.21,
    )
    assert mismatches(facts, load_target("pi4")) == []


def test_a_jetson_with_two_kinds_of_core_is_what_it_says(tmp_path: Path) -> None:
    a57, denver = ("0x41", "0xd07"), ("0x4e", "0x003")
    cpu = "sys/devices/system/cpu"
    facts = facts_of(
        tmp_path,
        {
            "proc/device-tree/model": "quill\0",
            "proc/cpuinfo": cpuinfo(a57, denver, denver, a57, a57, a57),
            f"{cpu}/present": "0-5\n",
            f"{cpu}/cpufreq/policy0/cpuinfo_max_freq": "2035200\n",
            f"{cpu}/cpufreq/policy1/cpuinfo_max_freq": "2035200\n",
            "sys/class/hwmon/hwmon3/name": "soctherm_oc\n",
            "sys/class/hwmon/hwmon3/oc1_event_cnt": "2\n",
            "sys/class/hwmon/hwmon3/oc3_event_cnt": "0\n",
        },
        ANSWERS
        | {
            "getconf": "case $1 in *LIBC*) exit 1 ;; *) echo 64 ;; esac",
            "ldd": "echo 'ldd (Ubuntu GLIBC 2.27-3ubuntu1.6) 2.27'; echo more",
        },
    )
    assert facts.cores.count("cortex-a57") == 4
    assert facts.cores.count("denver2") == 2
    assert [clock.max_hz for clock in facts.clocks] == [2035.2e6] * 2
    assert facts.throttle == Throttle(source="soctherm", state="oc1 2, oc3 0")
    assert facts.glibc == "2.27"
    assert mismatches(facts, load_target("jetson-tx2")) == []


@pytest.mark.parametrize(
    ("files", "answers", "source", "state"),
    [
        (
            {},
            {"vcgencmd": "echo 'VCHI initialization failed' >&2; exit 255"},
            "cooling devices",
            "none active",
        ),
        ({"sys/class/thermal/cooling_device0/cur_state": "3\n"}, {}, "cooling devices", "cpufreq-cpu0 3"),
        ({"sys/devices/platform/soc/soc:firmware/get_throttled": "80008\n"}, {}, "firmware", "0x80008"),
    ],
)
def test_the_best_throttle_source_is_used(
    tmp_path: Path, files: dict[str, str], answers: dict[str, str], source: str, state: str
) -> None:
    facts = facts_of(tmp_path, PI_4 | files, ANSWERS | answers)
    assert facts.throttle == Throttle(source=source, state=state)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_board_that_has_nothing_tells_nothing(tmp_path: Path, shell: list[str]) -> None:
    assert facts_of(tmp_path, {}, {}, shell) == BoardFacts()


def test_sensors_are_where_the_boards_file_says(tmp_path: Path) -> None:
    board = MadeUpBoard(tmp_path, PI_4, ANSWERS | {"elsewhere": VCGENCMD}, SHELLS[0])
    board.sensors = replace(board.sensors, vcgencmd=str(board.programs / "elsewhere"))
    assert probe(board, "harness").throttle == Throttle(source="vcgencmd", state="0x50005")


def test_another_c_library_is_named(tmp_path: Path) -> None:
    answers = {
        "getconf": "echo getconf: GNU_LIBC_VERSION: unknown >&2; exit 1",
        "ldd": "echo 'musl libc (aarch64)' >&2",
    }
    facts = facts_of(tmp_path, PI_4, ANSWERS | answers)
    assert (facts.libc, facts.glibc) == ("musl libc (aarch64)", None)
    (mismatch,) = mismatches(facts, load_target("pi4"))
    assert "the C library is musl libc (aarch64), but pi4 has glibc 2.36" in mismatch.message


@pytest.mark.parametrize("name", ["-n", "it's $(touch executed)", 'a "b"\nc', "ü ☕"])
def test_the_working_folder_is_a_path_and_nothing_else(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    real = shutil.which("df")
    answers = {"df": f'for last; do :; done; [ -d "$last" ] || echo "no $last" >&2; {real} "$@"'}
    assert facts_of(tmp_path, PI_4, ANSWERS | answers, work=name).disk_free_bytes is not None
    assert not (tmp_path / "executed").exists()


def test_a_working_folder_that_is_not_there_yet_has_the_disk_of_the_home_folder(tmp_path: Path) -> None:
    answers = ANSWERS | {"df": f'{shutil.which("df")} "$@"'}
    assert facts_of(tmp_path, PI_4, answers, work="not/there").disk_free_bytes is not None


def test_lines_and_tabs_in_files_and_answers_make_no_lines_of_their_own(tmp_path: Path) -> None:
    forged = "x\nmachine\tarmv7l\nend\t\n\x1b[31m\udcff"
    facts = facts_of(
        tmp_path,
        PI_4
        | {
            "proc/device-tree/model": forged,
            "sys/class/thermal/thermal_zone0/type": forged,
            "proc/cpuinfo": PI_4["proc/cpuinfo"] + "Features\t: a\tb\nmodel name\t: x\tend\n",
        },
        ANSWERS | {"vcgencmd": r"printf 'throttled=0x0\nmachine\tarmv7l\n'"},
    )
    assert facts.machine == "aarch64"
    assert facts.model == "x machine armv7l end [31m\ufffd"
    assert facts.thermal_zones[0].name == "x"
    assert facts.throttle.source == "cooling devices"


LINES = st.tuples(
    st.sampled_from(
        [
            "model",
            "kernel",
            "machine",
            "bits",
            "libc",
            "cpuinfo",
            "present",
            "clock",
            "firmware",
            "memory",
            "disk",
            "end",
            "other",
        ]
    ),
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"(processor|Features|CPU part|CPU implementer) *: *(0x)?[0-9a-f]{0,30}"),
        st.from_regex(r"policy[0-9] (related_cpus|cpuinfo_max_freq|scaling_governor) [0-9 -]{0,400}"),
        st.from_regex(r"MemTotal: *-?[0-9]{0,30} kB"),
        st.from_regex(r"[0-9]{1,30}-[0-9]{1,30}(,[0-9]{1,9})*"),
        st.from_regex(r"/dev/x +[0-9]{1,30} +[0-9]{1,30} +[0-9]{1,30} +[0-9]{1,3}% /"),
        st.from_regex(r"(glibc|ldd \(GNU libc\)) [0-9.٣]{0,40}"),
        st.from_regex(r"[0-9a-f]{0,20}"),
    ),
).map("\t".join)


SENSORS = st.lists(
    st.builds(Sensor, label=st.text().map(one_line), value=st.none() | st.integers(-(10**18), 10**18)),
    max_size=20,
).map(tuple)
NOTHING = BoardState(
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
STATES = st.builds(
    lambda zones, coolers, events, throttled: replace(
        NOTHING, zones=zones, coolers=coolers, events=events, throttled=throttled
    ),
    *(SENSORS, SENSORS, SENSORS, st.none() | st.integers(0, 1 << 64)),
)


@given(output=st.one_of(st.text(), st.lists(LINES, max_size=40).map("\n".join)), state=STATES)
def test_any_output_of_a_board_is_parsed_to_printable_facts(output: str, state: BoardState) -> None:
    facts = parse_facts(output, state)
    shown = asdict(facts)
    json.dumps(shown, allow_nan=False)
    for text in texts(shown):
        assert text.isprintable()
        assert len(text) <= 200
    for target in TARGETS:
        for mismatch in mismatches(facts, target):
            assert mismatch.message.isprintable()
            assert mismatch.hint


TARGETS = all_targets()


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list | tuple) else []


def test_much_output_is_cut() -> None:
    zones = (Sensor(label="t", value=1),) * 50_000
    said = "".join(f"cpuinfo\tprocessor : {n}\n" for n in range(50_000))
    facts = parse_facts(said, replace(NOTHING, zones=zones))
    assert (len(facts.cores), len(facts.thermal_zones)) == (1024, 1024)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000003.500000000\n", (2.5, 1.0)),
        ("999998.000000000\n", (-3.0, 1.0)),
        ("1000001\n", (0.5, 1.5)),  # BusyBox: the second alone
        ("1000001.%N\n", (0.5, 1.5)),
        ("1000001.N\n", (0.5, 1.5)),
        ("", None),
        ("-1\n", None),
        ("date: invalid\n", None),
    ],
)
def test_the_clock_skew_is_known_to_half_the_round_trip(
    text: str, expected: tuple[float, float] | None
) -> None:
    skew = parse_skew(text, asked=1e6, round_trip=2.0)
    assert (None if skew is None else (skew.seconds, skew.uncertainty)) == expected


def test_this_machine_can_be_looked_at() -> None:
    with HostBoard(load_target("host")) as board:
        facts = probe(board, "/")
    assert facts.machine == os.uname().machine
    assert facts.cores
    assert facts.clock_skew is not None
    assert abs(facts.clock_skew.seconds) <= facts.clock_skew.uncertainty + 0.1
    assert facts.disk_free_bytes is not None


def test_a_board_without_a_shell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Completed(status=127, stdout="", stderr="sh: not found\x1b\n")
    monkeypatch.setattr(HostBoard, "run", lambda *_, **__: gone)
    with (
        HostBoard(load_target("host")) as board,
        pytest.raises(HarnessError, match="the probe script failed with status 127: sh: not found"),
    ):
        probe(board, "/")
