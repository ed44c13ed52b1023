"""The boards a sweep may use: those of a boards file, this machine, and emulated boards for what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.targets import load_target
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.boards.board import Board
    from harness.boards.inventory import BoardEntry

HOST = "host"
_EMULATED = " (emulated)"


class Fleet:
    """Finds boards for targets. Raises ConfigurationError for a boards file that is wrong."""

    def __init__(self, boards_file: Path | None = None) -> None:
        self._entries: dict[str, BoardEntry] = {}
        if boards_file is not None:
            from harness.boards.inventory import read_boards

            self._entries = {entry.name: entry for entry in read_boards(boards_file)}
        for name in self._entries:
            if name == HOST or name.endswith(_EMULATED):
                raise ConfigurationError(
                    f"{boards_file}: no board may be called {name}: this machine and emulated boards are",
                    cure="Give it another name.",
                )

    def is_emulated(self, target: str) -> bool:
        """Whether a target's cells run on an emulated board."""
        return target != HOST and not any(entry.target == target for entry in self._entries.values())

    def missing(self) -> list[str]:
        """What has to be installed for emulated boards, a line each."""
        from harness.boards import emulation_missing

        return emulation_missing()

    def boards(self, target: str) -> tuple[str, ...]:
        """The names of all boards of a target; an emulated one where there is no other."""
        if target == HOST:
            return (HOST,)
        real = tuple(name for name, entry in self._entries.items() if entry.target == target)
        return real or (target + _EMULATED,)

    def pauses(self, board: str) -> Sequence[float] | None:
        """Seconds between attempts to reach a board; None: nothing is said of it."""
        entry = self._entries.get(board)
        return entry.retry if entry else None

    def power_cycle(self, board: str) -> None:
        """Switches a board off and on, where its entry says how. Raises HarnessError where that fails."""
        entry = self._entries.get(board)
        if entry is not None and entry.power is not None:
            entry.power.switch("cycle")

    def open(self, board: str) -> Board:
        """A board, not connected yet."""
        from harness.boards.inventory import board_of, open_board

        if entry := self._entries.get(board):
            return board_of(entry)
        return open_board(load_target(board.removesuffix(_EMULATED)))
