"""Finds the board for a target: one of a boards file, or else this machine or an emulated board.

A boards file names devices that answer to SSH:

    boards:
      - name: pi-on-the-shelf
        target: pi4                      # or a file of your own, as ./my-board.yaml
        host: 192.168.1.20
        user: pi
        key: ~/.ssh/id_ed25519           # without it: the SSH agent and the user's own keys
        host_key: ssh-ed25519 AAAA...    # or known_hosts: FILE; without either ~/.ssh/known_hosts
        port: 22
        folder: harness                  # relative to the home folder there, or absolute
        cache_limit_mb: 2000             # of deployed files; the least recently used are removed first
        wait_seconds: 3600               # while another harness measures on it; then it counts as unreachable
        sudo: true                       # ask its sudo, which must need no password, to set governors
        jump: me@gate.example:22         # reached through it; or host, user, port, key and so on as above
        power: [uhubctl, -a, "{action}"] # run here to switch it off, on or cycle it; or command and seconds
        energy: [read-plug, 192.0.2.9]   # run here while it works: prints its power in watts;
                                         # or {command: [...], unit: joules}: its energy so far
        retry: [2, 5, 15, 30, 60]        # seconds between attempts if it fails; then it is left out

Boards of a labgrid coordinator (the extra `labgrid`) have a place instead of a host. Its NetworkService gives
the address, and the user if the key `user` is absent:

    labgrid: {coordinator: lab.example:20408, wait_seconds: 600}   # for a place that somebody else holds
    boards:
      - {name: pi-in-the-lab, target: pi4, place: pi4-3, key: ~/.ssh/id_ed25519}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.energy import ENERGY_SHAPE, EnergyMeter
from harness.boards.labgrid.board import PlaceBoard
from harness.boards.labgrid.coordinator import Place
from harness.boards.paths import BoardPaths
from harness.boards.power import POWER_SHAPE, PowerHook
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.address_keys import (
    HOST_FIELDS,
    JUMP_SHAPE,
    MISNOMERS,
    NEVER_IN_A_HOST,
    USER_AT_HOST,
    checked_address,
)
from harness.boards.ssh.board import SshBoard
from harness.config.document import Node, read_document
from harness.config.targets import TargetShape
from harness.config.validation import (
    Boolean,
    Either,
    Field,
    Integer,
    ListOf,
    Number,
    Record,
    Schema,
    Text,
    document_schema,
)
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target


@dataclass(frozen=True, kw_only=True)
class BoardEntry:
    """A device of a boards file."""

    name: str
    target: Target
    address: SshAddress  # with a place: without a host, and possibly without a user
    place: Place | None = None
    power: PowerHook | None = None  # None: only a person can switch it off
    sensors: BoardPaths
    retry: tuple[float, ...] | None = None  # seconds between attempts to reach it; None: as sweeps do

    @property
    def where(self) -> str:
        """Its address or its place, for tables."""
        return str(self.place or self.address)


def read_boards(path: Path) -> list[BoardEntry]:
    """The boards of a file, in its order. Raises ConfigurationError with file and line."""
    return list(_FILE.read(read_document(path)))


def open_board(target: Target, boards_file: Path | None = None) -> Board:
    """The board for a target, to be used in a `with` statement; nothing is connected before that.

    Raises ConfigurationError if the boards file has another target of the same name.
    """
    if boards_file is not None:
        for entry in read_boards(boards_file):
            if entry.target.name == target.name:
                check_target(entry, target)
                return board_of(entry)
    if target.is_host:
        from harness.boards.host import HostBoard

        return HostBoard(target)
    from harness.boards.emulated import EmulatedBoard

    return EmulatedBoard(target)


def check_target(entry: BoardEntry, target: Target) -> None:
    """Raises ConfigurationError if a board has another target of the same name."""
    if entry.target != target:
        raise ConfigurationError(
            f"the board {entry.name} has another target with the name {target.name}",
            hint="Name the same target file here and in the boards file.",
        )


def board_of(entry: BoardEntry) -> SshBoard:
    """The board of an entry, to be used in a `with` statement."""
    if entry.place is not None:
        return PlaceBoard(entry.place, entry.name, entry.target, entry.address, sensors=entry.sensors)
    return SshBoard(entry.name, entry.target, entry.address, sensors=entry.sensors)


def _entry(
    node: Node,
    *,
    name: str,
    target: Target,
    place: str = "",
    power: PowerHook | None = None,
    sensors: BoardPaths | None = None,
    sudo: bool = False,
    energy: EnergyMeter | None = None,
    cache_limit_mb: int | None = None,
    retry: tuple[float, ...] | None = None,
    **rest: object,
) -> BoardEntry:
    for key, text in (("name", name), ("place", place)):
        if not text.isprintable():  # lines and tables show it
            raise node.error(f"the {key} {text!r} has unprintable characters", key=key)
    if target.is_host:
        raise node.error(
            f"the target {target.name} is this machine, which is not reached over SSH",
            hint="Remove this board: a sweep over host measures this machine. For another PC, write a "
            "targets file with its architecture and glibc.",
            key="target",
        )
    for key in ("host", "user"):
        if key not in rest and not place:
            raise node.error(f"a board needs the key {key} ({HOST_FIELDS[key].help}), or a place")
    if place and (extra := rest.keys() & {"host", "port"}):
        raise node.error(f"the board {name} has both a place and a {extra.pop()}", key="place")
    address = checked_address(node, f"the board {name}", **{"host": "", "user": "", **rest})
    if cache_limit_mb is not None:
        address = replace(address, cache_limit_bytes=cache_limit_mb * 10**6)
    if address.jump is not None and address.jump.key is None:
        address = replace(address, jump=replace(address.jump, key=address.key))
    return BoardEntry(
        name=name,
        target=target,
        address=address,
        place=Place(coordinator="", name=place) if place else None,
        power=power,
        sensors=replace(sensors or BoardPaths(), sudo=sudo, meter=energy),
        retry=retry,
    )


def _file(
    node: Node, *, boards: tuple[BoardEntry, ...], labgrid: Place | None = None
) -> tuple[BoardEntry, ...]:
    """Adds the coordinator to the boards' places."""
    names: set[str] = set()
    for entry, item in zip(boards, node.entries["boards"].items, strict=True):
        if entry.name in names:
            raise item.error(f"two boards are called {entry.name}")
        names.add(entry.name)
        if entry.place is not None and labgrid is None:
            raise node.error(
                f"the board {entry.name} has a place, but the file has no coordinator",
                hint="Add labgrid: {coordinator: HOST:PORT}.",
                key="boards",
            )
    return tuple(
        replace(entry, place=replace(labgrid, name=entry.place.name)) if labgrid and entry.place else entry
        for entry in boards
    )


_SENSORS: Record[BoardPaths] = Record(
    what="the sensors",
    make=lambda _node, **paths: BoardPaths(**paths),
    defaults=BoardPaths,
    fields={
        "sys": Field(
            shape=Text(expected="an absolute path", pattern=r"/[\s\S]*"),
            help="folder to read clocks and temperatures in",
            example="/mnt/sys",
        ),
        "proc": Field(
            shape=Text(expected="an absolute path", pattern=r"/[\s\S]*"),
            help="folder to read memory and load in",
            example="/mnt/proc",
        ),
        "vcgencmd": Field(
            shape=Text(expected="a program"),
            help="path of Raspberry Pi's vcgencmd",
            example="/opt/vc/bin/vcgencmd",
        ),
        "tegrastats": Field(
            shape=Text(expected="a program"),
            help="path of a Jetson's tegrastats",
            example="/usr/bin/tegrastats",
        ),
    },
)

_BOARD = Record(
    what="a board",
    make=_entry,
    misnomers=MISNOMERS,
    renamed={"keep_mb": "cache_limit_mb"},
    fields={
        "name": Field(
            shape=Text(expected="a name"), help="name in reports", required=True, example="pi-on-the-shelf"
        ),
        "target": Field(
            shape=TargetShape(),
            help="kind of board, as `harness targets` lists them, or the path of a targets file",
            required=True,
            example="pi4",
        ),
        **{key: replace(known, required=False) for key, known in HOST_FIELDS.items()},
        "place": Field(
            shape=Text(expected="a place"),
            help="labgrid's name of the board, instead of host and port",
            example="pi4-3",
        ),
        "folder": Field(
            shape=Text(expected="a folder"),
            help="folder on the board to put files in, absolute or relative to the home folder",
            default=SshAddress.folder,
            example="/data/harness",
        ),
        "cache_limit_mb": Field(
            shape=Integer(least=1, most=10**8),
            help="maximum size of the deployed files that stay on the board, in MB; the least recently used "
            "are removed first",
            default=SshAddress.cache_limit_bytes // 10**6,
            example=500,
        ),
        "wait_seconds": Field(
            shape=Number(least=0, most=1e6),
            help="how long to wait while another harness measures on the board, in seconds",
            default=SshAddress.wait_seconds,
            example=600,
        ),
        "sudo": Field(
            shape=Boolean(),
            help="set governors with the board's sudo, which must need no password",
            default=False,
            example=True,
        ),
        "jump": Field(
            shape=Either(short=USER_AT_HOST, long=JUMP_SHAPE),
            help="host to connect through, as user@host:port or as a mapping",
            example="me@gate.example:22",
        ),
        "power": Field(
            shape=POWER_SHAPE,
            help="command of this machine that switches the board off and on: a list of words, or a mapping",
            example=["uhubctl", "-l", "1-1", "-p", "2", "-a", "{action}"],
        ),
        "energy": Field(
            shape=ENERGY_SHAPE,
            help="command of this machine that prints the board's power or energy, as a list of words or a "
            "mapping",
            example=["read-plug", "192.0.2.9"],
        ),
        "sensors": Field(
            shape=_SENSORS,
            help="where the board keeps its sensors",
            example={"vcgencmd": "/opt/vc/bin/vcgencmd"},
        ),
        "retry": Field(
            shape=ListOf(what="pauses", item=Number(least=0, most=3600)),
            help="pauses before each further attempt to reach the board, in seconds; then the sweep goes on "
            "without it",
            default=[2, 5, 15, 30, 60],
            example=[1, 10],
        ),
    },
)

_LABGRID: Record[Place] = Record(
    what="labgrid",
    make=lambda _node, **values: Place(name="", **values),
    defaults=Place,
    fields={
        "coordinator": Field(
            shape=Text(expected="HOST:PORT", pattern=rf"(?!-)[^{NEVER_IN_A_HOST}]+:[0-9]{{1,5}}"),
            help="address of the coordinator",
            required=True,
            example="lab.example:20408",
        ),
        "wait_seconds": Field(
            shape=Number(least=0, most=1e6),
            help="how long to wait for a place that somebody else holds, in seconds",
            example=600,
        ),
    },
)

_FILE = Record(
    what="a boards file",
    make=_file,
    fields={
        "boards": Field(
            shape=ListOf(what="boards", item=_BOARD),
            help="devices",
            required=True,
            example=[{"name": "pi-on-the-shelf", "target": "pi4", "host": "192.168.1.20", "user": "pi"}],
        ),
        "labgrid": Field(
            shape=_LABGRID,
            help="labgrid coordinator of the boards that have a place",
            example={"coordinator": "lab.example:20408"},
        ),
    },
)


def json_schema() -> Schema:
    """The JSON schema of a boards file."""
    return document_schema("harness boards file", _FILE)
