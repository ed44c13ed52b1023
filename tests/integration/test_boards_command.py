"""`harness boards` with a boards file, against OpenSSH's server on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_server import Server, free_port, running_server

from harness import cli
from harness.config.targets import host_architecture

NAME = "it's $(touch executed) <shelf> [bold]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def entry(server: Server, **changes: object) -> dict[str, object]:
    """This machine as a board, by a target of its own: boards are never of the target host."""
    address = server.address
    target = server.folder / "here.yaml"
    target.write_text(f"description: this machine\narchitecture: {host_architecture()}\nglibc: '2.28'\n")
    return {
        "name": NAME,
        "target": str(target),
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "key": str(address.key),
        "host_key": (server.folder / "host.pub").read_text().strip(),
        "folder": str(server.folder / "it's a folder"),
    } | changes


def boards_file(folder: Path, *entries: dict[str, object]) -> Path:
    """JSON is YAML."""
    path = folder / "boards.yaml"
    path.write_text(json.dumps({"boards": entries}))
    return path


def test_a_board_tells_what_it_is(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = boards_file(tmp_path, entry(server))
    assert cli.main(["boards", "--boards", str(file), "probe", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["boards"]
    assert (row["name"], row["target"], row["status"], row["mismatches"]) == (NAME, "here", "fits", [])
    facts = row["facts"]
    assert facts["machine"] == os.uname().machine
    assert facts["kernel"] == os.uname().release
    assert facts["glibc"] == os.confstr("CS_GNU_LIBC_VERSION").split()[1]  # type: ignore[union-attr]
    assert facts["memory_bytes"] > facts["memory_available_bytes"] > 0
    assert facts["disk_free_bytes"] > 0
    skew = facts["clock_skew"]
    assert abs(skew["seconds"]) <= skew["uncertainty"] + 0.1
    assert skew["uncertainty"] < 5
    assert not list(Path.home().glob("executed"))
    assert not list(tmp_path.rglob("executed"))


def test_the_facts_of_a_board_are_shown_in_lines(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["boards", "probe", "--boards", str(boards_file(tmp_path, entry(server)))]) == 0
    shown = capsys.readouterr().out
    for word in (NAME, os.uname().release, "clock skew", "±", "free disk", "status", "fits"):
        assert word in shown


def test_a_board_that_is_not_as_its_target_has_it_is_status_4(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = f"description: a newer system\narchitecture: {host_architecture()}\nglibc: '99.1'\n"
    (tmp_path / "later.yaml").write_text(later)
    file = boards_file(tmp_path, entry(server, target="./later.yaml"), entry(server, name="other"))
    assert cli.main(["boards", "probe", "--boards", str(file), "--json"]) == 4
    wrong, right = json.loads(capsys.readouterr().out)["boards"]
    assert (wrong["status"], right["status"]) == ("does not fit", "fits")
    mismatch = wrong["mismatches"][0]
    assert "but later has 99.1" in mismatch["message"]
    assert "Update the system" in mismatch["hint"]
    assert cli.main(["boards", "probe", "--boards", str(file)]) == 4
    assert "Update the system" in capsys.readouterr().out
    assert cli.main(["boards", "probe", "--boards", str(file), "other"]) == 0


def test_a_board_that_does_not_answer_is_status_5_and_the_others_are_looked_at(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = entry(server, name="dead", port=free_port(), target="pi4")
    file = boards_file(tmp_path, dead, entry(server))
    assert cli.main(["boards", "probe", "--boards", str(file), "--json"]) == 5
    gone, answering = json.loads(capsys.readouterr().out)["boards"]
    assert (gone["status"], gone["facts"]) == ("does not answer", None)
    assert "connecting" in gone["detail"]
    assert answering["status"] == "fits"
    assert cli.main(["boards", "--boards", str(file), "probe", "dead"]) == 5
    capsys.readouterr()
    assert cli.main(["boards", "--boards", str(file), "--json"]) == 5
    listed = {row["name"]: row["status"] for row in json.loads(capsys.readouterr().out)["boards"]}
    assert (listed["dead"], listed[NAME]) == ("does not answer", "answers")


def test_names_that_are_not_in_the_file_are_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = boards_file(tmp_path, entry(server, name="shelf"))
    assert cli.main(["boards", "probe", "--boards", str(file), "shelv"]) == 2
    assert "has no board shelv: did you mean shelf?" in capsys.readouterr().err
    assert cli.main(["boards", "probe"]) == 2
    assert "--boards FILE" in capsys.readouterr().err


def test_the_power_command_is_run(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "said"
    hook = ["sh", "-c", 'printf %s "$1" >"$0"', str(out), "outlet 3 {action}"]
    file = boards_file(tmp_path, entry(server, power=hook), entry(server, name="none"))
    assert cli.main(["boards", "power", "--boards", str(file), NAME, "cycle", "--json"]) == 0
    assert out.read_text() == "outlet 3 cycle"
    assert json.loads(capsys.readouterr().out) == {"board": NAME, "power": "cycle"}
    assert cli.main(["boards", "power", "--boards", str(file), "none", "off"]) == 2
    assert "the board none has no power command" in capsys.readouterr().err
