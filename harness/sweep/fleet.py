"""The boards a sweep may use: those of a boards file, this machine, and emulated boards for what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.targets import load_target

if TYPE_CHECKING:
    from harness.boards.board import Board

HOST = "host"


class Fleet:
    """Finds a board for a target. Raises ConfigurationError for a boards file that is wrong."""

    def __init__(self, boards_file: Path | None = None) -> None:
        self._file = boards_file
        self._real: frozenset[str] = frozenset()
        if boards_file is not None:
            from harness.boards.inventory import read_boards

            self._real = frozenset(entry.target for entry in read_boards(boards_file))

    def is_emulated(self, target: str) -> bool:
        """Whether a target's cells run on an emulated board."""
        return target != HOST and target not in self._real

    def missing(self) -> list[str]:
        """What has to be installed for emulated boards, a line each."""
        from harness.boards import emulation_missing

        return emulation_missing()

    def open(self, target: str) -> Board:
        """The board of a target, not connected yet."""
        from harness.boards import open_board

        return open_board(load_target(target), self._file)
