"""Boards of a labgrid coordinator: its real processes on this machine, and OpenSSH's server for a board."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_names import LINE
from labgrid_processes import BARE, Lab, running_lab
from ssh_server import free_port, running_server
from started_processes import end_what_was_started, running

from harness import cli
from harness.boards.inventory import board_of, read_boards
from harness.boards.labgrid.board import hold_of, unlock
from harness.boards.labgrid.coordinator import Place, own_name
from harness.config.targets import host_architecture
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError

PLACES = ("shelf", LINE, BARE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with (
        running_server(tmp_path_factory.mktemp("sshd")) as server,
        running_lab(server, tmp_path_factory.mktemp("labgrid"), PLACES) as lab,
    ):
        yield lab


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _nothing_is_held_afterwards(lab: Lab) -> Iterator[None]:
    yield
    end_what_was_started()
    assert lab.release() == []


def boards_file(lab: Lab, folder: Path, place: str = "shelf", wait: float = 0) -> Path:
    # This machine over SSH, which is what the place has, is another target than the host.
    (folder / "here.yaml").write_text(
        f"description: this machine\narchitecture: {host_architecture()}\nglibc: '{platform.libc_ver()[1]}'\n"
    )
    entry = {
        "name": LINE,
        "target": "here.yaml",
        "place": place,
        "key": str(lab.server.address.key),
        "host_key": (lab.server.folder / "host.pub").read_text().strip(),
        "folder": lab.server.address.folder,
    }
    path = folder / "boards.yaml"
    path.write_text(
        json.dumps({"labgrid": {"coordinator": lab.coordinator, "wait_seconds": wait}, "boards": [entry]})
    )
    return path


@pytest.mark.parametrize("place", PLACES[:2])
def test_a_place_is_acquired_run_on_and_released(lab: Lab, tmp_path: Path, place: str) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path, place))
    board = board_of(entry)
    for _ in range(2):
        with board:
            hold = hold_of(lab.place(place))
            assert (hold.holder, hold.by) == (own_name(), "running")
            port = board.run(["sh", "-c", 'echo "$SSH_CONNECTION"'], timeout=20).stdout.split()[-1]
            assert port == str(lab.server.address.port)
        assert hold_of(lab.place(place)).by == "nobody"


def test_a_failed_connection_releases_the_place(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path))
    with pytest.raises(ZeroDivisionError), board_of(entry):
        _ = 1 / 0
    assert hold_of(lab.place()).by == "nobody"
    stranger = replace(entry, address=replace(entry.address, user="nobody-of-that-name"))
    with pytest.raises(BoardUnreachableError, match="authentication failed"), board_of(stranger):
        pass
    assert hold_of(lab.place()).by == "nobody"


def test_a_place_without_a_network_service_is_an_error_and_released(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path, "bare"))
    with pytest.raises(ConfigurationError, match=r"place bare of .* has no NetworkService"), board_of(entry):
        pass
    assert hold_of(lab.place("bare")).by == "nobody"


def test_the_holder_of_a_place_is_named(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path))
    lab.client("-p", "shelf", "acquire", user="somebody")
    try:
        with pytest.raises(BoardUnreachableError, match=r"is held by \S+/somebody"), board_of(entry):
            pass
        with pytest.raises(BoardUnreachableError, match=r"is held by \S+/somebody"):
            unlock(lab.place())
        assert "somebody" in lab.client("who")
    finally:
        lab.client("-p", "shelf", "release", user="somebody")


def test_a_harness_waits_for_a_held_place(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path, wait=60))
    lab.client("-p", "shelf", "acquire", user="somebody")
    timer = threading.Timer(2, lab.client, ("-p", "shelf", "release"), {"user": "somebody"})
    started = time.monotonic()
    timer.start()
    try:
        with board_of(entry) as board:
            assert time.monotonic() - started >= 2
            assert board.run(["true"], timeout=20).status == 0
    finally:
        timer.join()


def test_two_harnesses_do_not_share_a_place(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path))
    with board_of(entry) as first:
        with pytest.raises(BoardUnreachableError, match="another harness on this machine"), board_of(entry):
            pass
        with pytest.raises(HarnessError, match="another harness on this machine"):
            unlock(lab.place())
        assert first.run(["true"], timeout=20).status == 0
        assert hold_of(lab.place()).by == "running"


@pytest.mark.parametrize("place", PLACES[:2])
def test_a_place_acquired_by_labgrids_client_is_not_taken_but_can_be_unlocked(
    lab: Lab, tmp_path: Path, place: str
) -> None:
    (entry,) = read_boards(boards_file(lab, tmp_path, place))
    lab.client("-p", place, "acquire")
    assert hold_of(lab.place(place)).by == "unknown"
    with (
        pytest.raises(BoardUnreachableError, match="not by a harness on this machine") as error,
        board_of(entry),
    ):
        pass
    assert "harness boards unlock" in error.value.hint
    assert unlock(lab.place(place)) == own_name()
    assert unlock(lab.place(place)) is None


def killed_harness(lab: Lab, folder: Path) -> Path:
    """A boards file whose place was acquired by a harness that SIGKILL ended."""
    file = boards_file(lab, folder)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from harness.boards.inventory import board_of, read_boards\n"
        "with board_of(read_boards(Path(sys.argv[1]))[0]): print('held', flush=True); time.sleep(60)\n"
    )
    with running([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert hold_of(lab.place()).by == "running"
        process.send_signal(signal.SIGKILL)
    assert hold_of(lab.place()).by == "dead"
    return file


def test_a_place_held_by_a_killed_harness_is_shown_and_unlocked(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(killed_harness(lab, tmp_path))
    assert cli.main(["boards", "--boards", file, "--json"]) == 5
    row = json.loads(capsys.readouterr().out)["boards"][0]
    assert (row["kind"], row["status"], row["detail"]) == ("labgrid", "left over", f"held by {own_name()}")
    assert cli.main(["boards", "unlock", "--boards", file, LINE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"board": LINE, "released_from": own_name()}
    assert cli.main(["boards", "--boards", file, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["boards"][0]
    assert (row["status"], row["address"]) == ("answers", f"place shelf of {lab.coordinator}")
    assert cli.main(["boards", "probe", "--boards", file, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["boards"]
    assert row["facts"]["kernel"] == os.uname().release


def test_the_next_harness_takes_over_from_a_killed_one(lab: Lab, tmp_path: Path) -> None:
    (entry,) = read_boards(killed_harness(lab, tmp_path))
    with board_of(entry) as board:
        assert board.run(["true"], timeout=20).status == 0
        assert hold_of(lab.place()).by == "running"
    assert hold_of(lab.place()).by == "nobody"


def test_absent_places_and_coordinators_are_errors(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no place absent"):
        hold_of(lab.place("absent"))
    with pytest.raises(BoardUnreachableError, match="does not answer"):
        hold_of(Place(coordinator=f"127.0.0.1:{free_port()}", name="shelf"))


def test_only_places_are_unlocked(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "boards.yaml"
    file.write_text(
        json.dumps(
            {
                "boards": [
                    {
                        "name": "desk",
                        "target": "pi4",
                        "host": "h",
                        "user": "u",
                        "host_key": (lab.server.folder / "host.pub").read_text().strip(),
                    }
                ]
            }
        )
    )
    assert cli.main(["boards", "unlock", "--boards", str(file), "desk"]) == 2
    assert "the board desk is not a labgrid place" in capsys.readouterr().err
