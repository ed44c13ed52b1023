"""Raspberry Pis on loopback, for benchmarks: an sshd each, under which arm64 programs run by QEMU."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from board import ARM64_LIBRARIES
from ssh_server import running_server

from harness.qemu.binfmt import ARM64_HINT, arm64_programs_run
from harness.resources import cache_directory

TARGET = "pi4"


@contextlib.contextmanager
def raspberry_pi(
    name: str, folder: Path, *, work: Path, environment: Mapping[str, str] | None = None
) -> Iterator[dict[str, object]]:
    """The entry of a boards file for a board that keeps its keys in `folder` and works in `work`.

    `environment` is added to the variables that programs have there. Ends the script where arm64 programs do
    not run here.
    """
    if not arm64_programs_run():
        raise SystemExit(f"this machine cannot run arm64 programs: {ARM64_HINT}")
    if not Path(ARM64_LIBRARIES).is_dir():
        raise SystemExit(f"there is no {ARM64_LIBRARIES}: apt-get install libc6-arm64-cross")
    folder.mkdir(parents=True)
    variables = {"QEMU_CPU": "cortex-a72", "QEMU_LD_PREFIX": ARM64_LIBRARIES, **(environment or {})}
    with running_server(folder, variables) as server:
        yield {
            "name": name,
            "target": TARGET,
            "host": server.address.host,
            "port": server.address.port,
            "user": server.address.user,
            "key": str(folder / "user"),
            "host_key": " ".join((folder / "host.pub").read_text().split()[:2]),
            "folder": str(work),
            "sensors": {"sys": "/nowhere"},  # this machine's governors are not the board's
        }


def own_cache(folder: Path, *apart: str) -> Path:
    """A cache folder with all that is in this user's, but for those parts: they are its own, and empty."""
    folder.mkdir(parents=True)
    for path in cache_directory().iterdir():
        if not any(path.name.startswith(part) for part in apart):
            (folder / path.name).symlink_to(path)
    return folder
