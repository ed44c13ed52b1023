"""A short campaign of faults (tests/faults/campaign.py runs a long one)."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from board import Board, build_libraries
from campaign import campaign

from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.host_keys import parse_host_key
from harness.config.targets import load_target
from harness.images.availability import emulation_missing

pytestmark = [pytest.mark.engine, pytest.mark.emulation]


@pytest.fixture(autouse=True)
def _possible() -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can give boards namespaces and disks of their own")
    if missing := emulation_missing(load_target("pi4")):
        pytest.skip("; ".join(missing))


def test_every_cell_ends_once_with_its_digest_or_the_faults_cause() -> None:
    with campaign(seed=7, faults=30) as running:
        tally = running.run()
    assert tally.holds, tally
    assert tally.done > 0
    assert tally.missing_kinds() == []
    assert sum(tally.faults.values()) >= 30


def test_the_clock_of_a_boards_programs_jumps(tmp_path: Path) -> None:
    from harness.build.engine import build_engine

    board = Board("desk", tmp_path / "desk", build_libraries(tmp_path))
    entry = board.entry()
    address = SshAddress(
        host="127.0.0.1",
        port=board.proxy.port,
        user="root",
        key=board.folder / "user",
        host_key=parse_host_key(str(entry["host_key"])),
        folder=str(entry["folder"]),
    )
    try:
        with SshBoard("desk", load_target("pi4"), address) as opened:
            for jump in (-400 * 86400, 0, 7200):
                board.set_clock(jump)
                (there,) = opened.run(["date", "+%s"], timeout=10).stdout.split()
                assert abs(int(there) - time.time() - jump) < 10
                opened.run(["touch", opened.scratch("new")], timeout=10)
                assert abs(Path(opened.scratch("new")).stat().st_mtime - time.time() - jump) < 10
            # An arm64 program takes the clock's library for arm64, and complains of none.
            engine = opened.deploy({"engine": build_engine(load_target("pi4")).engine})["engine"]
            ran = opened.run([engine, "caps"], timeout=20)
            assert (ran.status, ran.stderr) == (0, "")
    finally:
        board.close()
