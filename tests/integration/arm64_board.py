"""This machine over SSH as a Raspberry Pi 4, for whole sweeps: arm64 programs run there under QEMU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ssh_server import Server, running_server

from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.images.availability import emulation_missing

TARGET = "pi4"
LIBRARIES = "/usr/aarch64-linux-gnu"  # Debian's libc6-arm64-cross


@contextlib.contextmanager
def running_board(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server whose programs may be a Raspberry Pi 4's; the test is skipped where QEMU does not run them.

    The engines that a sweep of that board takes are built first, before the clock of any test runs.
    """
    if missing := emulation_missing(load_target(TARGET)):
        pytest.skip("; ".join(missing))
    for name in ("host", TARGET):
        build_engine(load_target(name))
    emulation = {"QEMU_CPU": str(load_target(TARGET).qemu_cpu), "QEMU_LD_PREFIX": LIBRARIES}
    with running_server(folder, {**emulation, **(environment or {})}) as server:
        yield server


def board_entry(server: Server, **more: object) -> dict[str, object]:
    """The server in a boards file."""
    address = server.address
    return {
        "name": "shelf",
        "target": TARGET,
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "key": str(address.key),
        "host_key": (server.folder / "host.pub").read_text().strip(),
        "folder": address.folder,
    } | more
