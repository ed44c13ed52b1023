"""Boards files, and which board a target gets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from board_key import FINGERPRINT, KEY

from harness.boards.energy import EnergyMeter
from harness.boards.host import HostBoard
from harness.boards.inventory import board_of, open_board, read_boards
from harness.boards.labgrid.board import PlaceBoard
from harness.boards.labgrid.coordinator import Place
from harness.boards.paths import BoardPaths
from harness.boards.power import PowerHook
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target
from harness.errors import ConfigurationError

BOARD = f"name: shelf, target: pi, host: 192.0.2.7, user: pi, host_key: {KEY}"

QUOTED_BELL, QUOTED_LINES, QUOTED_OVERRIDE = r'"a\a"', r'"a\nb"', r'"a\u202eb"'


def write(folder: Path, text: str) -> Path:
    path = folder / "boards.yaml"
    path.write_text(text)
    return path


def test_a_board_is_read(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("")
    file = write(tmp_path, f"boards:\n  - {{{BOARD}, port: 2200, key: id, folder: /data/mpe}}\n")
    (board,) = read_boards(file)
    assert (board.name, board.target.name) == ("shelf", "pi4")
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
        (
            f"boards:\n- {{{BOARD.replace('target: pi', 'target: host')}}}",
            r":2: the target host is this machine, .*\n  Remove this board: .*PC",
        ),
        (
            "boards:\n- {name: a, place: p,\n   target: host}\nlabgrid: {coordinator: 'lab:1'}",
            r":3: the target host is this machine",
        ),
        (f"boards:\n- {{{BOARD.replace('192.0.2.7', '-oProxyCommand=x')}}}", r":2: expected a host"),
        (
            f"boards:\n- {{{BOARD.replace(KEY, 'ssh-ed25519 AAAA')}}}",
            r":2: host_key: the type of the key is not",
        ),
        (f"boards:\n- {{{BOARD}, key: none}}", r":2: the file .*none does not exist"),
        (
            f"boards:\n- {{{BOARD}, key: ~no-such-user/id}}",
            r":2: there is no user no-such-user with a home folder",
        ),
        (f'boards:\n- {{{BOARD}, folder: "a\\0"}}', r":2: expected a folder, found a null character in it"),
        (f'boards:\n- {{{BOARD}, sensors: {{sys: "/\\0"}}}}', r":2: expected an absolute path, found a null"),
        (f"boards:\n- {{{BOARD}, known_hosts: boards.yaml}}", r":2: the board shelf has both"),
        (f"boards:\n- {{{BOARD}}}\n- {{{BOARD}, port: 23}}", r"two boards are called shelf"),
        (
            f"boards:\n- {{{BOARD.replace('shelf', QUOTED_BELL)}}}",
            r":2: the name 'a\\x07' has unprintable char",
        ),
        (
            f"boards:\n- {{{BOARD.replace('shelf', QUOTED_LINES)}}}",
            r":2: the name 'a\\nb' has unprintable char",
        ),
        (
            f"boards:\n- {{{BOARD.replace('shelf', QUOTED_OVERRIDE)}}}",
            r":2: the name .* has unprintable char",
        ),
        (f"boards:\n- {{{BOARD.replace('user: pi', 'user: ' + QUOTED_BELL)}}}", r":2: expected a user"),
        ("boards:\n- {name: a, target: pi}", r":2: a board needs the key host .*, or a place"),
        ("boards:\n- {name: a, target: pi, host: b}", r":2: a board needs the key user .*, or a place"),
        (
            f"boards:\n- {{name: a, target: pi, place: p, host_key: {KEY}}}",
            r"the board a has a place, but the",
        ),
        (f"boards:\n- {{{BOARD}, place: p}}", r":2: the board shelf has both a place and a host"),
        (
            f"boards:\n- {{name: a, target: pi, place: {QUOTED_LINES}}}",
            r":2: the place 'a\\nb' has unprintable char",
        ),
        ("labgrid: {coordinator: lab}\nboards: []", r":1: expected HOST:PORT"),
        ("labgrid: {wait_seconds: 1}\nboards: []", r":1: labgrid needs the key coordinator"),
        (f"boards:\n- {{{BOARD}, jump: gate}}", r':2: expected user@host:port, found "gate"'),
        (f"boards:\n- {{{BOARD}, jump: 'me@-oProxyCommand=x'}}", r":2: expected user@host:port"),
        (f"boards:\n- {{{BOARD}, jump: 'me@gate:65536'}}", r":2: expected user@host:port"),
        (f"boards:\n- {{{BOARD}, jump: {{host: gate}}}}", r":2: a jump host needs the key user"),
        (
            f"boards:\n- {{{BOARD}, jump: {{host: g, user: u, folder: x}}}}",
            r":2: unknown key folder in a jump",
        ),
        (
            f"boards:\n- {{{BOARD}, jump: {{host: g, user: u, key: none}}}}",
            r":2: the file .*none does not exist",
        ),
        (f"boards:\n- {{{BOARD}, energy: read-plug}}", r":2: expected a command as a list of words"),
        (f"boards:\n- {{{BOARD}, energy: ['']}}", r":2: the first word"),
        (f"boards:\n- {{{BOARD}, energy: {{command: [x], unit: kWh}}}}", r":2: unknown unit kWh"),
        (f"boards:\n- {{{BOARD}, energy: {{unit: watts}}}}", r":2: an energy meter needs the key command"),
        (f"boards:\n- {{{BOARD}, cache_limit_mb: 0}}", r":2: expected a whole number from 1"),
        (f"boards:\n- {{{BOARD}, wait_seconds: -1}}", r":2: expected a number from 0"),
        (f"boards:\n- {{{BOARD}, sudo: yes}}", r":2: expected true or false"),
        (f"boards:\n- {{{BOARD}, power: 'pdu {{action}}'}}", r":2: expected a command as a list of words"),
        (f"boards:\n- {{{BOARD}, power: []}}", r":2: expected a command as a list of words"),
        (f"boards:\n- {{{BOARD}, power: [pdu, off]}}", r":2: no word of the command contains {action}"),
        (f'boards:\n- {{{BOARD}, power: [" ", "{{action}}"]}}', r":2: the first word"),
        (f'boards:\n- {{{BOARD}, power: [pdu, "a\\0", "{{action}}"]}}', r":2: a word of a command must not"),
        (f"boards:\n- {{{BOARD}, power: {{seconds: 5}}}}", r":2: a power hook needs the key command"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_boards(write(tmp_path, text))


@pytest.mark.parametrize("key", ["power", "energy"])
@pytest.mark.parametrize(
    ("command", "found"), [("'snmpset -c hunter2 {action}'", "a text"), ("4711", "an integer"), ("{}", "")]
)
def test_values_in_place_of_a_command_are_not_shown(
    tmp_path: Path, key: str, command: str, found: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_boards(write(tmp_path, f"boards:\n- {{{BOARD}, {key}: {command}}}"))
    assert f"found {found}" in str(caught.value) or not found
    assert "hunter2" not in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["shelf 1", "it's", '"quoted"', "$(id) `id`", "Küche-☕", "[bold]x[/]", "-n"]
)
def test_names_may_hold_what_can_be_printed(tmp_path: Path, name: str) -> None:
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD.replace('shelf', json.dumps(name))}}}]"))
    assert board.name == name
    assert board_of(board).name == name


def test_a_jump_host_is_read(tmp_path: Path) -> None:
    for name in ("id", "gate_id"):
        (tmp_path / name).write_text("")
    jump = f"{{host: gate, user: me, port: 2222, key: gate_id, host_key: {KEY}}}"
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, key: id, jump: {jump}}}]"))
    gate = board.address.jump
    assert gate is not None
    assert (gate.known_as, gate.user, gate.key) == ("[gate]:2222", "me", tmp_path / "gate_id")
    assert gate.host_key is not None
    assert gate.host_key.fingerprint == FINGERPRINT
    assert str(board.address) == "pi@192.0.2.7:22 through me@gate:2222"


@pytest.mark.parametrize(
    ("text", "known_as"),
    [
        ("me@gate", "gate"),
        ("me@gate:22", "gate"),
        ("me@gate:2200", "[gate]:2200"),
        ("me@[fe80::1%eth0]:2200", "[fe80::1%eth0]:2200"),
        ("me@[2001:db8::1]", "2001:db8::1"),
    ],
)
def test_a_jump_host_in_one_word_has_the_key_of_the_board_and_the_known_hosts_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, known_as: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    for path in ("id", ".ssh/known_hosts"):
        (tmp_path / path).write_text("")
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, key: id, jump: '{text}'}}]"))
    gate = board.address.jump
    assert gate is not None
    assert (gate.known_as, gate.user, gate.key) == (known_as, "me", tmp_path / "id")
    assert gate.known_hosts == tmp_path / ".ssh/known_hosts"


def test_a_place_of_a_labgrid_coordinator_is_read(tmp_path: Path) -> None:
    place = f"{{name: lab, target: pi, place: 'pi4 3', host_key: {KEY}}}"
    text = f"labgrid: {{coordinator: 'lab:20408', wait_seconds: 60}}\nboards: [{{{BOARD}}}, {place}]"
    shelf, lab = read_boards(write(tmp_path, text))
    assert (shelf.place, shelf.where) == (None, "pi@192.0.2.7:22")
    assert lab.place == Place(coordinator="lab:20408", name="pi4 3", wait_seconds=60)
    assert lab.where == "place pi4 3 of lab:20408"
    assert isinstance(board_of(lab), PlaceBoard)


def test_a_power_hook_is_read(tmp_path: Path) -> None:
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, power: [pdu, -v, -v, 3, '{{action}}']}}]"))
    assert board.power == PowerHook(command=("pdu", "-v", "-v", "3", "{action}"), seconds=60.0)
    hook = "{command: [pdu, 'outlet 3={action}'], seconds: 2.5}"
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, power: {hook}}}]"))
    assert board.power == PowerHook(command=("pdu", "outlet 3={action}"), seconds=2.5)


OWN = 'description: a board\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n'


@pytest.mark.parametrize("name", ["khadas", "$(touch executed) it's", "Küche"])
def test_a_target_of_ones_own_is_found_beside_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / f"{name}.yml").write_text(OWN)
    path = json.dumps(f"./targets/{name}.yml")
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD.replace('target: pi', 'target: ' + path)}}}]"))
    assert (board.target.name, board.target.cpu) == (name, "cortex-a55")
    assert board_of(board).target == board.target


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("my.yaml", OWN.replace("cortex-a55", "[1]"), r"my\.yaml:3: expected a core"),
        (
            "pi4.yaml",
            OWN,
            r"boards\.yaml:2: a target has the name of its file, and 'pi4' belongs to",
        ),
        ("pi.yaml", OWN, r"boards\.yaml:2: .* 'pi' belongs to a target that ships"),
        ("host.yaml", OWN, r"boards\.yaml:2: .* 'host' belongs to a target that ships"),
        ("a\nb.yaml", OWN, r"boards\.yaml:2: .* 'a\\nb' has unprintable characters"),
        (
            "mi.yaml",
            OWN,
            r"boards\.yaml:2: target's file .*my\.yaml does not exist\n  Did you mean .*mi\.yaml",
        ),
    ],
)
def test_a_target_of_ones_own_that_is_wrong_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    path = json.dumps("my.yaml" if name == "mi.yaml" else name)
    file = write(tmp_path, f"boards:\n- {{{BOARD.replace('target: pi', 'target: ' + path)}}}")
    with pytest.raises(ConfigurationError) as caught:
        read_boards(file)
    assert re.search(said, str(caught.value))


def test_an_energy_meter_is_read(tmp_path: Path) -> None:
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, energy: [read-plug, -w, 3]}}]"))
    assert board_of(board).sensors.meter == EnergyMeter(command=("read-plug", "-w", "3"), unit="watts")
    long = "{command: [read-plug], unit: joules, seconds: 2, every: 0.5}"
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, energy: {long}}}]"))
    wanted = EnergyMeter(command=("read-plug",), unit="joules", seconds=2.0, every=0.5)
    assert board_of(board).sensors.meter == wanted


def test_a_key_of_an_earlier_version_is_read_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, f"boards:\n- {{{BOARD},\n   keep_mb: 250}}")
    (board,) = read_boards(path)
    assert board.address.cache_limit_bytes == 250_000_000
    said = f"warning: {path}:3: the key keep_mb is deprecated; write cache_limit_mb\n"
    assert capsys.readouterr().err == said
    path = write(tmp_path, f"boards:\n- {{{BOARD}, cache_limit_mb: 250,\n   keep_mb: 250}}")
    with pytest.raises(
        ConfigurationError, match=r":3: keep_mb and cache_limit_mb are the same key\n  Remove"
    ):
        read_boards(path)


def test_cache_limit_wait_seconds_and_sudo_are_read(tmp_path: Path) -> None:
    (board,) = read_boards(
        write(tmp_path, f"boards: [{{{BOARD}, cache_limit_mb: 250, wait_seconds: 7.5, sudo: true}}]")
    )
    assert board.address.cache_limit_bytes == 250_000_000
    assert board.address.wait_seconds == 7.5
    assert board_of(board).sensors == BoardPaths(sudo=True)
    sensors = "{vcgencmd: /opt/vc/bin/vcgencmd}"
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}, sensors: {sensors}, sudo: true}}]"))
    assert board_of(board).sensors == BoardPaths(vcgencmd="/opt/vc/bin/vcgencmd", sudo=True)
    (board,) = read_boards(write(tmp_path, f"boards: [{{{BOARD}}}]"))
    assert board.address.cache_limit_bytes == 2 << 30
    assert board.address.wait_seconds == 3600
    assert board_of(board).sensors == BoardPaths()


def test_the_host_is_a_board_of_its_own() -> None:
    assert isinstance(open_board(load_target("host")), HostBoard)


def test_a_board_of_another_target_with_the_same_name_is_refused(tmp_path: Path) -> None:
    own = 'description: a board\narchitecture: aarch64\ncpu: cortex-a55\nglibc: "2.31"\n'
    for folder, text in (("here", own), ("there", own.replace("a55", "a53"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "khadas.yaml").write_text(text)
    file = write(tmp_path, f"boards: [{{{BOARD.replace('target: pi', 'target: here/khadas.yaml')}}}]")
    assert open_board(load_target(str(tmp_path / "here" / "khadas.yaml")), file).name == "shelf"
    with pytest.raises(ConfigurationError, match="shelf has another target with the name khadas"):
        open_board(load_target(str(tmp_path / "there" / "khadas.yaml")), file)


def test_a_board_of_the_file_comes_before_an_emulated_one(tmp_path: Path) -> None:
    file = write(tmp_path, f"boards: [{{{BOARD}}}]")
    board = open_board(load_target("pi4"), file)
    assert isinstance(board, SshBoard)
    assert (board.name, board.emulated) == ("shelf", False)
    assert open_board(load_target("jetson-nano"), file).emulated


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("password", "Passwords are not supported: name a private key"),
        ("passphrase", "`ssh-add FILE`"),
        ("hostname", "Did you mean host?"),
        ("HostName", "Did you mean host?"),
        ("ip", "Did you mean host?"),
        ("username", "Did you mean user?"),
        ("identity_file", "Did you mean key?"),
        ("IdentityFile", "Did you mean key?"),
        ("key_filename", "Did you mean key?"),
        ("proxyjump", "Did you mean jump?"),
        ("proxy_jump", "Did you mean jump?"),
        ("ports", "Did you mean port?"),
    ],
)
def test_unknown_keys_that_users_try_get_a_hint(key: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_boards(write(tmp_path, f"boards:\n  - {{{BOARD}, {key}: x}}\n"))
    assert caught.value.message.endswith(f"boards.yaml:2: unknown key {key} in a board")
    assert hint in caught.value.hint


@pytest.mark.parametrize("key", ["password", "hostname", "proxyjump"])
def test_a_jump_host_has_the_keys_of_hosts(key: str, tmp_path: Path) -> None:
    jump = f"{{host: gate, user: me, {key}: x}}"
    with pytest.raises(ConfigurationError, match=f"unknown key {key} in a jump host") as caught:
        read_boards(write(tmp_path, f"boards: [{{{BOARD}, jump: {jump}}}]"))
    assert "jump" not in caught.value.hint
    assert caught.value.hint


def test_without_known_hosts_it_says_how_to_record_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = BOARD.partition(", host_key")[0]
    with pytest.raises(ConfigurationError, match=r"the file .*/\.ssh/known_hosts does not exist") as caught:
        read_boards(write(tmp_path, f"boards: [{{{text}, port: 2200}}]"))
    assert "`ssh-keyscan -p 2200 192.0.2.7 >>FILE`" in caught.value.hint
    assert "ssh -p 2200 pi@192.0.2.7" in caught.value.hint
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in caught.value.hint
