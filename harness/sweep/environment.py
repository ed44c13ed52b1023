"""Facts about the machine of a sweep, stored with its results."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness import __version__
from harness.prediction.llvm import find_llvm
from harness.runtimes.base import find_runtime


@cache
def processor() -> str:
    """The name of the processor, and the number of cores that this process may use."""
    name = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            name = value.strip()
            break
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def environment(runtimes: Iterable[str] = ()) -> dict[str, str]:
    """Facts about this machine that bear on measurements, and the versions of the runtimes."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    memory = next((line.split(":")[1].strip() for line in _lines(Path("/proc/meminfo"))), "unknown")
    return {
        "harness": __version__,
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": processor(),
        "memory": memory,
        "governor": next(iter(_lines(governor)), "unknown"),
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "llvm": str(find_llvm() or "none"),  # predictions use its core models
        "virtual": "yes" if any("hypervisor" in line for line in _lines(Path("/proc/cpuinfo"))) else "no",
    } | {name: version for name in runtimes if (version := find_runtime(name).version)}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
