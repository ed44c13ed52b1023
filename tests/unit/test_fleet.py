"""Which boards a sweep's targets get, also where they are a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_key import KEY

from harness.boards.emulated import EmulatedBoard
from harness.boards.host import HostBoard
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target
from harness.errors import ConfigurationError
from harness.sweep.fleet import Fleet

OWN = 'description: a board\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n'


def boards_file(folder: Path, **targets: str) -> Path:
    """With a board of each name, of that target."""
    folder.mkdir(exist_ok=True)
    file = folder / "boards.yaml"
    entries = [
        f"- {{name: {name}, target: {target}, host: 192.0.2.7, user: pi, host_key: {KEY}}}\n"
        for name, target in targets.items()
    ]
    file.write_text("boards:\n" + "".join(entries))
    return file


def test_boards_of_the_file_come_before_emulated_ones_and_this_machine_before_both(tmp_path: Path) -> None:
    fleet = Fleet(boards_file(tmp_path, one="pi4", two="pi", other="pi5"))
    pi4, nano, host = (load_target(name) for name in ("pi4", "jetson-nano", "host"))
    assert [fleet.is_emulated(target) for target in (pi4, nano, host)] == [False, True, False]
    assert fleet.boards(pi4) == ("one", "two")
    assert fleet.boards(nano) == ("jetson-nano (emulated)",)
    assert fleet.boards(host) == ("host",)
    assert isinstance(fleet.open("two"), SshBoard)
    assert isinstance(fleet.open("jetson-nano (emulated)"), EmulatedBoard)
    assert isinstance(fleet.open("host"), HostBoard)


def test_a_target_of_ones_own_has_its_boards_or_an_emulated_one(tmp_path: Path) -> None:
    (tmp_path / "khadas.yaml").write_text(OWN)
    own = load_target(str(tmp_path / "khadas.yaml"))
    fleet = Fleet(boards_file(tmp_path / "a folder", one="../khadas.yaml"))
    assert not fleet.is_emulated(own)
    assert fleet.boards(own) == ("one",)
    assert fleet.open("one").target == own
    alone = Fleet()
    assert alone.is_emulated(own)
    (name,) = alone.boards(own)
    assert alone.open(name).target is own


def test_another_target_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "khadas.yaml").write_text(OWN)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "khadas.yaml").write_text(OWN.replace("a55", "a53"))
    fleet = Fleet(boards_file(tmp_path, one="khadas.yaml"))
    with pytest.raises(ConfigurationError, match="one has another target with the name khadas"):
        fleet.boards(load_target(str(tmp_path / "other" / "khadas.yaml")))


@pytest.mark.parametrize("name", ["host", "pi4 (emulated)"])
def test_no_board_has_the_name_of_this_machine_or_of_an_emulated_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is reserved for this machine or an emulated board"):
        Fleet(boards_file(tmp_path, **{name: "pi4"}))
