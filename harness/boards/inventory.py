"""Which board a target's cells run on: one of a boards file, else this machine or an emulated one.

A boards file names devices that answer to SSH:

    boards:
      - name: pi-on-the-shelf
        target: pi4
        host: 192.168.1.20
        user: pi
        key: ~/.ssh/id_ed25519           # without it: the SSH agent and the user's own keys
        host_key: ssh-ed25519 AAAA...    # or known_hosts: FILE; without either ~/.ssh/known_hosts
        port: 22
        folder: harness                  # relative to the home folder there, or absolute
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.host_keys import HostKey, parse_host_key
from harness.boards.ssh import SshAddress, SshBoard
from harness.configuration.document import Node, read_document
from harness.configuration.shapes import Choice, Field, Integer, ListOf, Record, Text
from harness.configuration.targets import all_targets, load_target
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.boards.board import Board
    from harness.configuration.targets import Target


@dataclass(frozen=True, kw_only=True)
class BoardEntry:
    """A device of a boards file."""

    name: str
    target: str
    address: SshAddress


def read_boards(path: Path) -> list[BoardEntry]:
    """The boards of a file, in its order. Raises ConfigurationError with file and line."""
    entries = _FILE.read(read_document(path))
    lines: set[str] = set()
    for entry in entries:
        if entry.name in lines:
            raise ConfigurationError(f"{path}: two boards are called {entry.name}")
        lines.add(entry.name)
    return list(entries)


def open_board(target: Target, boards_file: Path | None = None) -> Board:
    """The board for a target, to be used in a `with` statement; nothing is connected before that."""
    if boards_file is not None:
        for entry in read_boards(boards_file):
            if entry.target == target.name:
                return SshBoard(entry.name, target, entry.address)
    if target.is_host:
        from harness.boards.host import HostBoard

        return HostBoard(target)
    from harness.boards.emulated import EmulatedBoard

    return EmulatedBoard(target)


def _entry(node: Node, *, name: str, target: str, host: str, user: str, **rest: object) -> BoardEntry:
    values: dict[str, object] = {key: value for key, value in rest.items() if key != "host_key"}
    if "host_key" in rest and "known_hosts" in rest:
        raise node.error(f"the board {name} has both host_key and known_hosts", cure="Keep one of them.")
    if "host_key" in rest:
        values["host_key"] = _host_key(node, str(rest["host_key"]))
    elif "known_hosts" not in rest:
        values["known_hosts"] = Path("~/.ssh/known_hosts").expanduser()
    for key in ("key", "known_hosts"):
        path = values.get(key)
        if isinstance(path, Path) and not path.is_file():
            raise node.error(f"there is no file {path}", key=key)
    address = SshAddress(host=host, user=user, **values)  # type: ignore[arg-type]
    return BoardEntry(name=name, target=load_target(target).name, address=address)


def _host_key(node: Node, text: str) -> HostKey:
    try:
        return parse_host_key(text)
    except ValueError as error:
        raise node.error(f"host_key: {error}", key="host_key") from None


class _File:
    """The path of a file; `~` is the home folder, other relative paths are the document's."""

    def read(self, node: Node) -> Path:
        return Path(node.file).parent / Path(Text(expected="a path").read(node)).expanduser()

    def schema(self) -> dict[str, object]:
        return {"type": "string", "minLength": 1}


def _target_names() -> list[str]:
    return [name for target in all_targets() for name in (target.name, *target.aliases)]


_BOARD = Record(
    what="a board",
    make=_entry,
    fields={
        "name": Field(shape=Text(expected="a name"), help="what it is called in reports", required=True),
        "target": Field(shape=Choice(what="target", names=_target_names), help="its kind", required=True),
        "host": Field(
            shape=Text(expected="a host", pattern=r"[^\s@/-][^\s@/]*"), help="address", required=True
        ),
        "user": Field(
            shape=Text(expected="a user", pattern=r"[^\s@-][^\s@]*"), help="who logs in", required=True
        ),
        "port": Field(shape=Integer(least=1, most=65535), help="of its SSH server"),
        "key": Field(shape=_File(), help="file of the private key"),
        "host_key": Field(shape=Text(expected="a public key"), help="the board's, as TYPE BASE64"),
        "known_hosts": Field(shape=_File(), help="file with the board's public key"),
        "folder": Field(shape=Text(expected="a folder"), help="where files are put on the board"),
    },
)

_FILE = Record(
    what="a boards file",
    make=lambda _node, boards: boards,
    fields={"boards": Field(shape=ListOf(what="boards", item=_BOARD), help="the devices", required=True)},
)
