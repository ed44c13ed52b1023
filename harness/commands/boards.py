"""`harness boards`: lists boards and whether they answer, examines them, switches their power."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.boards.inventory import BoardEntry

ANSWER_SECONDS = 20.0
_NOT_EMULATED = "cannot be emulated"
_HELD = {
    "other": "held",
    "running": "in use here",
    "dead": "left over",
    "unknown": "held by you",
}


def configure(parser: argparse.ArgumentParser) -> None:
    # Options of the command are also taken after the action; absent there, they keep what stands before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for name in ("--json", "--debug", "--quiet"):
        common.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for options in (parser, common):
        options.add_argument("--boards", type=Path, metavar="FILE", help="read boards from this YAML file")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", parents=[common], help="list the boards (the default)")
    probe = actions.add_parser(
        "probe", parents=[common], help="examine boards and compare them with their targets"
    )
    probe.add_argument(
        "names", nargs="*", metavar="NAME", help="examine these boards of the file (default: all)"
    )
    unlock = actions.add_parser(
        "unlock", parents=[common], help="release a labgrid place that you hold and no process uses"
    )
    unlock.add_argument("name", metavar="NAME", help="name of a board in the file")
    power = actions.add_parser("power", parents=[common], help="run a board's power command")
    power.add_argument("name", metavar="NAME", help="name of a board in the file")
    power.add_argument("switch", choices=("off", "on", "cycle"), help="the action")


def run(arguments: argparse.Namespace) -> int:
    """Returns status 5 if a board of the file does not answer, else 4 if one differs from its target."""
    if arguments.action == "probe":
        from harness.commands.boards_probe import run_probe

        return run_probe(entries(arguments.boards, arguments.names), as_json=arguments.json)
    if arguments.action == "power":
        return _power(arguments)
    if arguments.action == "unlock":
        return _unlock(arguments)
    return _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from harness.boards.inventory import read_boards

    rows = [_asked(entry) for entry in read_boards(arguments.boards)] if arguments.boards else []
    unreachable = any(row["status"] != "answers" for row in rows)
    rows += _this_machine()
    if arguments.json:
        console.emit_json({"boards": rows})
    else:
        _print(rows)
    return BoardUnreachableError.exit_status if unreachable else 0


def _asked(entry: BoardEntry) -> dict[str, object]:
    """The row of a board, which is connected and asked for its machine name."""
    from harness.boards.inventory import board_of
    from harness.boards.labgrid.board import hold_of
    from harness.text import one_line

    row: dict[str, object] = {"name": entry.name, "target": entry.target.name, "address": entry.where}
    row["kind"] = "labgrid" if entry.place else "ssh"
    try:
        if entry.place is not None and (hold := hold_of(entry.place)).by != "nobody":
            return row | {"status": _HELD[hold.by], "detail": f"held by {hold.holder}"}
        with board_of(entry) as board:
            machine = board.run(["uname", "-srm"], timeout=ANSWER_SECONDS)
    except HarnessError as error:
        return row | {"status": "does not answer", "detail": str(error)}
    return row | {"status": "answers", "detail": one_line(machine.stdout)}


def _this_machine() -> list[dict[str, object]]:
    """The host, and the targets that can be emulated on it."""
    from harness.config.targets import all_targets
    from harness.images.availability import emulation_missing
    from harness.qemu.profiler import profiling_missing

    rows: list[dict[str, object]] = []
    missing = emulation_missing()
    for target in all_targets():
        row: dict[str, object] = {"name": target.name, "target": target.name, "address": ""}
        if target.is_host:
            rows.append(row | {"kind": "host", "status": "answers", "detail": target.description})
        elif target.image:
            detail = missing or [f"{target.qemu_cpu} under QEMU", *profiling_missing()]
            status = _NOT_EMULATED if missing else "can be emulated"
            rows.append(row | {"kind": "emulated", "status": status, "detail": "; ".join(detail)})
    return rows


def _unlock(arguments: argparse.Namespace) -> int:
    from harness.boards.labgrid.board import unlock

    (entry,) = entries(arguments.boards, [arguments.name])
    if entry.place is None:
        raise ConfigurationError(f"{arguments.boards}: the board {entry.name} is not a labgrid place")
    holder = unlock(entry.place)
    if arguments.json:
        console.emit_json({"board": entry.name, "released_from": holder})
    else:
        console.log(f"{entry.where}: " + (f"released from {holder}" if holder else "it was not held"))
    return 0


def _power(arguments: argparse.Namespace) -> int:
    (entry,) = entries(arguments.boards, [arguments.name])
    if entry.power is None:
        raise ConfigurationError(
            f"{arguments.boards}: the board {entry.name} has no power command",
            hint='Give it one, for example power: [uhubctl, -l, 1-1, -p, 2, -a, "{action}"].',
        )
    entry.power.switch(arguments.switch)
    if arguments.json:
        console.emit_json({"board": entry.name, "power": arguments.switch})
    else:
        console.log(f"{entry.name}: power {arguments.switch}")
    return 0


def entries(file: Path | None, names: Sequence[str]) -> list[BoardEntry]:
    """The named boards of the file, or all without names. Raises ConfigurationError."""
    from harness.boards.inventory import read_boards
    from harness.config.document import suggestion

    if file is None:
        raise ConfigurationError("--boards is required", hint="Name the boards file: --boards FILE.")
    known = {entry.name: entry for entry in read_boards(file)}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"{file} has no board {name}: {suggestion(name, known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _print(rows: list[dict[str, object]]) -> None:
    from rich.table import Table

    columns = ("name", "target", "kind", "address", "status", "detail")
    table = Table(title="Boards")
    for column in columns:
        table.add_column(column, overflow="fold")
    reasons: dict[str, None] = {}  # the same for all emulated boards: once, below the table
    for row in rows:
        texts = {column: str(row[column]) for column in columns}
        if texts["status"] == _NOT_EMULATED:
            reasons[texts["detail"]] = None
            texts["detail"] = ""
        table.add_row(*(console.text(texts[column]) for column in columns))
    output = console.stdout()
    output.print(table)
    for reason in reasons:
        output.print(console.text(f"No board can be emulated here: {reason}"), soft_wrap=True)
