"""Boards for tests: one that does nothing, and this machine with each POSIX shell that is installed and
made-up /sys and /proc trees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

from harness.boards.base import MOST_OUTPUT, Completed, InstructionCounter, Profiler
from harness.boards.host import HostBoard
from harness.boards.paths import BoardPaths
from harness.config.targets import Target, load_target

# Words that a shell must neither run nor split.
HOSTILE = """it's "$(touch executed)" `touch executed`; touch executed\n * & -x é"""

SHELLS = [name for name in ("dash", "busybox") if shutil.which(name)]
# What BusyBox itself brings of what the scripts start; dash uses this machine's.
_APPLETS = ("sh", "sleep", "taskset", "cat", "rm", "mv", "tee")

_AWAIT_SAMPLES = r"""
samples() { wc -l <"$1"; }  # in a log
await_samples() { while [ "$(samples "$1")" -lt "$2" ]; do /bin/sleep 0.02; done; }  # log, number
"""


class FakeBoard:
    """A board that runs nothing, counts nothing and profiles nothing: tests override what they are about."""

    emulated = False
    sensors = BoardPaths()
    profiler: Profiler | None = None
    instruction_counter: InstructionCounter | None = None
    restore_script = "/there/undo"

    def __init__(self, name: str = "fake", target: Target | None = None) -> None:
        self.name = name
        self.target = target or load_target("pi4")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        return {name: f"/there/{path.name}" for name, path in files.items()}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        raise NotImplementedError

    def lock(self, pause: Callable[[float], object]) -> AbstractContextManager[None]:
        return nullcontext()

    def scratch(self, name: str) -> str:
        return f"/there/{name}"

    def fetch(self, remote: str, local: Path) -> None:
        raise NotImplementedError


class ShellBoard(HostBoard):
    """Runs programs on this machine; `sh`, and with BusyBox the other tools, are the given shell's."""

    def __init__(self, shell: str, programs: Path) -> None:
        super().__init__(load_target("host"))
        programs.mkdir(parents=True, exist_ok=True)
        found = shutil.which(shell)
        assert found
        for name in _APPLETS if shell == "busybox" else ("sh",):
            (programs / name).symlink_to(found)
        self.programs = programs
        self.restore_script = str(programs / f"undo {HOSTILE}")

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        path = f"{self.programs}:{os.environ['PATH']}"
        environment = {"PATH": path, **(environment or {})}
        return super().run(argv, timeout=timeout, environment=environment, most_output=most_output)


def waiting(script: str, *arguments: str) -> list[str]:
    """A program to be run sampled, which may call `samples` and `await_samples`."""
    return ["sh", "-c", _AWAIT_SAMPLES + script, "sh", *arguments]


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def cores(count: int, *, clock: int, maximum: int, limit: int | None = None, governor: str) -> dict[str, str]:
    """The files of cpufreq; clocks in kHz."""
    return {
        f"sys/devices/system/cpu/cpu{index}/cpufreq/{name}": f"{value}\n"
        for index in range(count)
        for name, value in {
            "scaling_cur_freq": clock,
            "cpuinfo_max_freq": maximum,
            "scaling_max_freq": limit or maximum,
            "scaling_governor": governor,
        }.items()
    }


def raspberry_pi(root: Path) -> BoardPaths:
    """A Raspberry Pi 4 at rest, in folders with awkward names."""
    root = root / HOSTILE
    write(
        root,
        {
            **cores(4, clock=1_500_000, maximum=1_800_000, governor="ondemand"),
            "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
            "sys/class/thermal/thermal_zone0/temp": "48312\n",
            "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
            "proc/uptime": "1234.56 4800.00\n",
            "proc/loadavg": "0.25 0.50 0.75 1/123 4567\n",
            "proc/meminfo": "MemTotal:  3884000 kB\nMemFree: 1 kB\nMemAvailable:    3000000 kB\n",
            "proc/sys/kernel/random/boot_id": "6e1ed56a-0000-4000-8000-000000000001\n",
            "bits": "0x0\n",
            "bin/vcgencmd": '#!/bin/sh\n[ "$1" = get_throttled ] && read -r bits <"${0%/bin/*}/bits" '
            '&& echo "throttled=$bits"\n',
        },
    )
    (root / "bin" / "vcgencmd").chmod(0o755)
    return _paths(root, vcgencmd=str(root / "bin" / "vcgencmd"))


def jetson_nano(root: Path) -> BoardPaths:
    """A Jetson Nano in its 5 W mode, slowed down by heat, with a power sensor; a core is off line."""
    root = root / HOSTILE
    zones = {"AO-therm": "43000", "CPU-therm": "71500", "PMIC-Die": "100000", "GPU-therm": "-256000"}
    coolers = {"pwm-fan": "3", "cpufreq-cpu0": "2", "tegra-x": "x"}
    files = cores(4, clock=710_400, maximum=1_479_000, limit=918_000, governor="schedutil")
    gone = "sys/devices/system/cpu/cpu3/cpufreq"
    files = {name: text for name, text in files.items() if not name.startswith(gone)}
    for n, (label, value) in enumerate(zones.items()):
        files[f"sys/class/thermal/thermal_zone{n}/type"] = f"{label}\n"
        files[f"sys/class/thermal/thermal_zone{n}/temp"] = f"{value}\n"
    for n, (label, value) in enumerate(coolers.items()):
        files[f"sys/class/thermal/cooling_device{n}/type"] = f"{label}\n"
        files[f"sys/class/thermal/cooling_device{n}/cur_state"] = f"{value}\n"
    chip = "sys/class/hwmon/hwmon1"
    for channel, (label, millivolts, milliamperes) in enumerate(
        (("VDD_IN", 5000, 900), ("VDD_CPU", 5000, 400), ("VDD_GPU", 5000, 8)), start=1
    ):
        files[f"{chip}/in{channel}_label"] = f"{label}\n"
        files[f"{chip}/in{channel}_input"] = f"{millivolts}\n"
        files[f"{chip}/curr{channel}_input"] = f"{milliamperes}\n"
    write(
        root,
        {
            **files,
            "sys/devices/system/cpu/cpu3/online": "0\n",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "schedutil\n",
            f"{chip}/name": "ina3221\n",
            "sys/class/hwmon/hwmon2/name": "ina219\n",
            "sys/class/hwmon/hwmon2/power1_input": "250000\n",
            "sys/class/hwmon/hwmon2/curr1_input": "50\n",
            "sys/class/hwmon/hwmon3/name": "soctherm_oc\n",
            "sys/class/hwmon/hwmon3/oc1_event_cnt": "7\n",
            "proc/device-tree/model": "NVIDIA Jetson Nano Developer Kit\0",
            "proc/uptime": "99.00 1.00\n",
        },
    )
    return _paths(root)


def bare(root: Path) -> BoardPaths:
    """A board of which nothing can be read."""
    return _paths(root / HOSTILE / "nothing")


def folder_of(paths: BoardPaths) -> Path:
    return Path(paths.sys).parent


def _paths(root: Path, vcgencmd: str = "no-such-program") -> BoardPaths:
    return BoardPaths(
        sys=str(root / "sys"),
        proc=str(root / "proc"),
        vcgencmd=vcgencmd,
    )
