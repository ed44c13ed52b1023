"""`harness boards`: lists the boards and whether they answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import console
from harness.boards.availability import emulation_missing
from harness.boards.block_profiler import profiling_missing
from harness.boards.inventory import BoardEntry, read_boards
from harness.boards.ssh import SshBoard
from harness.configuration.targets import all_targets, load_target
from harness.errors import BoardUnreachableError, HarnessError

PROBE_SECONDS = 20.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--boards", type=Path, metavar="FILE", help="a YAML file of boards that answer to SSH"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit status 5 when a board of the file does not answer."""
    rows = [probe(entry) for entry in read_boards(arguments.boards)] if arguments.boards else []
    unreachable = any(row["status"] != "answers" for row in rows)
    rows += _this_machine()
    if arguments.json:
        console.emit_json({"boards": rows})
    else:
        _print(rows)
    return BoardUnreachableError.exit_status if unreachable else 0


def probe(entry: BoardEntry) -> dict[str, object]:
    """A row about a board, which is connected to and asked for its machine."""
    row: dict[str, object] = {"name": entry.name, "target": entry.target, "kind": "ssh"}
    row["address"] = str(entry.address)
    try:
        with SshBoard(entry.name, load_target(entry.target), entry.address) as board:
            machine = board.run(["uname", "-srm"], timeout=PROBE_SECONDS)
    except HarnessError as error:
        return row | {"status": "does not answer", "detail": str(error)}
    return row | {"status": "answers", "detail": machine.stdout.strip()}


def _this_machine() -> list[dict[str, object]]:
    """The host, and the targets that can be emulated on it."""
    rows: list[dict[str, object]] = []
    missing = emulation_missing()
    for target in all_targets():
        row: dict[str, object] = {"name": target.name, "target": target.name, "address": ""}
        if target.is_host:
            rows.append(row | {"kind": "host", "status": "answers", "detail": target.description})
        elif target.image:
            detail = missing or [f"{target.qemu_cpu} under QEMU", *profiling_missing()]
            status = "cannot be emulated" if missing else "can be emulated"
            rows.append(row | {"kind": "emulated", "status": status, "detail": "; ".join(detail)})
    return rows


def _print(rows: list[dict[str, object]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Boards")
    for column in ("name", "target", "kind", "address", "status", "detail"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            *(
                escape(str(row[column]))
                for column in ("name", "target", "kind", "address", "status", "detail")
            )
        )
    console.stdout().print(table)
