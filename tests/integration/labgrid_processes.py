"""A labgrid coordinator with an exporter, its real processes on this machine, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from ssh_server import Server, free_port, wait_for
from started_processes import running

from harness.boards.labgrid.coordinator import Place

BARE = "bare"  # a place without a board


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A coordinator with an exporter whose board is an sshd, and the places that it has."""

    coordinator: str
    server: Server

    def client(self, *words: str, user: str | None = None) -> str:
        """The output of labgrid's own client."""
        environment = os.environ | ({"LG_USERNAME": user} if user else {})
        done = subprocess.run(
            [_program("client"), "-x", self.coordinator, *words],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        return done.stdout

    def release(self) -> list[str]:
        """Releases every place that is held, whoever holds it; these places."""
        held = [line.split(maxsplit=3)[:3] for line in self.client("who").splitlines()[1:]]
        for user, _, place in held:
            self.client("-p", place, "release", user=user)
        return [place for _, _, place in held]

    def place(self, name: str = "shelf") -> Place:
        return Place(coordinator=self.coordinator, name=name)


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / f"labgrid-{name}")


@contextlib.contextmanager
def running_lab(server: Server, folder: Path, places: Sequence[str]) -> Iterator[Lab]:
    """The processes, with their files in `folder`; a place called BARE has no board.

    The test is skipped where labgrid is not installed.
    """
    pytest.importorskip("labgrid", reason="the extra labgrid is not installed")
    port = free_port()
    coordinator = f"127.0.0.1:{port}"
    with (
        (folder / "log").open("w") as log,
        running([_program("coordinator"), "-l", coordinator], cwd=folder, stdout=log, stderr=log) as hub,
    ):
        wait_for(port)
        address = server.address
        service = {"address": address.host, "port": address.port, "username": address.user}
        (folder / "resources.yaml").write_text(json.dumps({"shelf": {"NetworkService": service}}))
        with running(
            [_program("exporter"), "-c", coordinator, "-n", "exporter", "resources.yaml"],
            cwd=folder,
            stdout=log,
            stderr=log,
        ) as exporter:
            try:
                lab = Lab(coordinator=coordinator, server=server)
                until = time.monotonic() + 30
                while "exporter/shelf/NetworkService" not in lab.client("resources"):
                    assert time.monotonic() < until, (folder / "log").read_text()
                for place in places:
                    lab.client("-p", place, "create")
                    if place != BARE:
                        lab.client("-p", place, "add-match", "exporter/shelf/NetworkService")
                yield lab
            finally:
                exporter.terminate()
                exporter.wait(20)
                hub.terminate()
