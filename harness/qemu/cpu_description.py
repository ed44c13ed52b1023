"""A board's /sys/devices/system/cpu, for emulated boards.

Runtimes choose kernels by the core's identity and block sizes by its caches, and read both there. Without
this they would see the processor of the machine that emulates.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from harness.resources import cache_directory
from harness.temporary import fresh_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.config.board_data import BoardData

MOUNT_POINT = "/sys/devices/system/cpu"
_LINE_BYTES = 64


def prepare_cpu_description(board: BoardData) -> Path:
    """The folder for MOUNT_POINT; created if missing."""
    files = describe(board)
    key = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_directory() / "cpu" / key
    if not folder.is_dir():
        with fresh_folder(folder) as made:
            for path, text in files.items():
                file = made / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{text}\n", encoding="ascii")
            for path_ in (made, *made.rglob("*")):  # a private umask must not hide it from the board's user
                path_.chmod(0o755 if path_.is_dir() else 0o444)
    return folder


def describe(board: BoardData) -> dict[str, str]:
    """The files and their text."""
    everybody = range(board.cores)
    files = dict.fromkeys(("possible", "present", "online"), _list(everybody))
    for core in everybody:
        folder = f"cpu{core}"
        files[f"{folder}/regs/identification/midr_el1"] = f"0x{board.midr:016x}"
        files[f"{folder}/cpufreq/cpuinfo_max_freq"] = str(round(board.clock_hz / 1e3))
        files[f"{folder}/topology/physical_package_id"] = "0"
        files[f"{folder}/topology/core_id"] = str(core)
        for name, members in (
            ("core_cpus", [core]),
            ("thread_siblings", [core]),
            ("package_cpus", everybody),
        ):
            files[f"{folder}/topology/{name}"] = _mask(members)
            files[f"{folder}/topology/{name}_list"] = _list(members)
        for index, cache in enumerate(board.caches):
            sharing = everybody if cache.shared else [core]
            values = {
                "level": str(index + 1),
                "type": "Data" if index == 0 else "Unified",
                "size": f"{cache.kib}K",
                "ways_of_associativity": str(cache.ways),
                "coherency_line_size": str(_LINE_BYTES),
                "number_of_sets": str(cache.kib * 1024 // _LINE_BYTES // cache.ways),
                "shared_cpu_map": _mask(sharing),
                "shared_cpu_list": _list(sharing),
            }
            files |= {f"{folder}/cache/index{index}/{name}": text for name, text in values.items()}
    return files


def _mask(cores: Sequence[int]) -> str:
    return f"{sum(1 << core for core in cores):x}"


def _list(cores: Sequence[int]) -> str:
    return f"{cores[0]}-{cores[-1]}" if len(cores) > 1 else str(cores[0])
