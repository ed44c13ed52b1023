"""Boards files, and which board a target gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_key import FINGERPRINT, KEY

from harness.boards.host import HostBoard
from harness.boards.inventory import open_board, read_boards
from harness.boards.ssh import SshBoard
from harness.configuration.targets import load_target
from harness.errors import ConfigurationError

BOARD = f"name: shelf, target: pi, host: 192.0.2.7, user: pi, host_key: {KEY}"


def write(folder: Path, text: str) -> Path:
    path = folder / "boards.yaml"
    path.write_text(text)
    return path


def test_a_board_is_read(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("")
    file = write(tmp_path, f"boards:\n  - {{{BOARD}, port: 2200, key: id, folder: /data/mpe}}\n")
    (board,) = read_boards(file)
    assert (board.name, board.target) == ("shelf", "pi4")
    assert str(board.address) == "pi@192.0.2.7:2200"
    assert board.address.known_as == "[192.0.2.7]:2200"
    assert board.address.key == tmp_path / "id"
    assert board.address.folder == "/data/mpe"
    assert board.address.host_key is not None
    assert board.address.host_key.fingerprint == FINGERPRINT
    assert board.address.known_hosts is None


def test_a_known_hosts_file_takes_the_place_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    text = BOARD.partition(", host_key")[0]
    (board,) = read_boards(write(tmp_path, f"boards: [{{{text}, known_hosts: known}}]"))
    assert board.address.host_key is None
    assert board.address.known_hosts == tmp_path / "known"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bords: []", r":1: unknown key bords"),
        ("boards: []", r":1: expected at least one of boards"),
        ("boards:\n- {name: a}", r":2: a board needs the key target"),
        (f"boards:\n- {{{BOARD}, prot: 22}}", r":2: unknown key prot in a board"),
        (f"boards:\n- {{{BOARD}, port: 0}}", r":2: expected a whole number from 1 to 65535"),
        (f"boards:\n- {{{BOARD.replace('target: pi', 'target: pj')}}}", r":2: unknown target pj"),
        (f"boards:\n- {{{BOARD.replace('192.0.2.7', '-oProxyCommand=x')}}}", r":2: expected a host"),
        (
            f"boards:\n- {{{BOARD.replace(KEY, 'ssh-ed25519 AAAA')}}}",
            r":2: host_key: the key is not of the type",
        ),
        (f"boards:\n- {{{BOARD}, key: none}}", r":2: there is no file .*none"),
        (f"boards:\n- {{{BOARD}, known_hosts: boards.yaml}}", r":2: the board shelf has both"),
        (f"boards:\n- {{{BOARD}}}\n- {{{BOARD}, port: 23}}", r"two boards are called shelf"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_boards(write(tmp_path, text))


def test_the_host_is_a_board_of_its_own() -> None:
    assert isinstance(open_board(load_target("host")), HostBoard)


def test_a_board_of_the_file_comes_before_an_emulated_one(tmp_path: Path) -> None:
    file = write(tmp_path, f"boards: [{{{BOARD}}}]")
    board = open_board(load_target("pi4"), file)
    assert isinstance(board, SshBoard)
    assert (board.name, board.emulated) == ("shelf", False)
    assert open_board(load_target("jetson-nano"), file).emulated
